"""Keep durable steps on Redis: a hash for each task that has some."""

import msgspec

from stem.backends.redis.codec import values
from stem.backends.redis.namespace import RedisNamespace
from stem.contracts.steps import EVENT, Step, Steps
from stem.core.delivery import Lease


class StoredStep(msgspec.Struct, frozen=True, array_like=True):
    place: int  # among the steps of its task
    at: int
    payload: str


class RedisSteps(Steps):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def record(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        given = (lease.id, lease.fence, name, bytes(payload).decode(), values.json({"step": name}))
        return bool(self._namespace.run("step_record", given))

    def all(self, task_id: str) -> list[Step]:
        flat: list[bytes] = self._namespace.client.call("HGETALL", self._namespace.key(f"steps:{task_id}"))
        stored = [(_decode(packed), name.decode()) for name, packed in zip(flat[::2], flat[1::2], strict=True)]
        stored.sort(key=lambda each: each[0].place)
        return [Step(name, msgspec.Raw(step.payload), values.when(step.at)) for step, name in stored]

    def send(self, task_id: str, event: str, data: msgspec.Raw) -> bool:
        given = (task_id, event, EVENT + event, bytes(data).decode())
        return bool(self._namespace.run("step_send", given))


_decode = msgspec.msgpack.Decoder(StoredStep).decode
