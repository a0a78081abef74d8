"""Engines call the function of a task in another environment than a plain call, such as Spark. They plug in by entry point."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import entry_points
from types import FrameType
from typing import Any, Protocol

from stem.core.errors import InvalidTask

GROUP = "stem.engines"  # of entry points: engine name = its class

Interrupter = Callable[[BaseException, FrameType | None], None]


class Attempt(Protocol):
    """What an engine sees of the attempt that it runs."""

    # Set by the engine while it runs. Called in the main thread, between two lines, with the exception for the handler and
    # the interrupted frame. It raises the exception, now or at a better moment.
    interrupter: Interrupter | None

    @property
    def key(self) -> str:
        """A name of the task that is the same in every process and for every attempt."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    def note(self, **facts: Any) -> None:
        """Add facts to every report of this attempt from now on."""

    def report(self, fraction: float | None, message: str) -> None:
        """Report progress that the engine sees. Once the handler reports its own, this only checks whether to go on.

        May be called by any thread. Raises TaskRevoked.
        """


class Engine(ABC):
    """One object per process, created for the first task that needs it. It runs one task at a time, in the main thread.

    Importing the class must be cheap. Creating the object raises StemError if it cannot work; the task then becomes a dead letter
    with that message.
    """

    @classmethod
    @abstractmethod
    def fills(cls, parameter: str, hint: object) -> bool:
        """Whether the engine supplies this parameter, which is then no argument of the task. `hint` may be text."""

    @classmethod
    def bulk(cls, app: Any, name: str) -> Any:  # noqa: ARG003
        """The value of `app.bulk(name)`: the task of that name, to be run over a whole data set. Raises InvalidTask."""
        raise InvalidTask(
            f"The engine {cls.__name__} runs no bulks; install the extra: pip install 'stem-tasks[spark]'."
        )

    @abstractmethod
    def run(self, call: Callable[..., Any], parameter: str | None, attempt: Attempt) -> Any:
        """Call the function, with the parameter that the engine supplies, and return its result.

        Ends what an earlier attempt has left running before the call. When this returns or raises, nothing of this attempt is
        left running.
        """

    @abstractmethod
    def reap(self, key: str) -> None:
        """End what an attempt left running when its process died, and return when that is gone. A no-op if there is nothing."""

    @abstractmethod
    def close(self) -> None:
        """Release everything: the process is about to end."""


def load(name: str) -> type[Engine]:
    """Import the engine of this name. Raises InvalidTask."""
    found = entry_points(group=GROUP)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise InvalidTask(f"There is no engine {name!r} (installed: {known}); install the package that brings it.")
    try:
        kind = found[name].load()
    except ImportError as error:
        raise InvalidTask(f"The engine {name!r} cannot be loaded ({error}); install what it needs.") from error
    if not (isinstance(kind, type) and issubclass(kind, Engine)):
        raise InvalidTask(f"The entry point of engine {name!r} is no Engine; correct it in the package that brings it.")
    return kind
