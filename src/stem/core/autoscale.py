"""Decide how many isolates a worker should have. Pure: a snapshot and what is remembered in, a move and what to remember out."""

from collections.abc import Mapping
from math import ceil
from typing import Any

import msgspec

from stem.core.errors import ConfigError
from stem.core.option import SWITCH, Option, number, read_block, seconds, whole

MOST_ISOLATES = 1000
_LONGEST_SECONDS = 7 * 86400.0


_NAMES = {
    "enabled": "enabled",
    "minimum": "min",
    "maximum": "max",
    "scale_up_step": "scaleUpStep",
    "scale_down_step": "scaleDownStep",
    "idle_seconds": "idleSeconds",
    "tick_seconds": "tick",
    "scale_up_cool_down_seconds": "scaleUpCoolDown",
    "scale_down_cool_down_seconds": "scaleDownCoolDown",
    "scale_up_trigger": "scaleUpTrigger",
    "backlog_per_isolate": "backlogPerIsolate",
}
_FIELDS = {f"autoscale.{name}": field for field, name in _NAMES.items()}


class Autoscale(msgspec.Struct, frozen=True, kw_only=True, rename=_NAMES):
    """Opt-in: as it stands, a worker keeps the concurrency that it was given."""

    enabled: bool = False
    minimum: int = 2
    maximum: int = 12
    scale_up_step: int = 2
    scale_down_step: int = 1
    idle_seconds: float = 30.0
    tick_seconds: float = 2.0
    scale_up_cool_down_seconds: float = 5.0
    scale_down_cool_down_seconds: float = 10.0
    scale_up_trigger: float = 1.0  # of the backlog that one isolate is meant to have
    backlog_per_isolate: float = 2.0


OPTIONS = (
    Option("autoscale.enabled", SWITCH, False),
    Option("autoscale.min", whole(1, MOST_ISOLATES), 2, spellings=("minConcurrency", "minimum")),
    Option("autoscale.max", whole(1, MOST_ISOLATES), 12, spellings=("maxConcurrency", "maximum")),
    Option("autoscale.scaleUpStep", whole(1, MOST_ISOLATES), 2),
    Option("autoscale.scaleDownStep", whole(1, MOST_ISOLATES), 1),
    Option("autoscale.idleSeconds", seconds(_LONGEST_SECONDS, or_zero=True), 30.0, spellings=("idlePeriod", "idle")),
    Option("autoscale.tick", seconds(3600.0), 2.0, spellings=("tickSeconds",)),
    Option(
        "autoscale.scaleUpCoolDown",
        seconds(_LONGEST_SECONDS, or_zero=True),
        5.0,
        spellings=("scaleUpCoolDownSeconds",),
    ),
    Option(
        "autoscale.scaleDownCoolDown",
        seconds(_LONGEST_SECONDS, or_zero=True),
        10.0,
        spellings=("scaleDownCoolDownSeconds",),
    ),
    Option("autoscale.scaleUpTrigger", number(1e6), 1.0),
    Option("autoscale.backlogPerIsolate", number(1e6), 2.0, spellings=("prefetchMultiplier", "prefetchPerIsolate")),
)


def autoscale_of(values: Mapping[str, Any]) -> Autoscale:
    """From values by path, as the options read them; what is missing has its default."""
    return Autoscale(**{field: values[path] for path, field in _FIELDS.items() if path in values})


def changed(config: Autoscale, changes: Mapping[str, Any]) -> Autoscale:
    """The configuration with these keys changed, in any spelling: what an operator sends to a live worker. Unknown keys
    are refused, for nobody would see a warning. Raises ConfigError."""
    reading = read_block(OPTIONS, "autoscale", changes)
    if wrong := [*reading.errors, *reading.warnings]:
        raise ConfigError(" ".join(wrong))
    return check(msgspec.structs.replace(config, **{_FIELDS[path]: value for path, value in reading.values.items()}))


