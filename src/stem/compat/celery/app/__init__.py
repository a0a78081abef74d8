"""The app and its parts."""

from typing import Any

from stem.compat.celery.app.base import Celery as Celery
from stem.compat.celery.app.base import shared_task as shared_task
from stem.compat.celery.current import current_app


def app_or_default(app: Any = None) -> Any:
    """The app, or the current one."""
    return app if app is not None else current_app


default_app = current_app
