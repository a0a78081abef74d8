"""Mistakes in an app's own code."""

from acceptance.mistakes.mistake import Mistake

MISTAKES = [
    Mistake(
        name="an app in a module that does not exist",
        run="stem worker start --app nowhere:app",
        says="no module 'nowhere'",
        exit_code=64,
    ),
]
