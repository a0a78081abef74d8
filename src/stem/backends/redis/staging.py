"""Stage pushes on Redis: chunks in lists, which one script makes tasks. Redis serves nobody else while it runs."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import repeat
from typing import Any

import msgspec

from stem.backends.redis.codec import script_input, values
from stem.backends.redis.codec.batch_needs import needs
from stem.backends.redis.codec.script_reply import answered
from stem.backends.redis.connection.connections import RedisClient
from stem.backends.redis.namespace import RedisNamespace, microseconds, milliseconds, pack
from stem.backends.tenants import staged_tenants
from stem.contracts.staging import FRONT, LEFTOVER_SECONDS, Calls, Part, Promotion, Staging, UniformBodies, incomplete
from stem.core.envelope import Push
from stem.core.errors import StoreRefused

MOST = 500_000  # rows per promotion: Redis serves nobody meanwhile, and after five seconds refuses all calls
PROMOTION_SECONDS = 60.0
CHUNK = 200  # uniform rows; as many events as an entry of the log holds


class RedisStaging(Staging):
    def __init__(self, namespace: RedisNamespace, open_patient: Callable[[], RedisClient]) -> None:
        """A patient client has time enough for a promotion."""
        self._namespace = namespace
        self._open_patient = open_patient

    def promoted(self, job: str) -> Promotion | None:
        packed = self._namespace.client.call("GET", self._namespace.key(f"promoted:{_name(job)}"))
        return None if packed is None else Promotion(*_decode_counts(packed))

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        given = (_name(job), part, len(calls.ids), milliseconds(LEFTOVER_SECONDS))
        self._namespace.run("stage", given, *(_uniform(calls) or _mixed(calls)))

    def _promote(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> Promotion:
        wanted = [(part.name, part.rows) for part in parts if part.rows]
        ids, rows = [push.envelope.id for push in pushes], pack([script_input.pushed(push) for push in pushes])
        given = (_name(job), wanted, MOST, ids, *needs(pushes))
        client = self._open_patient()
        try:
            answer = _decode(answered(self._namespace.run("stage_promote", given, rows, through=client)))
        finally:
            client.close()
        match answer:
            case [int(created), int(known)]:
                return Promotion(created, known)
            case [str(name), int(found)]:
                part = next(part for part in parts if part.name == name)
                raise StoreRefused(incomplete(job, part, found))
            case _:
                raise StoreRefused(
                    f"Job {job!r} has {answer[0]:,} pushes, and Redis would stand still too long to promote more than {MOST:,} "
                    "at once; write it as several jobs, or into Postgres or SQLite."
                )

    def _discard(self, job: str) -> None:
        self._namespace.run("stage_discard", _name(job))


def _name(job: str) -> str:
    """Turn any job name into one that can be part of a key."""
    return sha256(job.encode()).hexdigest()[:32]


def _uniform(calls: Calls) -> list[bytes]:
    """Encode chunks of pushes that differ only in id and body; an empty list if the calls differ in more."""
    kind = calls.one_kind()
    if kind is None or any(value is not None for value in kind[3:]):
        return []
    tenants = staged_tenants(calls.bodies) or [None]
    if tenants.count(tenants[0]) < len(tenants):
        return []
    bodies = _template(calls)
    if bodies is None or _longest(bodies) > script_input.SMALL:
        return []
    name, queue, priority, *_ = kind
    fields = b"".join(map(pack, (name, queue, priority, False, False)))
    head = b"\x9a" + b"".join(map(pack, (True, name, queue, priority, bodies.between, bodies.behind))) + _text(fields)
    ids, args = list(map(pack, bodies.ids)), list(map(pack, bodies.args))
    data = pack(False if tenants[0] is None else values.json({"tenant": tenants[0]}))
    return [
        head + _text(_list(ids[first : first + CHUNK])) + _list(args[first : first + CHUNK]) + data
        for first in range(0, len(ids), CHUNK)
    ]


def _template(calls: Calls) -> UniformBodies | None:
    """Split the bodies after their ids; None if a body begins otherwise, as with an id that JSON escapes."""
    if isinstance(calls.bodies, UniformBodies):
        return calls.bodies
    fronts = [f"{FRONT}{id}" for id in calls.ids]
    if not all(map(str.startswith, calls.bodies, fronts)):
        return None
    rest = [body[len(front) :] for body, front in zip(calls.bodies, fronts, strict=True)]
    return UniformBodies(calls.ids, "", rest, "")


def _longest(bodies: UniformBodies) -> int:
    """An upper bound of the length of a body."""
    args, ids = max(map(len, bodies.args)), max(map(len, bodies.ids))
    return len(FRONT) + ids + len(bodies.between) + args + len(bodies.behind)


def _mixed(calls: Calls) -> list[bytes]:
    """Encode chunks of any pushes, as push.lua reads them."""
    rows = list(_pushed(calls))
    return [
        b"\x93" + pack(False) + pack(calls.ids[first : first + CHUNK]) + _text(pack(rows[first : first + CHUNK]))
        for first in range(0, len(rows), CHUNK)
    ]


def _pushed(calls: Calls) -> Iterator[script_input.Pushed]:
    moments = (
        calls.delays_seconds,
        calls.dues_at,
        calls.lifetimes_seconds,
        calls.expiries_at,
        calls.visibilities_seconds,
    )
    columns: list[Any] = [repeat(None) if each is None else each for each in (*moments, calls.metas)]
    rows = zip(calls.ids, calls.names, calls.queues, calls.priorities, calls.bodies, *columns, strict=False)
    for id, name, queue, priority, body, *times, meta in rows:
        large = body if len(body) > script_input.SMALL else False
        options = [False if time is None else microseconds(time) for time in times]
        texts = False if meta is None else {key: bytes(raw).decode() for key, raw in _decode_meta(meta).items()}
        is_plain = not (any(times) or large)
        yield (
            False if is_plain else (*options, False, False, large),
            id,
            name,
            queue,
            priority,
            texts or False,
            False,
            False if large else body,
        )


def _text(raw: bytes) -> bytes:
    """Bytes as a packed string: the server's msgpack knows no other kind."""
    return b"\xdb" + len(raw).to_bytes(4, "big") + raw


def _list(packed: Sequence[bytes]) -> bytes:
    """One list of what is packed already."""
    return b"\xdc" + len(packed).to_bytes(2, "big") + b"".join(packed)


_decode = msgspec.msgpack.Decoder(list[int | str]).decode
_decode_counts = msgspec.msgpack.Decoder(tuple[int, int]).decode
_decode_meta = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
