"""Where tasks wait, and how they are claimed, kept, and ended. All verbs take batches, because batching is the speed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from stem.core.delivery import Delivery, Depth, Ending, Fallen, Lease, Peeked, Reclaimed, Report
from stem.core.envelope import Push, Receipt
from stem.core.settle import MAX_DEATHS


class Broker(ABC):
    """The one writer of states. Each verb changes tasks, records and event log together, in one transaction or script.

    A lease is good until the task is reclaimed from it, even past its end: only `reclaim` takes a task away. A verb that
    gets a lease which is good no longer changes nothing for it, goes on with the others, and returns it as refused.
    Events of one batch are logged in the batch's order.
    """

    @abstractmethod
    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        """Store all or none; one receipt a push, in order. State `queued`, event `enqueued`.

        An id that the store knows (waiting, running or ended), or that stood earlier in the batch, is left alone. A held
        unique key answers with its holder's id, unless that one was cancelled: its work is not done, and the key is free.
        `connection` is the caller's own open transaction on the same database: the push becomes visible when it commits, and
        leaves nothing when it rolls back; only for stores whose capabilities say `joins_transactions`. The task is due at
        `delay_seconds` from the store's now, else at the envelope's `not_before`, else at once; it expires at
        `expires_seconds` from now, else at `expires_at`, else never.
        """

    @abstractmethod
    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        """Lease up to `limit` due tasks: highest priority first, then oldest push, over all named queues.

        No two claims hold the same task. The lease lasts the envelope's `visibility_timeout`, else `lease_seconds`. State
        and record stay as they are: claimed is not started. What has expired while waiting is not delivered but ended
        here: state `cancelled`, error type `Expired`, event `expired`. Never blocks; see `wait`.
        """

    @abstractmethod
    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        """Sleep until a claim on these queues may find something, or the time is up; True for the former.

        Returns at once if something is due now. Wakes by notification within milliseconds of a push (or a requeue) from
        any process, and when a delayed task becomes due. May wake for nothing.
        """

    def stand_by(
        self,
        queues: Sequence[str],
        *,
        room: Callable[[], int],  # noqa: ARG002 - here and below: most stores hand nothing over
        lease_seconds: float,  # noqa: ARG002
        timeout_seconds: float,
    ) -> bool:
        """As `wait`. Besides, from here on and until `stand_down`, as many tasks as there is room for may be handed over as
        they are pushed, leased as by a claim; the next claim returns them, whatever its queues and its limit. Stores need not
        do so."""
        return self.wait(queues, timeout_seconds=timeout_seconds)

    def stand_down(self, *, for_good: bool = False) -> list[Delivery]:  # noqa: ARG002
        """Nothing is handed over any more, until `stand_by` is called again, or ever. Returns what was and no claim has
        returned. For any thread; not for long, and if the store does not answer, not at all."""
        return []

    def rest(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Nobody will claim or wait soon: let go of what only serves that."""

    @abstractmethod
    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        """Say that these attempts run: state `running`, event `started`. Twice is a no-op. Returns the refused.

        `ago_seconds` says how long ago each began, in the order of the leases; none given, or less than 0: now. The event
        and the record's `started_at` are dated back by it; the event's place in the log is where it is written. Raises
        UsageError if there are not as many as leases.
        """

    @abstractmethod
    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        """Log `progress` or `heartbeat` and keep the latest in the record: its `heartbeat_at`, and `meta.progress`.

        Starts the attempt if `start` has not, dated back by the report's `ago_seconds`. Returns the refused.
        """

    @abstractmethod
    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        """Let each lease end `lease_seconds` (or the envelope's `visibility_timeout`, if longer) from now; never earlier
        than it did. Returns the refused."""

    @abstractmethod
    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        """Write each ending whole: record, acknowledgement, meta, events, follow-ups. Returns the refused.

        Done: `succeeded`, payload set, error cleared. Retry: `retried`, attempt + 1, error set, due after the delay. Dead:
        `failed`, error set, a dead letter with reason and meta. Requeue: state as before the start (`queued` for attempt
        0, else `retried`), attempt and place in the queue untouched, due after the delay; `died` adds one death.
        Cancelled: `cancelled`, error type `Cancelled` with the reason. Where `run_seconds` is given and the attempt was
        not yet started, a `started` event precedes, dated back by `run_seconds`. Events name the settling worker and the
        attempt they tell of. Unique keys held until the end are released by the three endings.
        """

    @abstractmethod
    def bury(self, fallen: Sequence[Fallen], *, worker: str) -> list[Receipt]:
        """Store calls that were run and given up elsewhere, as dead letters: all or none, one receipt each, in order.

        An id that the store knows, or that stood earlier in the batch, is left alone. Nobody can claim one before it is
        replayed. State `failed`, error set, a dead letter with reason and meta; events `enqueued`, `started` dated back
        by `run_seconds` where it is given, `failed`, `dead-lettered`, the later ones with worker and attempt.
        """

    @abstractmethod
    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        """Take back tasks whose lease has run out, oldest first; the old holders are fenced from here on.

        Event `requeued`, reason `lease-expired`, attempt untouched, due at once. If the attempt had started this counts as
        a death, and the `max_deaths`th death is a dead letter with reason `crash-loop`, error type `WorkerLost`,
        meta `deaths` and `runs` (how often it began).

        The death does not count if the old holder turns out to be alive: its next verb with that lease is refused, and the
        store takes the death back, unless the task has ended or that verb is an ending that tells of a death itself.

        `grace_seconds`: where nobody called with a grace for longer than that, the store was away or no worker was there.
        Then nothing is taken back until calls have come for `grace_seconds` without such a gap, so that workers which live
        can renew first. 0 takes back at once.
        """

    @abstractmethod
    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        """Exact counts a queue. None: every queue that has a task waiting, running or dead. A named queue is always there."""

    @abstractmethod
    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        """What waits, untouched: the ready in claim order, then the delayed by when they are due."""

    def find(self, task_id: str) -> Peeked | None:  # noqa: ARG002 - a store of your own need not
        """The task as it waits or runs, untouched; None if it is not known or has ended. `due_at` of one that runs is any
        moment in the past."""
        return None

    @abstractmethod
    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        """Cancel those that wait: ready, delayed or to be retried. State `cancelled`, error type `Cancelled` with the reason,
        event `revoked`; unique keys held until the end are released. Returns their ids; all others (leased, ended, unknown)
        are left alone."""

    @abstractmethod
    def purge(self, queue: str) -> int:
        """Cancel all that waits in the queue (ready and delayed), with reason `purged` and event `revoked`; returns how
        many. Running tasks and dead letters stay. Long purges go in steps; each step is whole."""
