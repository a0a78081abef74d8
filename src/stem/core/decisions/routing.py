"""Chooses where a call goes: the rule for its task's name, its queue, the queue of one worker. Pure."""

import fnmatch
import hashlib
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from stem.core.envelope import check_priority, check_queue
from stem.core.errors import ConfigError, InvalidTask

IN_CODE = "code"
TENANT_HEADER = "tenant"
WORKER_PREFIX = "worker."  # of the queue that one worker alone claims from
MOST_REMEMBERED = 10_000  # names of tasks, which callers may make up

_PLAIN = re.compile(r"[A-Za-z0-9._\-]{1,64}", re.ASCII)
_PLAIN_WORKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,119}", re.ASCII)
_CHARACTERS = r"A-Za-z0-9_.:<>\-"  # of a task's name
_GLOB = re.compile(rf"(?:[{_CHARACTERS}*?]|\[!?[{_CHARACTERS}]+\])+", re.ASCII)
_CHOICE = re.compile(r"\[!?([^\]]+)\]")
_LONGEST_GLOB, _LONGEST_TENANT = 255, 255


@dataclass(frozen=True, slots=True)
class Route:
    """A rule: calls of tasks whose name matches the glob get these options, unless the call itself names others.

    None leaves what the task says. With `broadcast` every live worker runs the call once. `origin` is where the rule
    stands: `code`, or file and line. Raises ConfigError.
    """

    match: str  # `*` any characters, `?` one, `[ab]` one of these, `[!ab]` none of these
    _: KW_ONLY
    queue: str | None = None
    priority: int | None = None
    tenant: str | None = None
    broadcast: bool = False
    origin: str = IN_CODE

    def __post_init__(self) -> None:
        _check_glob(self.match)
        try:
            _check_options(self)
        except InvalidTask as error:
            raise ConfigError(f"The route for {self.match} cannot be used: {error}") from None

    def __str__(self) -> str:
        options = {"queue": self.queue, "priority": self.priority, "tenant": self.tenant}
        given = [f"{name}={value}" for name, value in options.items() if value is not None]
        return " ".join([self.match, *given, *(["broadcast"] if self.broadcast else [])])


class Routes:
    """The rules of an app, in order; the first that matches counts. Safe to share between threads."""

    def __init__(self, rules: Sequence[Route] = ()) -> None:
        self.rules = tuple(rules)
        self._patterns = [(re.compile(fnmatch.translate(rule.match)), rule) for rule in self.rules]
        self._found: dict[str, Route | None] = {}

    def route_of(self, task: str) -> Route | None:
        if not self._patterns:
            return None
        try:
            return self._found[task]
        except KeyError:
            found = next((rule for pattern, rule in self._patterns if pattern.match(task)), None)
            if len(self._found) < MOST_REMEMBERED:
                self._found[task] = found
            return found


def queue_of(queue: str, tenant: str | None, *, is_fair: bool) -> str:
    """With fair share a tenant's tasks wait apart, in `queue:tenant`, so that workers can serve tenants in turn."""
    if not is_fair or not tenant:
        return queue
    plain = tenant if _PLAIN.fullmatch(tenant) else hashlib.sha256(tenant.encode()).hexdigest()[:16]
    return f"{queue}:{plain}"


def is_same_or_tenant_queue(queue: str, name: str) -> bool:
    """Whether `name` is the queue itself or one of its tenants'."""
    return name == queue or name.startswith(f"{queue}:")


def queue_of_worker(worker: str) -> str:
    """Return the queue that this worker alone claims from. Names that no queue may have are shortened and hashed."""
    if _PLAIN_WORKER.fullmatch(worker):
        return f"{WORKER_PREFIX}{worker}"
    plain = re.sub(r"[^A-Za-z0-9._\-]", "-", worker)[:80]
    return f"{WORKER_PREFIX}{plain}-{hashlib.sha256(worker.encode()).hexdigest()[:16]}"


def is_queue_of_worker(queue: str) -> bool:
    """Whether the queue looks like that of one worker."""
    return queue.startswith(WORKER_PREFIX)


def _check_glob(glob: object) -> None:
    if not isinstance(glob, str) or not 1 <= len(glob) <= _LONGEST_GLOB or not _GLOB.fullmatch(glob):
        raise ConfigError(
            f"A route has the match {_short(glob)}; use a task's name with * for any characters, ? for one, "
            "[ab] for one of these, such as 'mail.*'."
        )
    for choice in _CHOICE.findall(glob):
        try:
            re.compile(f"[{choice}]")
        except re.error:
            raise ConfigError(
                f"A route has the match {_short(glob)}, in which [{choice}] has its ends in the wrong order; swap them."
            ) from None


def _check_options(route: Route) -> None:
    """Raises InvalidTask, ConfigError."""
    if route.queue is not None:
        check_queue(route.queue)
    if route.priority is not None:
        check_priority(route.priority)
    if route.tenant is not None:
        _check_tenant(route)
    if not isinstance(route.broadcast, bool):
        raise ConfigError(f"The route for {route.match} has broadcast {_short(route.broadcast)}; use true or false.")
    if route.broadcast and route.queue is not None:
        raise ConfigError(
            f"The route for {route.match} has both a queue and broadcast, which uses each worker's own queue; "
            "leave one of them out."
        )


def _check_tenant(route: Route) -> None:
    tenant = route.tenant
    try:
        is_text = isinstance(tenant, str) and 0 < len(tenant.encode()) <= _LONGEST_TENANT and "\x00" not in tenant
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise ConfigError(
            f"The route for {route.match} has the tenant {_short(tenant)}; use a text of 1 to {_LONGEST_TENANT} bytes."
        )


def _short(value: object) -> str:
    told = repr(value)
    return told if len(told) <= 100 else f"{told[:99]}…"
