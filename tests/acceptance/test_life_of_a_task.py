"""From enqueue to result, by the command line alone on one side and a store that claims on the other."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from acceptance.shell import Shell
from stem.contracts.store import Store
from support.builders import dead, done
from support.stores.calls import WORKER, claim, claim_one
from support.until import until


def test_a_task_is_enqueued_waits_runs_and_gives_its_result(stem: Shell, durable_store: Store) -> None:
    id = stem.out("enqueue", "mail.send", "--arg", "to=ada", "--arg", "copies=2", "--priority", "7", "--meta", "by=me")
    assert id in stem.out("queue", "peek", "default")
    counts = {"ready": 1, "delayed": 0, "blocked": 0, "running": 0, "dead": 0}
    assert stem.json("queue", "list") == {"queues": [{"queue": "default", **counts, "workers": [], "paused": None}]}
    shown = stem.json("task", "show", id)
    assert (shown["status"], shown["priority"], shown["meta"]) == ("queued", 7, {"by": "me"})
    assert "is still queued" in stem.refusal("task", "result", id, code=70)

    delivery = claim_one(durable_store)
    assert delivery.envelope.arguments() == {"to": "ada", "copies": 2}
    durable_store.broker.settle([done(delivery, {"sent": 2})], worker=WORKER)

    assert stem.out("task", "result", id) == '{"sent":2}'
    ended = {"id": id, "status": "succeeded", "state": "succeeded", "result": {"sent": 2}, "error": None}
    assert stem.json("task", "result", id) == ended
    assert id in stem.out("task", "list", "--state", "succeeded", "--name", "mail.send", "--since", "1h")
    assert stem.out("task", "list", "--state", "failed") == "No task matches."
    assert [each["id"] for each in stem.json("task", "list", "--meta", "by=me")["tasks"]] == [id]
    assert stem.out("task", "list", "--meta", "by=you") == "No task matches."
    assert "--meta 'by' is not key=value" in stem.refusal("task", "list", "--meta", "by", code=64)
    assert stem.json("queue", "list") == {"queues": []}


def test_enqueue_can_wait_for_the_result(stem: Shell, durable_store: Store) -> None:
    with worker(durable_store, value=42):
        id, result = stem.out("enqueue", "answer", "--wait", "20s").split("\n")
    assert result == "42"
    with worker(durable_store, value=None):
        waited = stem.json("enqueue", "answer", "--wait", "20s")
    ended = {"status": "succeeded", "state": "succeeded", "result": None, "error": None}
    assert waited == {"id": waited["id"], **ended}
    assert waited["id"] != id


def test_waiting_for_a_task_that_fails_says_its_error_and_exits_70(stem: Shell, durable_store: Store) -> None:
    id = stem.out("enqueue", "answer")
    with worker(durable_store, fails=True):
        refusal = stem.refusal("task", "result", id, "--wait", "20", code=70)
    assert refusal == f"Task {id} (answer) failed after 1 attempt: ValueError: boom"


def test_waiting_ends_on_time(shell: Shell) -> None:
    done = shell.run("enqueue", "answer", "--wait", "0.2")
    assert done.returncode == 70
    assert done.stdout.rstrip("\n") in done.stderr and "still queued" in done.stderr


def test_options_reach_the_task(shell: Shell, local_store: Store) -> None:
    (shell.directory / "args.json").write_text('{"n": [1, 2]}')
    id = shell.out(
        "enqueue", "demo.add", "--args", "@args.json", "--queue", "q1", "--header", "trace=abc", "--max-retries", "0",
        "--expires", "1h", "--id", "order-17", "--not-before", "2020-01-01T00:00:00+02:00",
    )  # fmt: skip
    assert id == "order-17"
    envelope = claim_one(local_store, "q1").envelope
    assert envelope.arguments() == {"n": [1, 2]}
    assert envelope.headers["trace"] == "abc"
    assert envelope.max_retries == 0
    assert envelope.not_before is not None and envelope.not_before.isoformat() == "2019-12-31T22:00:00+00:00"


def test_the_same_id_or_unique_key_twice_is_one_task(shell: Shell) -> None:
    assert [shell.out("enqueue", "a", "--id", "mine") for _ in range(2)] == ["mine", "mine"]
    first, second = (shell.out("enqueue", "b", "--arg", "n=1", "--unique", "until_done") for _ in range(2))
    assert first == second
    assert shell.json("queue", "list")["queues"][0]["ready"] == 2


def test_a_delayed_task_is_counted_and_shown_as_such(shell: Shell) -> None:
    shell.out("enqueue", "later", "--delay", "2h")
    (queue,) = shell.json("queue", "list")["queues"]
    assert (queue["ready"], queue["delayed"]) == (0, 1)


def test_purge_cancels_what_waits(shell: Shell) -> None:
    id = shell.out("enqueue", "demo.add", "--queue", "bulk")
    assert "add --yes" in shell.refusal("queue", "purge", "bulk", code=64)
    assert shell.out("queue", "purge", "bulk", "--yes") == "Cancelled 1 in bulk."
    assert shell.json("queue", "purge", "bulk", "--yes") == {"queue": "bulk", "purged": 0}
    assert "was cancelled" in shell.refusal("task", "result", id, code=70)


def test_pages_follow_each_other_by_the_printed_command(stem: Shell) -> None:
    ids = [stem.out("enqueue", "demo.add", "--id", f"task-{n}") for n in range(3)]
    first = stem.out("task", "list", "--limit", "2", "--since", "1h", "--name", "demo.add")
    second = stem.paste(first.splitlines()[-1])
    assert second.returncode == 0, second
    seen = [line.split()[0] for line in (first + "\n" + second.stdout).splitlines() if line.startswith("task-")]
    assert seen == ids[::-1]


@contextmanager
def worker(store: Store, *, value: object = None, fails: bool = False) -> Iterator[None]:
    """Something that claims one task and ends it."""

    def work() -> None:
        (delivery,) = until(lambda: claim(store, limit=1), seconds=30)
        ending = dead(delivery) if fails else done(delivery, value)
        assert store.broker.settle([ending], worker=WORKER) == []

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()
