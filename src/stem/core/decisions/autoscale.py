"""Decides how many isolates a worker should have. Pure: takes a snapshot and a memory, returns a move and the next memory."""

from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any

import msgspec

from stem.core.errors import ConfigError
from stem.core.settings.kinds import SWITCH, number, seconds, whole
from stem.core.settings.setting import Setting, declared, read_block

_ISOLATES = whole(1, 1000)
_WEEK = seconds(7 * 86400.0, or_zero=True)


class Autoscale(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Opt-in: unless it is enabled, a worker keeps the concurrency that it was given."""

    enabled: Annotated[bool, Setting("autoscale.enabled", SWITCH, "Scale the number of isolates.")] = False
    minimum: Annotated[
        int, Setting("autoscale.min", _ISOLATES, "The fewest isolates.", also="minConcurrency minimum")
    ] = msgspec.field(default=2, name="min")
    maximum: Annotated[
        int, Setting("autoscale.max", _ISOLATES, "The most isolates.", also="maxConcurrency maximum")
    ] = msgspec.field(default=12, name="max")
    scale_up_step: Annotated[int, Setting("autoscale.scaleUpStep", _ISOLATES, "Add at most this many at a time.")] = 2
    scale_down_step: Annotated[
        int, Setting("autoscale.scaleDownStep", _ISOLATES, "Remove at most this many at a time.")
    ] = 1
    idle_seconds: Annotated[
        float, Setting("autoscale.idleSeconds", _WEEK, "Scale down after being idle this long.", "", "idlePeriod idle")
    ] = 30.0
    tick_seconds: Annotated[float, Setting("autoscale.tick", seconds(3600.0), "Decide this often.")] = msgspec.field(
        default=2.0, name="tick"
    )
    scale_up_cool_down_seconds: Annotated[
        float, Setting("autoscale.scaleUpCoolDown", _WEEK, "Wait this long between steps up.")
    ] = msgspec.field(default=5.0, name="scaleUpCoolDown")
    scale_down_cool_down_seconds: Annotated[
        float, Setting("autoscale.scaleDownCoolDown", _WEEK, "Wait this long between steps down.")
    ] = msgspec.field(default=10.0, name="scaleDownCoolDown")
    scale_up_trigger: Annotated[
        float, Setting("autoscale.scaleUpTrigger", number(1e6), "Scale up at this multiple of the backlog per isolate.")
    ] = 1.0
    backlog_per_isolate: Annotated[
        float,
        Setting(
            "autoscale.backlogPerIsolate",
            number(1e6),
            "The backlog meant for one isolate.",
            also="prefetchMultiplier prefetchPerIsolate",
        ),
    ] = 2.0


def changed(config: Autoscale, changes: Mapping[str, Any]) -> Autoscale:
    """Return the configuration with these keys changed, in any spelling: what an operator sends to a live worker. Unknown
    keys are refused, because nobody would see a warning. Raises ConfigError."""
    reading = read_block(declared(Autoscale), "autoscale", changes)
    if wrong := [*reading.errors, *reading.warnings]:
        raise ConfigError(" ".join(wrong))
    fields = {setting.key: setting.field for setting in declared(Autoscale)}
    return check(msgspec.structs.replace(config, **{fields[key]: value for key, value in reading.values.items()}))


def check(config: Autoscale) -> Autoscale:
    """Judge what code gave by the rules of the file. Raises ConfigError."""
    given = {setting.name: getattr(config, setting.field) for setting in declared(Autoscale)}
    if wrong := read_block(declared(Autoscale), "autoscale", given).errors or bounds_problems(config):
        raise ConfigError(" ".join(wrong))
    return config


def bounds_problems(config: Autoscale) -> list[str]:
    """Return a sentence if the minimum is above the maximum."""
    if config.minimum <= config.maximum:
        return []
    return [f"autoscale.min {config.minimum} is above autoscale.max {config.maximum}; lower it."]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a worker at one tick. `isolates` are those that take work, without draining ones; `prefetch` is how much they
    may claim ahead together at the moment, 0 where nothing is claimed ahead. `now` is any clock that only goes forward."""

    queue_depth: int
    in_flight: int
    isolates: int
    prefetch: int
    now: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What one decision remembers for the next."""

    last_up_at: float | None = None
    last_down_at: float | None = None
    idle_since: float | None = None


class Move(msgspec.Struct, frozen=True):
    """A new number of isolates. Isolates that leave finish their task first."""

    target: int
    reason: str


def decide(config: Autoscale, snapshot: Snapshot, memory: Memory) -> tuple[Move | None, Memory]:
    """Decide on at most one move per tick: the formula gives the target, the step caps it, trigger and cool-down gate it."""
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
    """Note since when the worker is idle: nothing waits and nothing runs."""
    if snapshot.queue_depth or snapshot.in_flight:
        return msgspec.structs.replace(memory, idle_since=None)
    return memory if memory.idle_since is not None else msgspec.structs.replace(memory, idle_since=snapshot.now)


def _into_bounds(config: Autoscale, snapshot: Snapshot) -> Move | None:
    """Move into the bounds at once, without steps: they hold at every tick, also after a change."""
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
