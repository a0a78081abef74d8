"""Store what was run and given up elsewhere: as tasks that are dead letters from the start."""

from collections.abc import Sequence

import msgspec

from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.pushing import Pushing
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import Task
from stem.core import envelope as envelopes
from stem.core.delivery import Fallen
from stem.core.envelope import Push, Receipt


def bury(space: Space, fallen: Sequence[Fallen], worker: str) -> list[Receipt]:
    if not fallen:
        return []
    # Due at once, so that all enter where they are taken out again before anybody can look.
    pushes = [Push(each.envelope, delay_seconds=0.0) for each in fallen]
    bodies = [envelopes.encode(each.envelope) for each in fallen]
    with space.file.writing() as connection:
        draft = Draft(space, space.now())
        pushing = Pushing(space, draft, connection.cursor(), pushes)
        receipts = list(map(pushing.push, pushes, bodies))
        draft.write(connection)
        made = {each.envelope.id: each for each, receipt in zip(fallen, receipts, strict=True) if receipt.created}
        ids = msgspec.json.encode(list(made)).decode()
        graves = Draft(space, draft.now)
        for row in connection.execute(SQL["task_by_id"], (space.ns, ids)).fetchall():
            task = Task(*row)
            _bury(graves, space, task, made[task.id], worker)
        graves.write(connection)
    space.ring(graves.topics)
    return receipts


def _bury(draft: Draft, space: Space, task: Task, fallen: Fallen, worker: str) -> None:
    draft.add["ready_delete"]((space.ns, task.queue, task.rank, task.seq))
    task.worker, task.attempt = worker, fallen.attempt
    if fallen.run_seconds is not None:
        draft.start(task, worker, fallen.run_seconds)
    draft.bury(task, fallen.settlement)
