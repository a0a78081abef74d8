"""Report an error: one sentence or one JSON object on stderr, and an exit code."""

import os
import re
from collections.abc import Sequence

import click

from stem.cli.support.printing import plain
from stem.core.errors import StemError
from stem.core.text.escaping import plain_lines
from stem.core.text.masking import masked_text

USAGE = 64
FAILURE = 70


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Print the error and return its exit code."""
    kind, message, exit_code = _described(error)
    if _is_given("--traceback", arguments) or os.environ.get("STEM_DEBUG") == "1":
        import traceback

        click.echo(plain_lines(masked_text("".join(traceback.format_exception(error)))), err=True, nl=False)
    if _is_given("--json", arguments):
        import json

        click.echo(json.dumps({"error": {"type": kind, "message": message}}), err=True)
    else:
        click.echo(f"error: {one_line(message)}", err=True)
    return exit_code


def _described(error: Exception) -> tuple[str, str, int]:
    """Return its type, its sentence and its exit code."""
    match error:
        case StemError():
            return type(error).__name__, str(error), error.exit_code
        case click.UsageError():
            return "UsageError", _with_pointer(error), USAGE
        case _:
            import traceback

            # Only the first line: Java's messages hold a whole stack.
            brief = traceback.format_exception_only(error)[-1].strip().partition("\n")[0][:300]
            remedy = "run it again with --traceback, and report what it shows"
            return type(error).__name__, f"Stem met something it did not expect ({brief}); {remedy}.", FAILURE


def _with_pointer(error: click.UsageError) -> str:
    sentence = error.format_message().rstrip(".")
    if not error.ctx:
        return f"{sentence}."
    if flag := _flag_meant(sentence, error.ctx):
        return f"{sentence}; write it as {flag}."
    pointer = f"see '{error.ctx.command_path} --help'."
    return f"{sentence} {pointer[0].upper()}{pointer[1:]}" if sentence.endswith("?") else f"{sentence}; {pointer}"


def _flag_meant(sentence: str, context: click.Context) -> str | None:
    """Return the flag for a bare word that is an app or an argument: `shop:app`, `customer=7`."""
    found = re.fullmatch(r"Got unexpected extra arguments? \((.+)\)", sentence)
    flags = {flag for parameter in context.command.params for flag in parameter.opts}
    words = found[1].split() if found else []
    if "--arg" in flags and words and all("=" in word for word in words):
        return " ".join(f"--arg {word}" for word in words)
    if "--app" in flags and len(words) == 1 and re.fullmatch(r"[\w.]+:\w+", words[0]):
        return f"--app {words[0]}"
    return None


def one_line(message: str) -> str:
    return plain(" ".join(message.split()))


def _is_given(flag: str, arguments: Sequence[str]) -> bool:
    """Look at the bare arguments, which may be what could not be parsed."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return flag in options
