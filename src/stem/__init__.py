"""Durable background tasks for Python.

Names load when first used, so that `import stem` costs next to nothing.
"""

import os.path
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__: str

if TYPE_CHECKING:
    from stem.client.app import Stem as Stem
    from stem.client.canvas.canvas import Canvas as Canvas
    from stem.client.canvas.canvas import chain as chain
    from stem.client.canvas.group import chord as chord
    from stem.client.canvas.group import group as group
    from stem.client.canvas.handle import CanvasHandle as CanvasHandle
    from stem.client.canvas.handle import CanvasStatus as CanvasStatus
    from stem.client.canvas.signature import Signature as Signature
    from stem.client.canvas.workflow import workflow as workflow
    from stem.client.middleware import Middleware as Middleware
    from stem.client.run.context import TaskContext as TaskContext
    from stem.client.run.context import current_task as current_task
    from stem.client.send.broadcast import BroadcastHandle as BroadcastHandle
    from stem.client.send.handle import TaskHandle as TaskHandle
    from stem.client.send.sender import Bulk as Bulk
    from stem.client.send.sender import Item as Item
    from stem.client.task.task import AsyncTask as AsyncTask
    from stem.client.task.task import Task as Task
    from stem.core.decisions.retry import Delays as Delays
    from stem.core.decisions.retry import Exponential as Exponential
    from stem.core.decisions.retry import Fixed as Fixed
    from stem.core.decisions.routing import Route as Route
    from stem.core.errors import ConfigError as ConfigError
    from stem.core.errors import DeadLetterNotFound as DeadLetterNotFound
    from stem.core.errors import Drop as Drop
    from stem.core.errors import EnvelopeUnreadable as EnvelopeUnreadable
    from stem.core.errors import EventTimeout as EventTimeout
    from stem.core.errors import InvalidArguments as InvalidArguments
    from stem.core.errors import InvalidSchedule as InvalidSchedule
    from stem.core.errors import InvalidTask as InvalidTask
    from stem.core.errors import NoLiveWorkers as NoLiveWorkers
    from stem.core.errors import SignatureInvalid as SignatureInvalid
    from stem.core.errors import SoftTimeLimitExceeded as SoftTimeLimitExceeded
    from stem.core.errors import StemError as StemError
    from stem.core.errors import StoreRefused as StoreRefused
    from stem.core.errors import StoreUnavailable as StoreUnavailable
    from stem.core.errors import TaskCancelled as TaskCancelled
    from stem.core.errors import TaskEnded as TaskEnded
    from stem.core.errors import TaskFailed as TaskFailed
    from stem.core.errors import TaskNotFound as TaskNotFound
    from stem.core.errors import TaskRevoked as TaskRevoked
    from stem.core.errors import UnknownTask as UnknownTask
    from stem.core.errors import UsageError as UsageError
    from stem.core.errors import WaitTimeout as WaitTimeout
    from stem.core.lifecycle import State as State
    from stem.core.prerequisites import FailedResult as FailedResult
    from stem.core.record import TaskError as TaskError
    from stem.core.record import TaskRecord as TaskRecord
    from stem.core.settings.app import Settings as Settings
    from stem.worker.settings import WorkerSettings as WorkerSettings
    from stem.worker.supervisor import Worker as Worker

_HOMES = {
    "stem.client.app": ("Stem",),
    "stem.client.canvas.canvas": ("Canvas", "chain"),
    "stem.client.canvas.group": ("chord", "group"),
    "stem.client.canvas.handle": ("CanvasHandle", "CanvasStatus"),
    "stem.client.canvas.signature": ("Signature",),
    "stem.client.canvas.workflow": ("workflow",),
    "stem.core.prerequisites": ("FailedResult",),
    "stem.client.run.context": ("TaskContext", "current_task"),
    "stem.client.send.broadcast": ("BroadcastHandle",),
    "stem.client.send.handle": ("TaskHandle",),
    "stem.client.middleware": ("Middleware",),
    "stem.client.send.sender": ("Bulk", "Item"),
    "stem.client.task.task": ("AsyncTask", "Task"),
    "stem.core.settings.app": ("Settings",),
    "stem.core.errors": (
        "ConfigError",
        "DeadLetterNotFound",
        "Drop",
        "EnvelopeUnreadable",
        "EventTimeout",
        "InvalidArguments",
        "InvalidSchedule",
        "InvalidTask",
        "NoLiveWorkers",
        "SignatureInvalid",
        "SoftTimeLimitExceeded",
        "StemError",
        "StoreRefused",
        "StoreUnavailable",
        "TaskCancelled",
        "TaskEnded",
        "TaskFailed",
        "TaskNotFound",
        "TaskRevoked",
        "UnknownTask",
        "UsageError",
        "WaitTimeout",
    ),
    "stem.core.lifecycle": ("State",),
    "stem.core.record": ("TaskError", "TaskRecord"),
    "stem.core.decisions.retry": ("Delays", "Exponential", "Fixed"),
    "stem.core.decisions.routing": ("Route",),
    "stem.worker.settings": ("WorkerSettings",),
    "stem.worker.supervisor": ("Worker",),
}
# Another library is called `stem` on import, too. Installed beside ours it has replaced some of these files.
if os.path.isdir(os.path.join(os.path.dirname(__file__), "descriptor")):
    import warnings

    warnings.warn(
        "Another package is installed over Stem's own files: 'stem' is a different library, this one is 'stem-tasks'. "
        "Run: pip uninstall stem && pip install --force-reinstall stem-tasks",
        RuntimeWarning,
        stacklevel=2,
    )
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("stem-tasks")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'stem' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
