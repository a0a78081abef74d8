"""Writes log lines from a thread, so that a slow terminal or a full pipe delays nothing else."""

import io
import json
import logging
import os
import select
import threading
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import Any, Literal, Self

from stem.core.text.escaping import plain, plain_json

Format = Literal["text", "json"]

STDERR = 2
TAB = "\t"  # the only control character in a line, so that no task can print the line of another
LEVELS = ("debug", "info", "warning", "error")
MOST_WAITING = 10_000
# What a task prints becomes a record of this logger, with the id of the task.
OUTPUT = "stem.task"


class LogWriter:
    """Takes all records of this process while it is open: `with LogWriter("info", "text"):`.

    Logging never blocks: records that find the queue full are dropped and counted, and the count is logged later. Closing
    writes what is queued, but waits no longer than `CLOSE_SECONDS` for a reader that has stopped reading.
    """

    CLOSE_SECONDS = 2.0

    def __init__(
        self,
        level: str,
        form: Format,
        *,
        worker: str = "",
        descriptor: int = STDERR,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """`worker` is a field of every JSON line."""
        self._level = level.upper()
        self._descriptor = descriptor
        self._formatter = TextFormatter() if form == "text" else JsonFormatter(worker)
        self._handler = _Backlog(most_waiting)
        self._thread = Thread(target=self._write_all, name="log-writer", daemon=True)
        self._is_closing = Event()
        self._levels: dict[logging.Logger, int] = {}
        self._previous_hook = threading.excepthook

    def __enter__(self) -> Self:
        self._set_level(logging.getLogger(), self._level)
        self._set_level(logging.getLogger(OUTPUT), "DEBUG")  # the worker does not filter what tasks log
        logging.getLogger().addHandler(self._handler)
        self._previous_hook, threading.excepthook = threading.excepthook, _log_crash
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        threading.excepthook = self._previous_hook
        logging.getLogger().removeHandler(self._handler)
        for logger, level in self._levels.items():
            logger.setLevel(level)
        self._is_closing.set()
        self._handler.wake()
        self._thread.join(self.CLOSE_SECONDS)

    def say(self, text: str) -> None:
        """Write lines for people, unformatted, after what has been logged before."""
        self._handler.put(f"{text}\n")

    @property
    def waiting(self) -> int:
        return self._handler.queue.qsize()

    def _set_level(self, logger: logging.Logger, level: str) -> None:
        self._levels[logger] = logger.level
        logger.setLevel(level)

    def _write_all(self) -> None:
        while (lines := self._next_lines()) is not None:
            try:
                _write(self._descriptor, lines.encode(errors="backslashreplace"))
            except OSError:
                return  # the reader is gone

    def _next_lines(self) -> str | None:
        """Return all queued lines as one text; None: everything is written, and no more will come."""
        items = self._handler.take(wait=not self._is_closing.is_set())
        if not items and self._is_closing.is_set():
            return None
        if dropped := self._handler.take_dropped():
            items.append(_record("log.dropped lines=%d: they came faster than they could be written", dropped))
        return "".join(item if isinstance(item, str) else f"{self._formatter.format(item)}\n" for item in items)


class _Backlog(QueueHandler):
    """The queue of records; the writing thread formats them."""

    queue: "Queue[logging.LogRecord | str | None]"

    def __init__(self, most_waiting: int) -> None:
        super().__init__(Queue(most_waiting))
        self._dropped = 0
        self._counting = Lock()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        self.put(record)

    def put(self, item: logging.LogRecord | str) -> None:
        try:
            self.queue.put_nowait(item)
        except Full:
            with self._counting:
                self._dropped += 1

    def wake(self) -> None:
        try:
            self.queue.put_nowait(None)
        except Full:
            return  # then the other end is awake

    def take(self, *, wait: bool) -> list[logging.LogRecord | str]:
        """Take what is queued; with `wait`, block for the first item."""
        found = [self.queue.get()] if wait else []
        try:
            while len(found) < 1000:
                found.append(self.queue.get_nowait())
        except Empty:
            pass
        return [item for item in found if item is not None]

    def take_dropped(self) -> int:
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        return dropped


class LogStream(io.TextIOBase):
    """Replaces stdout and stderr of a JSON log: each line becomes a JSON object."""

    def __init__(self, logger: str, event: str, *, descriptor: int = STDERR) -> None:
        self._logger = logger
        self._event = event
        self._descriptor = descriptor
        self._formatter = JsonFormatter()
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            record = logging.LogRecord(self._logger, logging.INFO, "", 0, f"{self._event} {line}", (), None)
            _write(self._descriptor, f"{self._formatter.format(record)}\n".encode(errors="backslashreplace"))
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor


class TextFormatter(logging.Formatter):
    """`2026-01-31T09:00:00.000Z INFO worker.started name=…`; one line per record, plus its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname} {_head(record)}{plain(record.getMessage(), but=TAB)}{_trace_id(record)}"
        trace = _trace(self, record)
        return "\n".join([line, *(f"  {plain(part, but=TAB)}" for part in trace.splitlines())])


class JsonFormatter(logging.Formatter):
    """One JSON object per line. `event` is the first word of the message, `taskId` the task it is about, if any; further
    facts about the task are fields."""

    def __init__(self, worker: str = "") -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        is_output = record.name == OUTPUT
        fields: dict[str, Any] = {
            "at": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": "task.output" if is_output else message.split(" ", 1)[0].rstrip(":"),
            "message": message,
        }
        if task_id := getattr(record, "task_id", ""):
            fields["taskId"] = task_id
        fields |= getattr(record, "fields", {})
        if self._worker:
            fields["worker"] = self._worker
        if trace := _trace(self, record):
            if not is_output or trace.startswith("Traceback"):
                fields["stack"] = trace
            else:
                fields["message"] = f"{message}\n{trace}"
        return plain_json(json.dumps(fields))


def _write(descriptor: int, data: bytes) -> None:
    """Write past Python's streams, whose locks a stuck writer would hold beyond the end of the process."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # a terminal that another process made non-blocking
            select.select([], [descriptor], [])


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _head(record: logging.LogRecord) -> str:
    return f"task.output id={getattr(record, 'task_id', '') or '-'} " if record.name == OUTPUT else ""


def _trace_id(record: logging.LogRecord) -> str:
    """At the end of the line, because it is long and says least."""
    trace_id = getattr(record, "fields", {}).get("traceId", "")
    return f" traceId={trace_id}" if trace_id else ""


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Return what follows the first line: a traceback, or the rest of what a task logged."""
    if record.exc_info and record.exc_info[0]:
        return formatter.formatException(record.exc_info)
    more: str = getattr(record, "more", "")
    return more


def _log_crash(crashed: threading.ExceptHookArgs) -> None:
    """Log a thread that ended with an exception."""
    name = crashed.thread.name if crashed.thread is not None else "?"
    error = crashed.exc_value
    exc_info = (crashed.exc_type, error, crashed.exc_traceback) if error is not None else None
    logging.getLogger("stem.log").critical("thread.crashed name=%s", name, exc_info=exc_info)


def _record(message: str, *values: object) -> logging.LogRecord:
    return logging.LogRecord("stem.log", logging.WARNING, __file__, 0, message, values, None)
