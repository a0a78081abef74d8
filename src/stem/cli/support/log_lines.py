"""Escape the log lines of a command: what a store or a worker answered may stand in them."""

import logging

from stem.core.text.escaping import plain, plain_lines


def escape_log_lines() -> None:
    """Escape records that no handler takes, which Python prints to stderr. A worker has its own handler."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Escaping())


class _Escaping(logging.Formatter):
    """The message on one line, then its traceback, if it has one."""

    def format(self, record: logging.LogRecord) -> str:
        message = plain(record.getMessage(), but="\t")
        return f"{message}\n{plain_lines(self.formatException(record.exc_info))}" if record.exc_info else message
