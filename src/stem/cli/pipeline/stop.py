"""End a command on SIGINT or SIGTERM with one line and the exit code of the signal, without a traceback."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer, current_thread, main_thread
from types import FrameType

import click

INTERRUPTED, TERMINATED = 130, 143
_LINE = "Stopped before it was done; run it again to go on."
_GRACE_SECONDS = 10.0


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM, as KeyboardInterrupt is by Ctrl-C."""


@contextmanager
def stoppable() -> Iterator[None]:
    """A signal to the process group also ends Spark's JVM, so an error after a signal counts as the signal."""
    if current_thread() is not main_thread():
        yield
        return
    told: list[Timer] = []

    def stop(number: int, _: FrameType | None) -> None:
        is_term = number == signal.SIGTERM
        told.append(_last_resort(TERMINATED if is_term else INTERRUPTED))
        raise Terminated if is_term else KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    logging.getLogger().addFilter(_is_news)
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise _ended(TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED) from stopped
    except Exception as error:
        if told:
            raise _ended(TERMINATED) from error
        raise
    finally:
        for timer in told:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_resort(code: int) -> Timer:
    """Python ignores exceptions raised in a finaliser or a fork hook; end the process if that happens."""
    timer = Timer(_GRACE_SECONDS, _end_at_once, (code,))
    timer.daemon = True
    timer.start()
    return timer


def _end_at_once(code: int) -> None:
    os.write(2, f"{_LINE}\n".encode())
    os._exit(code)  # the JVM ends with its input


def _ended(code: int) -> click.exceptions.Exit:
    click.echo(_LINE, err=True)
    return click.exceptions.Exit(code)


def _is_news(record: logging.LogRecord) -> bool:
    """Drop the stack traces that Py4J logs for every interrupt."""
    return "while sending command" not in record.getMessage()
