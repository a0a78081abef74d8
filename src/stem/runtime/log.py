"""Log lines of a worker: written by a thread of their own, so that a slow terminal or a full pipe holds up nobody else."""

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

from stem.core.escaping import plain, plain_json

Format = Literal["text", "json"]

STDERR = 2
TAB = "\t"  # the one control that a line may hold: none of what a task prints can pass for a line of another's
LEVELS = ("debug", "info", "warning", "error")
MOST_WAITING = 10_000
# What a task prints comes as a record of this logger, with the id of the task.
OUTPUT = "stem.task"


class LogWriter:
    """Takes all records of this process while it is open: `with LogWriter("info", "text"):`.

    Whoever logs never waits: what finds the queue full is dropped and counted, and the count is told when there is room
    again. Closing writes what waits, but gives a reader that has stopped reading no more than `CLOSE_SECONDS`.
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
        self._set_level(logging.getLogger(OUTPUT), "DEBUG")  # what tasks say is not for the worker to leave out
        logging.getLogger().addHandler(self._handler)
        self._previous_hook, threading.excepthook = threading.excepthook, _tell_fallen
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
        """Lines for people, as they are, behind what has been logged before."""
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
                return  # nobody reads any more

    def _next_lines(self) -> str | None:
        """All that waits, as one text; None: all has been written, and no more will come."""
        items = self._handler.take(wait=not self._is_closing.is_set())
        if not items and self._is_closing.is_set():
            return None
        if dropped := self._handler.take_dropped():
            items.append(_told("log.dropped lines=%d: they came faster than they could be written", dropped))
        return "".join(item if isinstance(item, str) else f"{self._formatter.format(item)}\n" for item in items)


class _Backlog(QueueHandler):
    """The near end: records as they are, for they are formatted where they are written."""

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
            return  # then the other end is not asleep

    def take(self, *, wait: bool) -> list[logging.LogRecord | str]:
        """What waits, the first of it waited for."""
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
    """Stands for stdout and stderr where lines that are no JSON would spoil the log: each becomes an object of its own."""

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
    """`2026-01-31T09:00:00.000Z INFO worker.started name=…`; one line a record, unless it has a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname} {_head(record)}{plain(record.getMessage(), but=TAB)}"
        trace = _trace(self, record)
        return "\n".join([line, *(f"  {plain(part, but=TAB)}" for part in trace.splitlines())])


class JsonFormatter(logging.Formatter):
    """One JSON object a line. `event` is the first word of the message, `taskId` the task that it is about, if any; what else
    whoever logged it has said of the task are fields as well."""

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
    """Past Python's own streams, whose locks a writer that is stuck would keep until after the end of the process."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # a terminal that somebody else has made so
            select.select([], [descriptor], [])


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _head(record: logging.LogRecord) -> str:
    return f"task.output id={getattr(record, 'task_id', '') or '-'} " if record.name == OUTPUT else ""


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """What stands below the first line: a traceback, of this process or of a task's, or the rest of what a task logged."""
    if record.exc_info and record.exc_info[0]:
        return formatter.formatException(record.exc_info)
    more: str = getattr(record, "more", "")
    return more


def _tell_fallen(fallen: threading.ExceptHookArgs) -> None:
    """A thread that ends by an exception is told like everything else."""
    name = fallen.thread.name if fallen.thread is not None else "?"
    error = fallen.exc_value
    exc_info = (fallen.exc_type, error, fallen.exc_traceback) if error is not None else None
    logging.getLogger("stem.log").critical("thread.fell name=%s", name, exc_info=exc_info)


def _told(message: str, *values: object) -> logging.LogRecord:
    return logging.LogRecord("stem.log", logging.WARNING, __file__, 0, message, values, None)
