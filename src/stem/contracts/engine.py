"""How the function of a task is called where a plain call will not do: on Spark, say. Engines plug in by entry point."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import entry_points
from types import FrameType
from typing import Any, Protocol

from stem.core.errors import InvalidTask

GROUP = "stem.engines"  # of entry points: the name of the engine, and where its class is

Interrupter = Callable[[BaseException, FrameType | None], None]


class Attempt(Protocol):
    """What an engine sees of the attempt that it runs."""

    # Set by the engine while it runs: called in the main thread, between two lines, with what the handler is to be told
    # and the frame that was cut in on. It raises that, now or at a better moment.
    interrupter: Interrupter | None

    @property
    def key(self) -> str:
        """Names the task, the same in every process and for every attempt."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    def note(self, **facts: Any) -> None:
        """Facts that every report of this attempt carries from now on."""

    def report(self, fraction: float | None, message: str) -> None:
        """Progress that the engine sees; once the handler reports its own, this is no more than a look whether it shall
        go on. May be called by any thread. Raises TaskRevoked."""


class Engine(ABC):
    """One object a process, made there for the first task that asks for it. It runs one task at a time, in the main thread.

    Loading the class must be cheap; making it raises StemError where it can be known that it will not work, and the task
    becomes a dead letter that says so.
    """

    @classmethod
    @abstractmethod
    def fills(cls, parameter: str, hint: object) -> bool:
        """Whether the engine gives this parameter its value; it is no argument of the task then. `hint` may be text."""

    @abstractmethod
    def run(self, call: Callable[..., Any], parameter: str | None, attempt: Attempt) -> Any:
        """Call it, with the parameter that the engine fills, and return what it returns.

        First ends whatever an earlier attempt has left running. When it returns or raises, nothing of this one runs on.
        """

    @abstractmethod
    def reap(self, key: str) -> None:
        """End what an attempt has left whose process has died, and return when it is gone. Nothing there: does nothing."""

    @abstractmethod
    def close(self) -> None:
        """The process is about to end."""


def load(name: str) -> type[Engine]:
    """Raises InvalidTask."""
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
