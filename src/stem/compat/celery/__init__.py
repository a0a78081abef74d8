"""Celery's API on Stem: write `from stem.compat.celery import Celery` where the project has `from celery import Celery`.

A translation onto Stem's own client; docs/coming-from-celery.md has what differs. What has no counterpart is refused with a
sentence that names the replacement (`refused.py`).
"""

from typing import Any

from stem.compat.celery.app.base import Celery as Celery
from stem.compat.celery.app.base import shared_task as shared_task
from stem.compat.celery.app.task import CeleryTask as Task
from stem.compat.celery.canvas import CelerySignature as Signature
from stem.compat.celery.canvas import chain as chain
from stem.compat.celery.canvas import chord as chord
from stem.compat.celery.canvas import chunks as chunks
from stem.compat.celery.canvas import group as group
from stem.compat.celery.canvas import maybe_signature as maybe_signature
from stem.compat.celery.canvas import signature as signature
from stem.compat.celery.canvas import subtask as subtask
from stem.compat.celery.canvas import xmap as xmap
from stem.compat.celery.canvas import xstarmap as xstarmap
from stem.compat.celery.current import current_app as current_app
from stem.compat.celery.current import current_task as current_task
from stem.compat.celery.refused import NAMES, refuse_import
from stem.compat.celery.utils import uuid as uuid

__all__ = [
    "Celery",
    "Signature",
    "Task",
    "chain",
    "chord",
    "chunks",
    "current_app",
    "current_task",
    "group",
    "maybe_signature",
    "shared_task",
    "signature",
    "subtask",
    "uuid",
    "xmap",
    "xstarmap",
]


def __getattr__(name: str) -> Any:
    refuse_import(NAMES, "celery", name)
