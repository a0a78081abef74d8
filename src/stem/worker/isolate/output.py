"""What tasks print and log: tagged with the task's id in the isolate, read line by line in the supervisor."""

import io
import logging
import os
import sys
from contextvars import ContextVar
from fcntl import ioctl
from termios import FIONREAD
from threading import Lock
from typing import Any

from stem.core.text.sensitive import without_values
from stem.telemetry import tracing

_START, _END, _OVER = "\x02", "\x03", "\x04"
_LEVEL, _NEWLINE = "\x1f", "\x1e"  # around the level of a log record; between the lines of its text
TRACE_MARK = " "  # between the task's id and that of its trace
_NONE = bytes(4)
MAX_LINE = 64 * 1024
MAX_PIECE = 15 * 1024  # characters; with its tag it stays below a line's bytes

_task: ContextVar[str] = ContextVar("stem_output_task", default="")
_hidden: ContextVar[tuple[str, ...]] = ContextVar("stem_output_hidden", default=())  # values that its lines do not say


class TaskOutput(io.TextIOBase):
    """Stands for stdout and stderr in an isolate: whole lines, each with the id of the task that wrote it.

    What goes around it (a subprocess, C code) reaches the same pipe untagged.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._parts: dict[str, str] = {}
        self._unread = bytearray(4)  # how many bytes are in the pipe, as the kernel writes it
        self._unlock()
        os.register_at_fork(after_in_child=self._unlock)

    @property
    def task(self) -> str:
        return _task.get()

    @task.setter
    def task(self, task_id: str) -> None:
        _task.set(task_id)
        _hidden.set(())

    def add_trace(self) -> None:
        """Tag what follows with the current trace as well."""
        if trace_id := tracing.current_trace_id():
            _task.set(f"{_task.get()}{TRACE_MARK}{trace_id}")

    def hide(self, values: tuple[str, ...]) -> None:
        """Mask these in what the task prints and logs from now on."""
        _hidden.set(values)

    def write(self, text: str) -> int:
        task = _task.get()
        head, newline, tail = (self._parts.pop(task, "") + text).rpartition("\n")
        if newline:
            self._put(task, "", head)
        if len(tail) > MAX_PIECE:
            self._put(task, "", tail)
        elif tail:
            self._parts[task] = tail
        return len(text)

    def flush(self) -> None:
        """What has no end of line yet goes out as a line of its own."""
        if part := self._parts.pop(_task.get(), ""):
            self._put(_task.get(), "", part)

    def end_task(self) -> None:
        """The task that ran alone here is over: what went around us and is still in the pipe was its own."""
        self.flush()
        ioctl(self._descriptor, FIONREAD, self._unread)
        if self._unread != _NONE:
            os.write(self._descriptor, f"{_START}{_task.get()}{_END}{_OVER}\n".encode())

    def log(self, level: int, text: str) -> None:
        """A log record: it keeps its level, and its lines stay together."""
        self._put(_task.get(), f"{_LEVEL}{level}{_LEVEL}", text.replace("\n", _NEWLINE))

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._descriptor

    def _unlock(self) -> None:
        self._lock = Lock()

    def _put(self, task: str, level: str, text: str) -> None:
        text = without_values(text, _hidden.get())
        tag = f"{_START}{task}{_END}{level}"
        pieces = [piece for line in text.split("\n") for piece in _pieces(line)]
        view = memoryview("".join(f"{tag}{piece}\n" for piece in pieces).encode(errors="backslashreplace"))
        with self._lock:  # inline threads; a pipe keeps only small writes whole
            while view:
                view = view[os.write(self._descriptor, view) :]


def split_level(text: str) -> tuple[int, str]:
    """The level and the text of what `Lines` has read: of a log record its own, of anything else INFO."""
    empty, _, rest = text.partition(_LEVEL)
    level, separator, message = rest.partition(_LEVEL)
    if empty or not separator or not level.isdecimal() or len(level) > 4:
        return logging.INFO, text
    return int(level), message.replace(_NEWLINE, "\n")


def redirect_output(stream: TaskOutput) -> None:
    """Let all that this process prints or logs go through the stream. An app that has set up no logging logs from
    STEM_LOG_LEVEL on, else from INFO."""
    logging.StreamHandler.emit = _emit  # type: ignore[assignment,method-assign]
    replaced = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    sys.stdout = sys.stderr = stream
    root = logging.getLogger()
    loggers = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    for handler in [handler for logger in loggers for handler in logger.handlers]:
        # One that was made when the app was imported writes to what stdout and stderr were then.
        if isinstance(handler, logging.StreamHandler) and handler.stream in replaced:
            handler.setStream(stream)
    if not root.handlers:
        level = logging.getLevelName(os.environ.get("STEM_LOG_LEVEL", "").upper())
        logging.basicConfig(
            stream=stream,
            level=level if isinstance(level, int) else logging.INFO,
            format="%(name)s: %(message)s",
        )


_emit_as_text = logging.StreamHandler.emit


def _emit(handler: "logging.StreamHandler[Any]", record: logging.LogRecord) -> None:
    """Replaces `StreamHandler.emit` in isolates, because a stream is told the text of a record and not its level. For the
    class: a task may set up its logging when it runs."""
    if not isinstance(handler.stream, TaskOutput):
        _emit_as_text(handler, record)
        return
    try:
        handler.stream.log(record.levelno, handler.format(record))
    except Exception:  # noqa: BLE001 - as the standard library does: logging never ends a task
        handler.handleError(record)


class OutputReader:
    """Cuts what an isolate's pipe brings into lines with the task's id. Where no task has tagged them that is `alone`, the
    only task that ran there; "" if there was none."""

    def __init__(self) -> None:
        self._rest = b""
        self._alone = ""  # whose the rest is

    def feed(self, data: bytes, alone: str) -> list[tuple[str, str]]:
        # Half a line of a task that is over is not the beginning of another one's.
        found = self.end() if self._alone != alone and not self._rest.startswith(_START.encode()) else []
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            whole.append(self._rest)
            self._rest = b""
        self._alone = alone
        return found + _read(whole, alone)

    def end(self) -> list[tuple[str, str]]:
        rest, self._rest = self._rest, b""
        return _read([rest] if rest else [], self._alone)


def _read(lines: list[bytes], alone: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    over = 0  # up to here the writer is known
    for line in lines:
        # Output past the stream may stop within a line; a tag begins a new one.
        before, start, tagged = line.decode(errors="backslashreplace").partition(_START)
        task, end, text = tagged.partition(_END)
        if not end:
            found.append(("", before + start + tagged))
            continue
        if before:
            found.append(("", before))
        if text == _OVER:
            found[over:] = [(known or task, said) for known, said in found[over:]]
            over = len(found)
        else:
            found.append((task, text))
    return [(task or alone, text) for task, text in found]


def _pieces(line: str) -> list[str]:
    if len(line) <= MAX_PIECE:
        return [line]
    return [line[start : start + MAX_PIECE] for start in range(0, len(line), MAX_PIECE)]
