"""Queues of tasks: push, claim, renew and settle. Every method takes a batch, because a round trip per task would be slow."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from stem.core.decisions.settle import MAX_DEATHS
from stem.core.delivery import DeadCall, Delivery, Depth, Ending, Lease, Peeked, Reclaimed, Report
from stem.core.envelope import Push, Receipt


class Broker(ABC):
    """The only writer of task states.

    Each call changes tasks, records and the event log together, in one transaction or script. The events of one batch are logged
    in the order of the batch. Every event except `heartbeat` and `progress` names the tenant of its call in `data["tenant"]`,
    if the call has one.

    A lease stays valid until `reclaim` takes the task from it, even after its end. A method that gets a lease which is no longer
    valid changes nothing for it, handles the others, and returns it as refused.
    """

    @abstractmethod
    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        """Store all tasks or none, and return one receipt per push, in order. State `queued`, event `enqueued`.

        Pushing a known id is a no-op, so a push can be repeated. An id is known if it came earlier in the batch, or if its task
        waits, runs, or has ended and its record can still be read.

        A unique key that is held answers with the id of its holder. A key is held for its `seconds`, or without them until the
        holder ends. A holder that is cancelled frees its key at once, because its work was not done. A push that supersedes
        (`Unique.supersedes`) is stored in any case and takes the key: a holder that waits, or runs if that is asked for, is
        cancelled with reason `superseded` as `cancel` does, its lease is refused from here on, and the receipt names it. With
        `max_delay_seconds` the push is due no later than that long after the first push of the series.

        The task is due after `delay_seconds`, or at the envelope's `not_before`, or now. It expires after `expires_seconds`, or
        at the envelope's `expires_at`, or never.

        A task that names prerequisites (`Envelope.after`) is blocked until they have ended: it cannot be claimed, is `queued`,
        counts as blocked, and its `delay_seconds` count from its release. Event `blocked` follows `enqueued`, with `missing`.
        A prerequisite is another task that is known, in the store or earlier in the batch, else StoreRefused is raised and
        nothing is stored; one that has ended already counts at once. What the end of a prerequisite means is
        `core.prerequisites.effect`:

        - COUNT: one less is missing. At 0 the task is released: event `released`, due at once or after its delay. If it had
          been cancelled for a failed prerequisite, it is revived by that: state `queued`, no error. A task with
          `on_failure=only` that reaches 0 without a failure is cancelled with reason `not-needed`, as `cancel` does.
        - RELEASE: released at once.
        - CANCEL: state `cancelled`, error `core.prerequisites.prerequisite_error`, event `revoked` with reason
          `prerequisite-failed` and the id of the first `cause`. It goes on counting, so that it is revived when what failed
          has been replayed and has succeeded. A task that was cancelled for any other reason is never revived.

        A prerequisite succeeds with Done or `Cancelled(passes=True)`; it fails when it becomes a dead letter or is cancelled in
        any other way: revoked, purged, expired, superseded, prerequisite failed, not needed. Its effects are written with its
        end, in one transaction; only cancellations beyond `CASCADE_LIMIT` tasks are left to later calls of `reclaim`. Each
        prerequisite counts once for each task, however often it ends.

        A join (`Envelope.is_join`) ends instead of being released: state `succeeded`, its payload is its arguments, event
        `joined`. A join without prerequisites ends in the push.

        `into` names a join that is blocked or was cancelled for a failed prerequisite, which waits for this task as well from
        now on; its record's meta gets the key `spawned.ID` with value true. StoreRefused, with nothing stored, if that join is
        unknown or has ended in any other way.

        The record of a prerequisite is kept past its retention while a task that waited for it has not ended, lies among the
        dead letters, was cancelled for a failed prerequisite, or is a join (or a task ended by `Block`) whose record is kept;
        `Results.get(past_retention=True)` reads it.

        `connection` is the caller's own open transaction on the same database. The push becomes visible when the caller commits,
        and leaves nothing behind when the caller rolls back. Only for stores with the capability `joins_transactions`.
        """

    @abstractmethod
    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        """Lease up to `limit` due tasks: highest priority first, then oldest push, over all named queues. Never blocks.

        No two claims return the same task. The lease lasts for the envelope's `visibility_timeout`, or `lease_seconds`. State and
        record do not change, because a claimed task has not started.

        A task that has expired is ended instead of delivered: state `cancelled`, error type `Expired`, event `expired`.
        """

    @abstractmethod
    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        """Sleep until a claim on these queues may find something (True) or the time is up (False).

        Returns at once if a task is due. A push or requeue from any process wakes the caller within milliseconds, and so does a
        delayed task that falls due. The call may also return True for nothing.
        """

    def wait_for_handoff(
        self,
        queues: Sequence[str],
        *,
        room: Callable[[], int],  # noqa: ARG002 - here and below: a store need not hand anything over
        lease_seconds: float,  # noqa: ARG002
        timeout_seconds: float,
    ) -> bool:
        """Wait as `wait` does, and let a push lease its task directly to this process.

        Up to `room()` tasks may be handed over, until `stop_handoff`. The next claim returns them, whatever its queues and limit.
        A store that does not hand tasks over just waits.
        """
        return self.wait(queues, timeout_seconds=timeout_seconds)

    def stop_handoff(self, *, for_good: bool = False) -> list[Delivery]:  # noqa: ARG002
        """Take no more tasks from pushes until the next `wait_for_handoff`, or ever, and return those not yet claimed.

        Returns soon and without an error if the store does not answer: what is missing comes back when its lease ends.
        """
        return []

    def release_wait(self) -> None:  # noqa: B027 - a store need not hold anything
        """Release resources held only for claiming and waiting. Called by a worker that will do neither for a while."""

    @abstractmethod
    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        """Record that these attempts run, and return the refused leases. State `running`, event `started`. Twice is a no-op.

        `ago_seconds` says how long ago each attempt began, one per lease; without it, or below 0, that is now. It dates back the
        event and the record's `started_at`, but not the place of the event in the log. Raises UsageError if the numbers differ.
        """

    @abstractmethod
    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        """Log `progress` or `heartbeat`, keep the latest in the record, and return the refused leases.

        The record gets `heartbeat_at` and `meta.progress`. An attempt that has not been started is started, dated back by the
        report's `ago_seconds`. The event's data is exactly what the task reported.
        """

    @abstractmethod
    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        """Extend each lease to `lease_seconds` from now, and return the refused leases.

        Where the envelope's `visibility_timeout` is longer, it counts instead. A lease never ends earlier than before.
        """

    @abstractmethod
    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        """Write each ending whole, with its record, meta, events and follow-ups, and return the refused leases.

        - Done: `succeeded`, payload set, error cleared.
        - Retry: `retried`, attempt + 1, error set, due after the delay.
        - Dead: `failed`, error set, a dead letter with reason and meta.
        - Requeue: the state before the start (`queued` for attempt 0, else `retried`), same attempt and place in the queue, due
          after the delay. With `died` it counts one death.
          With `event`, it is due as soon as that event is sent to the task (see `Steps.send`), or at once if it was.
        - Block: waits for other tasks as if pushed with these prerequisites and `on_failure=cancel`, after the follow-ups
          have been pushed. Same attempt, state before the start. Instead of being released it ends: `succeeded`, payload
          `null`, event `joined`. Raises StoreRefused, with nothing settled, if one of them is unknown.
        - Cancelled: `cancelled`, error type `Cancelled` with the reason. With `passes` it counts as a success for the tasks
          that wait for it.

        If `run_seconds` is given and the attempt has not been started, an event `started` comes first, dated back by it. Events
        name the settling worker and the attempt they tell of. Done, Dead and Cancelled free a unique key that is held until the
        end; Cancelled also frees one that is held for some time.
        """

    @abstractmethod
    def insert_dead(self, calls: Sequence[DeadCall], *, worker: str) -> list[Receipt]:
        """Store calls that were run and given up elsewhere as dead letters: all or none, one receipt per call, in order.

        A known id is left alone, as in `push`. Nobody can claim such a task before it is replayed. State `failed`, error set, a
        dead letter with reason and meta. Events: `enqueued`; `started`, dated back by `run_seconds`, if that is given; `failed`;
        `dead-lettered`. All but the first name worker and attempt.
        """

    @abstractmethod
    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        """Take back tasks whose lease has ended, oldest first. Their old leases are refused from here on.

        Event `requeued` with reason `lease-expired`; same attempt, due at once. If the attempt had started, this counts as a
        death. The `max_deaths`th death makes a dead letter: reason `crash-loop`, error type `WorkerLost`, meta `deaths` and
        `runs` (how often the task began).

        The death is taken back if the worker turns out to be alive, which its next call with that lease shows. Not so if the task
        has ended by then, or if that call is an ending which reports a death itself.

        `grace_seconds` protects workers after an outage. If nobody has called with a grace for longer than `grace_seconds`, the
        store was away or no worker ran. Nothing is taken back then until calls have come for `grace_seconds` without such a gap,
        so that live workers can renew first. 0 takes back at once.

        It also goes on cancelling what waits for failed prerequisites, where one call left too much (see `push`), whatever the
        grace; those are not in the answer.
        """

    @abstractmethod
    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        """Exact counts per queue. None: all queues that hold a task or a dead letter. A named queue is always in the answer."""

    @abstractmethod
    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        """Waiting tasks, without changing them: ready ones in claim order, then delayed ones by due time; no blocked ones."""

    def find(self, task_id: str) -> Peeked | None:  # noqa: ARG002 - a store need not implement it
        """A waiting, blocked or running task, without changing it; None if it is unknown or has ended. A task that was
        cancelled for a failed prerequisite, and can be revived, is found as well.

        `due_at` of a running task is any moment in the past.
        """
        return None

    @abstractmethod
    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        """Cancel the waiting ones among these tasks (ready, delayed, to be retried or blocked), and return their ids.

        State `cancelled`, error type `Cancelled` with the reason, event `revoked`; their unique keys are free. Leased, ended and
        unknown tasks are left alone.
        """

    @abstractmethod
    def purge(self, queue: str) -> int:
        """Cancel all waiting tasks of the queue, blocked ones included, with reason `purged`, as `cancel` does; returns how many.

        Running tasks and dead letters stay. A long purge takes several steps, each of them atomic.
        """