def check(config: Autoscale) -> Autoscale:
    """What code gave, under the rules of the file. Raises ConfigError."""
    told = {name: getattr(config, field) for field, name in _NAMES.items()}
    wrong = read_block(OPTIONS, "autoscale", told).errors
    if not wrong and config.minimum > config.maximum:
        wrong = [f"autoscale.min {config.minimum} is above autoscale.max {config.maximum}; lower it."]
    if wrong:
        raise ConfigError(" ".join(wrong))
    return config


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a worker. `isolates` are those that take work, without the draining; `prefetch` is how much they
    may claim ahead together at the moment, 0 where nothing is claimed ahead. `now` is any clock that only goes forward."""

    queue_depth: int
    in_flight: int
    isolates: int
    prefetch: int
    now: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What one decision hands to the next."""

    last_up_at: float | None = None
    last_down_at: float | None = None
    idle_since: float | None = None


class Move(msgspec.Struct, frozen=True):
    """To this many isolates. The leaving ones end what they run first."""

    target: int
    reason: str


def decide(config: Autoscale, snapshot: Snapshot, memory: Memory) -> tuple[Move | None, Memory]:
    """At most one move a tick. The formula gives the target, the step caps the move, trigger and cool-down gate it."""
    if not config.enabled:
        return None, Memory()
    memory = _with_idleness(snapshot, memory)
    move = _into_bounds(config, snapshot) or _up(config, snapshot, memory) or _down(config, snapshot, memory)
    return move, memory if move is None else _with_move(snapshot, memory, move)


def desired(config: Autoscale, snapshot: Snapshot) -> int:
    """The specification's formula: the minimum, and one more for each share of the backlog."""
    share = _share(config, snapshot)
    if snapshot.queue_depth >= share * config.maximum:
        return config.maximum  # also where the quotient would be beyond all numbers
    return min(config.minimum + ceil(snapshot.queue_depth / share), config.maximum)


def _share(config: Autoscale, snapshot: Snapshot) -> float:
    """The specification's prefetchPerIsolate, never less than the multiplier: slow tasks are not claimed ahead at all, and
    less than a task per isolate would ask for more isolates than there are tasks."""
    if snapshot.isolates > 0:
        return max(config.backlog_per_isolate, snapshot.prefetch / snapshot.isolates)
    return config.backlog_per_isolate


def _with_idleness(snapshot: Snapshot, memory: Memory) -> Memory:
    """Idle is a worker that nothing waits for and that runs nothing."""
    if snapshot.queue_depth or snapshot.in_flight:
        return msgspec.structs.replace(memory, idle_since=None)
    return memory if memory.idle_since is not None else msgspec.structs.replace(memory, idle_since=snapshot.now)


def _into_bounds(config: Autoscale, snapshot: Snapshot) -> Move | None:
    """At once and whole: bounds hold at every tick, also when they have just been changed."""
    if snapshot.isolates < config.minimum:
        return Move(config.minimum, f"{snapshot.isolates} isolates are below the minimum of {config.minimum}")
    if snapshot.isolates > config.maximum:
        return Move(config.maximum, f"{snapshot.isolates} isolates are above the maximum of {config.maximum}")
    return None


def _up(config: Autoscale, snapshot: Snapshot, memory: Memory) -> Move | None:
    enough = snapshot.isolates * config.backlog_per_isolate * config.scale_up_trigger
    target = min(desired(config, snapshot), snapshot.isolates + config.scale_up_step)
    if target <= snapshot.isolates or snapshot.queue_depth < enough:
        return None
    if not _has_passed(memory.last_up_at, config.scale_up_cool_down_seconds, snapshot.now):
        return None
    return Move(target, f"{snapshot.queue_depth} tasks wait for {snapshot.isolates} isolates")


def _down(config: Autoscale, snapshot: Snapshot, memory: Memory) -> Move | None:
    # The last step may be a short one: a step that would pass the minimum must not keep the worker above it for ever.
    target = max(config.minimum, snapshot.isolates - config.scale_down_step)
    if target >= snapshot.isolates or memory.idle_since is None:
        return None
    idle_seconds = snapshot.now - memory.idle_since
    if idle_seconds < config.idle_seconds:
        return None
    if not _has_passed(memory.last_down_at, config.scale_down_cool_down_seconds, snapshot.now):
        return None
    return Move(target, f"idle for {idle_seconds:g} s")


def _has_passed(since: float | None, seconds: float, now: float) -> bool:
    return since is None or now - since >= seconds


def _with_move(snapshot: Snapshot, memory: Memory, move: Move) -> Memory:
    if move.target > snapshot.isolates:
        return msgspec.structs.replace(memory, last_up_at=snapshot.now)
    return msgspec.structs.replace(memory, last_down_at=snapshot.now)
