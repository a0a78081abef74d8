"""Admit what the fleet-wide limits allow; send the rest back with the limiter's delay, without spending an attempt."""

import logging
import random
import time
from collections.abc import Sequence

import msgspec

from stem.contracts.limiter import Bucket, Limiter, Place
from stem.core.decisions.settle import Policy, settle
from stem.core.delivery import Delivery, Ending
from stem.core.errors import EnvelopeUnreadable, StemError
from stem.core.outcome import Throttled
from stem.worker.fork.manifest import PlacesFacts, RateFacts, TaskFacts
from stem.worker.pool.in_flight import InFlightTask

log = logging.getLogger("stem.worker")

# When all places are taken, tasks come back one after the other: LOOKS_PER_SECOND for each place.
PLACE_SECONDS = 0.25
LOOKS_PER_SECOND = 64
LONGEST_SECONDS = 60.0
MOST_KEYS = 10_000
UNREACHABLE_SECONDS = (1.0, 3.0)  # the limiter is unreachable and must not be ignored


class Throttle:
    """Takes places and rate tokens for the tasks that have such limits."""

    def __init__(
        self, limiter: Limiter, facts: dict[str, TaskFacts], *, lease_seconds: float, fails_open: bool
    ) -> None:
        self._limiter = limiter
        self._facts = facts
        self._lease_seconds = lease_seconds
        self._fails_open = fails_open
        self._last_looks: dict[str, float] = {}  # by key: when the last refused task comes back

    def admit(self, deliveries: list[Delivery]) -> tuple[list[InFlightTask], list[tuple[InFlightTask, Ending]]]:
        """Split into tasks that may run and the endings of those that must wait."""
        tasks = [InFlightTask(delivery, self._facts.get(delivery.name)) for delivery in deliveries]
        limited = [task for task in tasks if task.facts is not None and (task.facts.rate or task.facts.places)]
        if not limited:
            return tasks, []
        denied = self._denied(limited)
        return [task for task in tasks if task.number not in denied], [
            (task, self._ending(task, denied[task.number])) for task in limited if task.number in denied
        ]

    def release(self, tasks: Sequence[InFlightTask]) -> None:
        places = [place for task in tasks for place in task.places]
        if places:
            try:
                self._limiter.free(places)
            except StemError as error:
                log.warning("limiter.disconnected while releasing places: %s", error)  # they expire by themselves

    def _denied(self, limited: list[InFlightTask]) -> dict[int, Throttled]:
        try:
            denied = self._without_place(limited)
            return denied | self._without_token([task for task in limited if task.number not in denied])
        except StemError as error:
            log.warning("limiter.disconnected: %s; %s", error, "going on" if self._fails_open else "holding back")
            if self._fails_open:
                return {}
            delays = {task.number: random.uniform(*UNREACHABLE_SECONDS) for task in limited}  # noqa: S311 - no secret
            return {number: Throttled(seconds, "limiter-unreachable") for number, seconds in delays.items()}

    def _without_place(self, limited: list[InFlightTask]) -> dict[int, Throttled]:
        wanting = []
        for task in limited:
            if task.facts is not None and task.facts.places is not None:
                task.places = (self._place(task, task.facts.places),)
                wanting.append(task)
        answers = self._limiter.hold([task.places[0] for task in wanting]) if wanting else []
        denied = {}
        for task, is_granted in zip(wanting, answers, strict=True):
            if not is_granted:
                place = task.places[0]
                denied[task.number] = Throttled(self._next_look(place), f"max-concurrency {place.key}")
                task.places = ()
        return denied

    def _next_look(self, place: Place) -> float:
        """Seconds until the task comes back; spread out, so that a long backlog does not return all at once."""
        now = time.monotonic()
        look_at = max(now + PLACE_SECONDS, self._last_looks.get(place.key, 0.0) + 1 / (LOOKS_PER_SECOND * place.limit))
        if look_at - now > LONGEST_SECONDS:
            return random.uniform(LONGEST_SECONDS / 2, LONGEST_SECONDS)  # noqa: S311 - no secret
        if len(self._last_looks) >= MOST_KEYS:
            self._last_looks = {key: at for key, at in self._last_looks.items() if at > now}
        self._last_looks[place.key] = look_at
        return look_at - now

    def _without_token(self, limited: list[InFlightTask]) -> dict[int, Throttled]:
        wanting, buckets = [], []
        for task in limited:
            if task.facts is not None and task.facts.rate is not None:
                wanting.append(task)
                buckets.append(self._bucket(task, task.facts.rate))
        answers = self._limiter.take(buckets) if buckets else []
        denied = {
            task.number: Throttled(seconds, f"rate-limit {bucket.key}")
            for task, bucket, seconds in zip(wanting, buckets, answers, strict=True)
            if seconds > 0
        }
        self.release([task for task in wanting if task.number in denied])
        for task in wanting:
            if task.number in denied:
                task.places = ()
        return denied

    def _place(self, task: InFlightTask, facts: PlacesFacts) -> Place:
        lease = task.lease
        holder = f"{lease.id}:{lease.fence}"
        return Place(_key(task, facts.per), holder, facts.limit, self._lease_seconds)

    def _bucket(self, task: InFlightTask, facts: RateFacts) -> Bucket:
        return Bucket(_key(task, facts.per), facts.rate.tokens, facts.rate.per_seconds, facts.burst)

    def _ending(self, task: InFlightTask, throttled: Throttled) -> Ending:
        delivery = task.delivery
        decided = settle(throttled, Policy(), attempt=delivery.attempt, deaths=delivery.deaths, random_fraction=0.0)
        meta = {"throttled": {"limit": throttled.limit, "retryAfterSeconds": round(throttled.retry_after_seconds, 3)}}
        return Ending(task.lease, decided, None, meta)


def _key(task: InFlightTask, per: str | None) -> str:
    """The limit's key: the task's name, with the header's value where each value has its own limit."""
    name = task.delivery.name if task.facts is None else task.facts.name  # not an alias
    if per is None:
        return name
    try:
        return f"{name}\x1f{_headers.decode(task.delivery.body).headers.get(per, '')}"
    except (msgspec.MsgspecError, ValueError, RecursionError, EnvelopeUnreadable):
        return name  # the isolate reports what is wrong with it


class _Head(msgspec.Struct):
    headers: dict[str, str] = {}


_headers = msgspec.json.Decoder(_Head)
