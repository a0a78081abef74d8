"""A sensitive argument reaches its task, and no terminal, page, log, event or export."""

import html
import json
import re
from pathlib import Path

from acceptance.shell import Shell
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.runtime.keys import Keyring
from stem.scheduler.declared import Declarations, store_declared
from stem.scheduler.entries import EntryWriter
from support.web.dashboards import served
from support.worker_apps import paying
from support.workers.processes import desk, environment, worker_process

CARD, CVV = "4111111111111111", "8675309"
CALL = {"card": CARD, "payment": {"cvv": int(CVV), "to": "ada"}}


def test_a_sensitive_argument_is_seen_by_its_task_alone(shell: Shell, tmp_path: Path, namespace: str) -> None:
    """On one store: what is masked does not depend on where it was kept."""
    url = f"sqlite:///{tmp_path}/stem.db"
    shell = shell.at(**environment(url, namespace, base={}))
    said: dict[str, str] = {}
    with (
        desk(url, namespace) as client,
        worker_process(url, namespace, "support.worker_apps.paying:app", tmp_path) as worker,
    ):
        definitions = paying.app.tasks

        def send(name: str, **arguments: object) -> str:
            sensitive = definitions[name].definition.plan.sensitive
            return client.send(name, {"sensitive": sensitive}, **arguments)

        good, bad, unfit = send("pay", **CALL), send("pay", **CALL, fails=True), send("change", coin=CARD)
        ways = [send("pay-inline", card=CARD), send("pay-async", card=CARD)]
        held = send("hold", card=CARD)
        assert client.value(good) == paying.digest(CARD) == client.value(ways[0]) == client.value(ways[1])
        assert client.ended(bad).state is client.ended(unfit).state is State.FAILED
        waiting = client.send("pay", {"sensitive": ("card", "payment.cvv"), "queue": "later"}, **CALL)
        store_declared(
            EntryWriter(client.app.store, Keyring.parse("")), Declarations("code", "paying", paying.app.schedules)
        )
        for task_id in (good, bad, unfit, held, waiting, *ways):
            for verb in ("show", "logs"):
                said[f"{verb} {task_id}"] = shell.out("task", verb, task_id)
                said[f"{verb} {task_id} --json"] = shell.out("task", verb, task_id, "--json")
        for words in (
            ("dlq", "list"), ("dlq", "show", bad), ("dlq", "show", unfit), ("queue", "peek", "later"),
            ("observe", "events"), ("observe", "tasks"), ("observe", "dlq"), ("task", "list"), ("worker", "inspect"),
            ("observe", "retries"), ("schedule", "list"), ("schedule", "show", "nightly"), ("observe", "schedules"),
        ):  # fmt: skip
            said[str(words)] = shell.out(*words)
            said[f"{words} --json"] = shell.out(*words, "--json")
        for kind in ("jsonl", "csv"):
            said[f"export {kind}"] = shell.out("task", "export", "--format", kind)
        said["log"] = worker.text
        with served(client.app) as board:
            pages = [
                "/",
                "/tasks",
                "/dead-letters",
                "/events",
                *(f"/tasks/{each}" for each in (good, bad, unfit, held, waiting)),
            ]
            for page in [*pages, "/tasks?text=4111", f"/tasks?text={CVV}"]:
                answer = board.get(page)
                assert answer.status == 200, page
                said[page] = answer.text.replace(f"text={CVV}", "").replace(f'value="{CVV}"', "")
            assert waiting not in said[f"/tasks?text={CVV}"], "a search must not tell what is hidden"
            edited = re.search(r"<textarea name=\"arguments\"[^>]*>(.*?)</textarea>", said[f"/tasks/{bad}"], re.S)
            assert edited is not None
            form = {"arguments": html.unescape(edited[1]).replace("ada", "eve")}
            assert board.post(f"/tasks/{bad}/run-again", form).status == 200
        again = next(
            r for r in client.app.store.results.page(TaskFilter(), limit=50).items if r.meta.get("replayOf") == bad
        )
        assert client.ended(again.id).state is State.FAILED
        assert client.letter(again.id).envelope.arguments() == {
            "card": CARD, "payment": {"cvv": int(CVV), "to": "eve"}, "fails": True,
        }  # fmt: skip
    for where, text in said.items():
        assert CARD not in text and CVV not in text, f"{where} shows it: {text}"
    assert "5500005555555559" not in "".join(said.values())
    assert "charging *** with ***" in said["log"] and "to stderr ***" in said["log"] and "inline ***" in said["log"]
    shown = json.loads(said[f"show {bad} --json"])
    assert shown["args"] == {"card": "***", "payment": {"cvv": "***", "to": "ada"}, "fails": True}
    assert shown["error"]["message"] == "card '***' refused, cvv ***" and "***" in shown["error"]["stack"]
