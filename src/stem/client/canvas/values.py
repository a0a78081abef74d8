"""The values of tasks, also of those that have none of their own: joins, and tasks that were replaced or passed over."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stem.client.run.context import CHAIN_ID, ENDS_CHAIN
from stem.core.errors import StemError
from stem.core.lifecycle import State
from stem.core.prerequisites import JOINS, VALUE_OF, failed_result, spawned
from stem.core.record import TaskError, TaskRecord

OUTER_CHAIN_ID = "outerChainId"  # in the meta of the last link: the chain that its own is part of
PASSED = "passed"  # in the meta of a link that was not run for that
CHUNK = 1000  # records that are read at once

NULL = msgspec.Raw(b"null")
_INDIRECT = frozenset(
    {VALUE_OF, ENDS_CHAIN, PASSED}
)  # in the meta of tasks whose value is another's, or that ended a chain


class ValueMissing(StemError):
    """The record of a task whose value is needed is not there."""


class StoredValue(msgspec.Struct, frozen=True):
    """As much of a record as its value needs."""

    id: str
    name: str
    state: State
    payload: msgspec.Raw
    error: TaskError | None
    meta: dict[str, Any]

    @property
    def has_value(self) -> bool:
        return self.state is State.SUCCEEDED or PASSED in self.meta

    @property
    def ended_chain(self) -> tuple[str, str] | None:
        """The chain that it ended or for which it was passed over, and the task that ended the chain."""
        if isinstance(chain := self.meta.get(ENDS_CHAIN), str):
            return chain, self.id
        if isinstance(chain := self.meta.get(PASSED), str):
            return chain, str(self.meta.get(VALUE_OF))
        return None


Records = Callable[[Sequence[str]], Mapping[str, StoredValue]]


def no_records(_task_ids: Sequence[str]) -> Mapping[str, StoredValue]:
    return {}


def stored_value(record: TaskRecord) -> StoredValue:
    return StoredValue(record.id, record.name, record.state, record.payload or NULL, record.error, record.meta)


class Values:
    """Reads records as far as values need them. Nothing recurses: canvases may be nested deeper than Python's stack."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._known: dict[str, StoredValue] = {}
        self._json: dict[str, bytes] = {}
        self._trees: dict[str, Any] = {}  # of joins
        self._has_ended_chains = False

    def of(self, task_id: str) -> msgspec.Raw:
        """Return the value as JSON; a FailedResult if the task did not succeed. Raises ValueMissing."""
        self.load([task_id])
        waiting, begun = [task_id], set[str]()
        while waiting:
            one = waiting[-1]
            if one in self._json or self._has_own(one):
                waiting.pop()
                continue
            needed = [id for id in self._parts(one) if id not in self._json and not self._has_own(id)]
            if not needed:
                self._json[one] = self._assembled(one)
            elif one in begun:
                raise ValueMissing(f"The value of task {one} depends on itself; its record was changed.")
            else:
                begun.add(one)
                waiting += needed
        return msgspec.Raw(self._json[task_id])

    def load(self, task_ids: Iterable[str]) -> None:
        """Read these records and those that their values are made of. Raises ValueMissing."""
        wanted = [id for id in dict.fromkeys(task_ids) if id not in self._known]
        while wanted:
            for start in range(0, len(wanted), CHUNK):
                self._read(wanted[start : start + CHUNK])
            parts = (part for id in wanted if id not in self._json for part in self._direct_parts(self._known[id]))
            wanted = [id for id in dict.fromkeys(parts) if id not in self._known]

    def chain_ender(self, task_ids: Sequence[str], chain_id: str) -> tuple[str, str] | None:
        """Return the chain that one of these tasks or their parts ended early, and the task that did, if it is this chain or
        one around it. The tasks are loaded."""
        if not self._has_ended_chains:
            return None
        around: set[str] | None = None
        for stored in self._reachable(task_ids):
            if (ended := stored.ended_chain) is not None:
                around = self._chains_around(chain_id) if around is None else around
                if ended[0] in around:
                    return ended
        return None

    def _read(self, task_ids: Sequence[str]) -> None:
        found = self._records(task_ids)
        for id in task_ids:
            if (stored := found.get(id)) is None:
                raise ValueMissing(
                    f"There is no record of task {id}, whose value is needed; it was deleted, or its result expired."
                )
            self._known[id] = stored
            if stored.state is State.SUCCEEDED and stored.name not in JOINS and _INDIRECT.isdisjoint(stored.meta):
                self._json[id] = bytes(stored.payload)  # as nearly all; a chord may have very many
            else:
                self._has_ended_chains |= stored.ended_chain is not None

    def _chains_around(self, chain_id: str) -> set[str]:
        """This chain and all that it is part of."""
        around, one = set[str](), chain_id
        while isinstance(one, str) and one not in around:
            around.add(one)
            found = self._records([one])
            one = found[one].meta.get(OUTER_CHAIN_ID, "") if one in found else ""
        return around

    def _reachable(self, task_ids: Sequence[str]) -> Iterator[StoredValue]:
        waiting, seen = list(reversed(task_ids)), set[str]()
        while waiting:
            id = waiting.pop()
            if id not in seen:
                seen.add(id)
                yield self._known[id]
                waiting += reversed(list(self._direct_parts(self._known[id])))

    def _has_own(self, task_id: str) -> bool:
        """Take the value of a task that is not made of others, as most are; True if it is one."""
        stored = self._known[task_id]
        if not stored.has_value:
            self._json[task_id] = msgspec.json.encode(failed_result(stored))
        elif stored.name in JOINS or VALUE_OF in stored.meta:
            return False
        else:
            self._json[task_id] = bytes(stored.payload)
        return True

    def _parts(self, task_id: str) -> Iterable[str]:
        """The tasks that the value is made of."""
        stored = self._known[task_id]
        if (ended := self._ended_for(stored)) is not None:
            self.load([ended])
            return (ended,)
        return self._direct_parts(stored)

    def _ended_for(self, join: StoredValue) -> str | None:
        """The task whose value is that of a join, because it ended the chain of which the join is a link."""
        chain_id = join.meta.get(CHAIN_ID)
        if not self._has_ended_chains or join.name not in JOINS or not isinstance(chain_id, str):
            return None
        ended = self.chain_ender(list(self._direct_parts(join)), chain_id)
        return None if ended is None else ended[1]

    def _direct_parts(self, stored: StoredValue) -> Iterable[str]:
        if not stored.has_value:
            return ()
        if isinstance(other := stored.meta.get(VALUE_OF), str):
            return (other,)
        return ids_in(self._tree(stored)) if stored.name in JOINS else ()

    def _tree(self, join: StoredValue) -> Any:
        if join.id not in self._trees:
            self._trees[join.id] = join_value(join)
        return self._trees[join.id]

    def _assembled(self, task_id: str) -> bytes:
        stored = self._known[task_id]
        if (ended := self._ended_for(stored)) is not None:
            return self._json[ended]
        if isinstance(other := stored.meta.get(VALUE_OF), str):
            return self._json[other]
        return self._filled(self._tree(stored))

    def _filled(self, tree: Any) -> bytes:
        match tree:
            case str():
                return self._json[tree]
            case list():
                parts = [self._json[part] if type(part) is str else self._filled(part) for part in tree]
                return b"[" + b",".join(parts) + b"]"
            case dict():
                items = (msgspec.json.encode(name) + b":" + self._filled(part) for name, part in tree.items())
                return b"{" + b",".join(items) + b"}"
            case _:
                return b"null"


def join_value(join: StoredValue) -> Any:
    """Return what a join's value is made of: an id, a list or an object of them; members that were spawned come last."""
    arguments = msgspec.json.decode(join.payload)
    value = arguments.get("value") if isinstance(arguments, dict) else None
    return [*value, *spawned(join.meta)] if isinstance(value, list) else value


def ids_in(tree: Any) -> list[str]:
    """The ids in the value of a join, in order."""
    if type(tree) is list and all(type(part) is str for part in tree):
        return tree
    ids: list[str] = []
    waiting = [tree]
    while waiting:
        match waiting.pop():
            case str(id):
                ids.append(id)
            case list(parts):
                waiting += reversed(parts)
            case dict(parts):
                waiting += reversed(parts.values())
            case _:
                pass
    return ids
