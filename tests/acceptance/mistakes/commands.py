"""Mistakes on the command line and in the configuration."""

from acceptance.mistakes.mistake import Mistake

MISTAKES = [
    Mistake(name="an unknown command", run="stem frobnicate", says="No such command", exit_code=64),
]
