"""The `stem` command: its nouns and its exit codes."""

import gc
import os
import sys
from collections.abc import Sequence

import click

from stem.cli.support import failure
from stem.cli.support.lazy_group import LazyGroup
from stem.core.errors import ConfigError, UsageError

NOUNS = (
    "worker",
    "enqueue",
    "task",
    "canvas",
    "queue",
    "routing",
    "dlq",
    "observe",
    "top",
    "schedule",
    "beat",
    "health",
    "config",
    "pipeline",
    "dashboard",
    "init",
    "deploy",
    "migrate",
    "completion",
)  # a file each
INTERRUPTED = 130
COMPLETING = "_STEM_COMPLETE"
CLOSED_PIPE = 141  # as the shell reports a program that SIGPIPE ended


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 fine, 1 not found, 64 usage or configuration, 70 failure."""
    if COMPLETING in os.environ:  # a shell asks, with a script that `stem completion` printed
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "stem", COMPLETING, os.environ[COMPLETING]))
    exit_code = run(sys.argv[1:] if argv is None else argv)
    gc.freeze()  # else the interpreter would search everything that was imported for garbage on exit
    sys.exit(exit_code)


def run(arguments: Sequence[str]) -> int:
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        exit_code = _invoke(arguments)
        sys.stdout.flush()
        return exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone. The interpreter flushes stdout once more on exit; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except Exception as error:  # noqa: BLE001  the boundary: whatever it was, the user sees a sentence
        return failure.report(error, arguments)


def _open_closed_streams() -> None:
    """Open closed streams to nowhere, so that no file or socket gets their numbers."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open until the end
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _check_files_are_ours() -> None:
    """Refuse to run if the other library called `stem` has replaced files of this package."""
    import stem

    if not hasattr(stem, "_HOMES"):
        raise ConfigError(
            "Another package has replaced Stem's own files: 'stem' is a different library, this one is 'stem-tasks'; run: "
            "pip uninstall stem && pip install --force-reinstall stem-tasks"
        )


def _invoke(arguments: Sequence[str]) -> int:
    _check_files_are_ours()
    _check_text(arguments)
    try:
        # Not `cli.main()`, which has exit codes and words of its own for errors, Ctrl-C and closed pipes.
        with cli.make_context("stem", list(arguments)) as context:
            from stem.cli.support.log_lines import escape_log_lines  # here, for `--help` and `--version` log nothing

            escape_log_lines()
            cli.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as bare:
        click.echo(bare.ctx.get_help() if bare.ctx else "")
        return 0
    return 0


def _check_text(arguments: Sequence[str]) -> None:
    """Refuse bytes that are not UTF-8: stores and JSON cannot hold them."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"Argument {word!r} is not UTF-8 text.") from error


def _print_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        click.echo(f"stem {version('stem-tasks')}")
        context.exit()


class Root(LazyGroup):
    def spellings(self, ctx: click.Context) -> dict[str, str]:
        """Suggest commands from one level below as well: for `stem ping`, `stem worker ping`."""
        below: dict[str, str] = {}
        for noun in ("worker", "dlq", "task", "queue", "schedule"):
            group = self.get_command(ctx, noun)
            if isinstance(group, click.Group):
                below |= {verb: f"'{ctx.command_path} {noun} {verb}'" for verb in group.list_commands(ctx)}
        return below | super().spellings(ctx)


@click.group(
    cls=Root,
    homes={noun: f"stem.cli.{noun}" for noun in NOUNS}
    | {noun: f"stem.cli.{noun}.group:{noun}" for noun in ("worker", "observe", "schedule", "pipeline")}
    | {noun: f"stem.cli.{noun}.command" for noun in ("top", "init", "deploy")},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 fine, 1 not found, 64 usage or configuration, 70 failure.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Durable background tasks on SQLite, Redis or Postgres.

    \b
    stem worker start --app shop:app                    run tasks
    stem enqueue mail.send --arg to=ada@example.com     send a task
    stem task list --state failed --since 1h            see what failed
    stem dlq replay --queue default                     give it another try

    The store is sqlite:///stem.db unless STEM_BROKER_URL or --broker-url names another.
    """
