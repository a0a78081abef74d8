"""Lets through what the fleet's limits allow, and sends the rest back with the limiter's own delay, no attempt spent."""

import logging
import random
import time

import msgspec

from stem.contracts.limiter import Bucket, Limiter, Place
from stem.core.delivery import Delivery, Ending
from stem.core.errors import EnvelopeUnreadable, StemError
from stem.core.outcome import Throttled
from stem.core.settle import Policy, settle
from stem.worker.held import Held
from stem.worker.manifest import PlacesFacts, RateFacts, TaskFacts

log = logging.getLogger("stem.worker")

# When all places are taken nobody knows for how long: look again soon, one after the other, so many a second and place.
PLACE_SECONDS = 0.25
LOOKS_A_SECOND = 64
LONGEST_SECONDS = 60.0
MOST_KEYS = 10_000
BLIND_SECONDS = (1.0, 3.0)  # when the limiter cannot be asked and must not be ignored


class Gate:
    def __init__(
        self, limiter: Limiter, facts: dict[str, TaskFacts], *, lease_seconds: float, fails_open: bool
    ) -> None:
        self._limiter = limiter
        self._facts = facts
        self._lease_seconds = lease_seconds
        self._fails_open = fails_open
        self._last_looks: dict[str, float] = {}  # by key: when the last one that was denied a place is to come back

    def sort(self, deliveries: list[Delivery]) -> tuple[list[Held], list[tuple[Held, Ending]]]:
        """What may run, and the endings of what may not yet."""
        helds = [Held(delivery, self._facts.get(delivery.name)) for delivery in deliveries]
        limited = [held for held in helds if held.facts is not None and (held.facts.rate or held.facts.places)]
        if not limited:
            return helds, []
        denied = self._denied(limited)
        return [held for held in helds if held.number not in denied], [
            (held, self._ending(held, denied[held.number])) for held in limited if held.number in denied
        ]

    def free(self, helds: "list[Held]") -> None:
        places = [place for held in helds for place in held.places]
        if places:
            try:
                self._limiter.free(places)
            except StemError as error:
                log.warning("limiter.lost while freeing places: %s", error)  # they free themselves

    def _denied(self, limited: list[Held]) -> dict[int, Throttled]:
        try:
            denied = self._without_place(limited)
            return denied | self._without_token([held for held in limited if held.number not in denied])
        except StemError as error:
            log.warning("limiter.lost: %s; %s", error, "going on" if self._fails_open else "holding back")
            if self._fails_open:
                return {}
            return {held.number: Throttled(random.uniform(*BLIND_SECONDS), "limiter-unreachable") for held in limited}  # noqa: S311

    def _without_place(self, limited: list[Held]) -> dict[int, Throttled]:
        wanting = []
        for held in limited:
            if held.facts is not None and held.facts.places is not None:
                held.places = (self._place(held, held.facts.places),)
                wanting.append(held)
        answers = self._limiter.hold([held.places[0] for held in wanting]) if wanting else []
        denied = {}
        for held, is_granted in zip(wanting, answers, strict=True):
            if not is_granted:
                place = held.places[0]
                denied[held.number] = Throttled(self._next_look(place), f"max-concurrency {place.key}")
                held.places = ()
        return denied

    def _next_look(self, place: Place) -> float:
        """Seconds from now. A long backlog must not come back all at once, again and again."""
        now = time.monotonic()
        look_at = max(now + PLACE_SECONDS, self._last_looks.get(place.key, 0.0) + 1 / (LOOKS_A_SECOND * place.limit))
        if look_at - now > LONGEST_SECONDS:
            return random.uniform(LONGEST_SECONDS / 2, LONGEST_SECONDS)  # noqa: S311 - no secret
        if len(self._last_looks) >= MOST_KEYS:
            self._last_looks = {key: at for key, at in self._last_looks.items() if at > now}
        self._last_looks[place.key] = look_at
        return look_at - now

    def _without_token(self, limited: list[Held]) -> dict[int, Throttled]:
        wanting, buckets = [], []
        for held in limited:
            if held.facts is not None and held.facts.rate is not None:
                wanting.append(held)
                buckets.append(self._bucket(held, held.facts.rate))
        answers = self._limiter.take(buckets) if buckets else []
        denied = {
            held.number: Throttled(seconds, f"rate-limit {bucket.key}")
            for held, bucket, seconds in zip(wanting, buckets, answers, strict=True)
            if seconds > 0
        }
        self.free([held for held in wanting if held.number in denied])
        for held in wanting:
            if held.number in denied:
                held.places = ()
        return denied

    def _place(self, held: Held, facts: PlacesFacts) -> Place:
        lease = held.lease
        holder = f"{lease.id}:{lease.fence}"
        return Place(_key(held, facts.per), holder, facts.limit, self._lease_seconds)

    def _bucket(self, held: Held, facts: RateFacts) -> Bucket:
        return Bucket(_key(held, facts.per), facts.rate.tokens, facts.rate.per_seconds, facts.burst)

    def _ending(self, held: Held, throttled: Throttled) -> Ending:
        delivery = held.delivery
        decided = settle(throttled, Policy(), attempt=delivery.attempt, deaths=delivery.deaths, roll=0.0)
        meta = {"throttled": {"limit": throttled.limit, "retryAfterSeconds": round(throttled.retry_after_seconds, 3)}}
        return Ending(held.lease, decided, None, meta)


def _key(held: Held, per: str | None) -> str:
    """The task's name; with the value of a header behind it where values have limits of their own."""
    name = held.delivery.name if held.facts is None else held.facts.name  # not an alias
    if per is None:
        return name
    try:
        return f"{name}\x1f{_headers.decode(held.delivery.body).headers.get(per, '')}"
    except (msgspec.MsgspecError, ValueError, RecursionError, EnvelopeUnreadable):
        return name  # the isolate will say what is wrong with it


class _Head(msgspec.Struct):
    headers: dict[str, str] = {}


_headers = msgspec.json.Decoder(_Head)
