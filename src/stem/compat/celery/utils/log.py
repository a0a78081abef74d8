"""Loggers of tasks: their records go to the worker's log, with the id of the task."""

import logging


def get_task_logger(name: str) -> logging.Logger:
    """The logger of that name; what it says inside a task is logged by the worker with the task's id."""
    if name in ("celery", "celery.task"):
        raise RuntimeError(f"Logger name {name!r} is reserved; use get_task_logger(__name__).")
    return get_logger(name)


def get_logger(name: str) -> logging.Logger:
    return logging.getLogger(name)
