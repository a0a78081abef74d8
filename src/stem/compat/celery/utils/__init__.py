"""What projects import from Celery's utilities."""

from uuid import uuid4

from stem.compat.celery.utils.log import get_logger as get_logger
from stem.compat.celery.utils.log import get_task_logger as get_task_logger


def uuid() -> str:
    """A new id for a task."""
    return str(uuid4())
