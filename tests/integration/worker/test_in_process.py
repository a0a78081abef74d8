"""A worker beside its app, in one process, goes by the same settings as any other."""

from pathlib import Path

import pytest

from stem import Stem
from stem.core.lifecycle import State
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from stem.worker.supervisor import Worker


@pytest.mark.parametrize("setting", ["revokes_url", "results_url"])
def test_revokes_are_read_from_the_store_that_is_named_for_them(setting: str, tmp_path: Path, namespace: str) -> None:
    there = f"{tmp_path}/revokes.stem" if setting == "revokes_url" else f"sqlite:///{tmp_path}/results.db"
    chosen: dict[str, str] = {"broker_url": f"sqlite:///{tmp_path}/stem.db", setting: there}
    with Stem(settings=Settings(namespace=namespace, **chosen)) as app:  # type: ignore[arg-type]
        task = app.task(name="work")(lambda: None)
        revoked, other = task.enqueue(), task.enqueue()
        with app.store_connection.revokes() as marks:  # only there: the command would cancel what waits itself
            marks.put([RevokeRequest(task_id=revoked.id)])
        with Worker(app, in_process=True):
            other.get(20)
            assert revoked.wait(20).state is State.CANCELLED
        other.status()  # the app's own store is still open
