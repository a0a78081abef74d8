"""Listings show errors, arguments and idle or paused queues, within 80 columns."""

import json
from datetime import UTC, datetime

import pytest

from acceptance.lab import Lab
from acceptance.shell import Shell
from stem.contracts.store import Store
from stem.core.heartbeat import Heartbeat
from stem.core.pause import pause_id
from stem.core.revoke import RevokeRequest
from support.builders import a_push, dead, done
from support.stores.calls import WORKER, claim_one, fail_for_good, push_and_claim

ID = "0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00"
LONG = "shop.warehouse.inventory.synchronise_with_supplier"


def a_beat(*queues: str, name: str = "w1", **extras: object) -> Heartbeat:
    return Heartbeat(
        worker_id=name, namespace="stem", host="web-server-17.example.com", pid=31337, uptime_seconds=1.0, concurrency=4,
        in_flight=2, queues=list(queues), counters={"succeeded": 123456, "retried": 17, "failed": 3}, extras=dict(extras),
    )  # fmt: skip


def test_lists_show_the_error(shell: Shell, local_store: Store) -> None:
    fail_for_good(local_store, ID)
    for words in (("task", "list", "--state", "failed"), ("dlq", "list")):
        printed = shell.out(*words)
        assert ID in printed and "ValueError: boom" in printed


QUEUE = "long.queue.of.the.warehouse"


@pytest.mark.parametrize(
    "words", [("task", "list"), ("dlq", "list"), ("queue", "peek", QUEUE), ("queue", "list"), ("health",)]
)
def test_tables_fit_80_columns_and_ids_stay_whole(shell: Shell, local_store: Store, words: tuple[str, ...]) -> None:
    died = push_and_claim(local_store, a_push(ID, name=LONG, queue=QUEUE))
    local_store.broker.settle([dead(died)], worker=WORKER)
    local_store.broker.push([a_push(ID[:-1] + "1", name=LONG, queue=QUEUE)])
    local_store.heartbeats.beat(a_beat("default", QUEUE), ttl_seconds=60)
    lines = shell.out(*words).partition("\nReplay:")[0].splitlines()
    about_the_store = 8 if words == ("health",) else 0  # lines with URLs, which are told whole
    assert max(map(len, lines[about_the_store:])) <= 80, "\n".join(lines)
    lists_tasks = words[:2] not in (("queue", "list"), ("health",))
    assert lists_tasks == any(ID[:-1] in line for line in lines)
    assert lists_tasks == (LONG in shell.at(COLUMNS="200").out(*words))


def test_a_worker_table_fits_80_columns(shell: Shell, local_store: Store) -> None:
    local_store.heartbeats.beat(a_beat("default", "mail", "reports", name="alpha@web1"), ttl_seconds=60)
    lines = shell.out("worker", "status").splitlines()
    assert max(map(len, lines)) <= 80, "\n".join(lines)
    assert "alpha@web1" in lines[1]


def test_show_has_arguments_due_time_and_duration(stem: Shell, durable_store: Store) -> None:
    due_at = datetime(2030, 1, 31, 9, tzinfo=UTC)
    id = stem.out("enqueue", "add", "--arg", "a=1", "--not-before", "2030-01-31T09:00:00Z")
    shown = stem.json("task", "show", id)
    assert (shown["args"], shown["durationSeconds"], shown["state"]) == ({"a": 1}, None, "queued")
    assert datetime.fromisoformat(shown["dueAt"]) == due_at
    printed = stem.out("task", "show", id)
    assert '{"a":1}' in printed and "2030-01-31T09:00:00Z" in printed

    other = stem.out("enqueue", "add", "--arg", "a=2")
    delivery = claim_one(durable_store)
    durable_store.broker.start([delivery.lease], worker=WORKER)
    assert stem.json("task", "show", other)["args"] == {"a": 2}
    durable_store.broker.settle([done(delivery, 3, ran=1.5)], worker=WORKER)
    shown = stem.json("task", "show", other)
    assert (shown["args"], shown["dueAt"]) == (None, None)
    assert shown["durationSeconds"] >= 0 and "duration" in stem.out("task", "show", other)

    died = push_and_claim(durable_store, a_push("dead", args={"a": 4}))
    durable_store.broker.settle([dead(died)], worker=WORKER)
    assert stem.json("task", "show", "dead")["args"] == {"a": 4}


def test_queues_that_are_paused_or_that_nobody_serves_are_shown(stem: Shell, durable_store: Store) -> None:
    durable_store.broker.push([a_push("1", queue="mail"), a_push("2", queue="lost"), a_push("3", queue="mail:tenant")])
    durable_store.heartbeats.beat(a_beat("mail", "idle"), ttl_seconds=60)
    assert stem.run("queue", "pause", "idle", "--timeout", "50ms").returncode == 70  # the worker of this test is silent
    for command in ("health", "queue list"):
        queues = {each["queue"]: each for each in stem.json(*command.split())["queues"]}
        assert {name: each["workers"] for name, each in queues.items()} == {
            "idle": ["w1"], "lost": [], "mail": ["w1"], "mail:tenant": ["w1"],
        }  # fmt: skip
        assert {name: each["paused"] for name, each in queues.items() if each["paused"]} == {"idle": "*"}
        lines = stem.out(*command.split()).splitlines()
        assert next(line for line in lines if line.startswith("lost ")).endswith("no worker")
        assert next(line for line in lines if line.startswith("idle ")).endswith("paused")
    stem.run("queue", "resume", "idle", "--timeout", "50ms")
    assert {each["paused"] for each in stem.json("queue", "list")["queues"]} == {None}


def test_a_pause_is_found_behind_thousands_of_revokes(stem: Shell, durable_store: Store) -> None:
    durable_store.broker.push([a_push("1", queue="mail:tenant"), a_push("2", queue="mail")])
    for queue in ("mail", "empty"):
        durable_store.revokes.put([RevokeRequest(task_id=pause_id(queue), reason="*", requester="ada")])
    durable_store.revokes.put([RevokeRequest(task_id=f"t{i}", reason="", requester="ada") for i in range(3000)])
    paused = {each["queue"]: each["paused"] for each in stem.json("queue", "list")["queues"]}
    assert paused == {"mail": "*", "mail:tenant": "*"}
    assert stem.run("queue", "resume", "empty").returncode == 0


APP = """
from stem import Stem

print("imported")
app = Stem(broker_url="sqlite:///elsewhere.db", namespace="shop")


@app.task(name="add", queue="sums", max_retries=7)
def add(a: int) -> int:
    return a
"""


@pytest.mark.parametrize(
    "words",
    [
        ("task", "list"),
        ("dlq", "list"),
        ("queue", "list"),
        ("queue", "peek", "sums"),
        ("health",),
        ("worker", "status"),
    ],
)
def test_an_app_that_names_its_store_in_code_is_asked_for_it(shell: Shell, words: tuple[str, ...]) -> None:
    (shell.directory / "shop.py").write_text(APP)
    assert shell.run("enqueue", "add", "--arg", "a=1", "--app", "shop:app").returncode == 0
    by_flag = shell.run(*words, "--json", "-A", "shop:app")
    by_variable = shell.at(STEM_APP="shop:app").run(*words, "--json")
    assert by_flag.returncode == by_variable.returncode == 0, by_flag
    told, again = json.loads(by_flag.stdout), json.loads(by_variable.stdout)
    assert set(told) == set(again)
    if words[0] in ("task", "queue") and words[1] == "list":
        assert told[f"{words[0]}s"][0]["queue"] == "sums"
    assert "stem.db" not in shell.files


def test_an_app_in_the_environment_is_not_imported_where_the_store_is_named(shell: Shell) -> None:
    (shell.directory / "shop.py").write_text(APP)
    shell.out("enqueue", "a")
    named = shell.at(STEM_APP="shop:app", STEM_BROKER_URL="sqlite:///stem.db")
    assert named.run("task", "list").stderr == ""
    (shell.directory / "stem.yaml").write_text("broker: sqlite:///stem.db\n")
    assert shell.at(STEM_APP="shop:app").run("task", "list").stderr == ""


def test_the_replay_command_names_the_app(shell: Shell) -> None:
    (shell.directory / "shop.py").write_text(APP)
    shell.run("enqueue", "add", "--arg", "a=1", "--app", "shop:app", "--id", "one")
    shown = shell.run("task", "list", "--limit", "1", "-A", "shop:app").stdout
    assert "one" in shown
    shell.run("enqueue", "add", "--arg", "a=1", "--app", "shop:app", "--id", "two")
    assert "--app shop:app" in shell.run("task", "list", "--limit", "1", "-A", "shop:app").stdout


def test_revoke_and_pause_refuse_an_unknown_id_or_queue_without_unknown_ok(stem: Shell, durable_store: Store) -> None:
    durable_store.broker.push([a_push("here")])
    assert "There is no task gone" in stem.refusal("task", "revoke", "here", "gone", code=1)
    assert "queue nosuch" in stem.refusal("queue", "pause", "nosuch", code=1)
    assert durable_store.revokes.version() == 0
    stem.out("task", "revoke", "here")
    stem.out("task", "revoke", "gone", "--unknown-ok")
    stem.out("queue", "pause", "nosuch", "--unknown-ok")
    stem.out("queue", "resume", "nosuch")
    assert set(durable_store.revokes.get(["here", "gone"])) == {"here", "gone"}


def test_an_enqueue_by_name_uses_what_workers_have_told_of_the_task(shell: Shell, local_store: Store) -> None:
    beat = a_beat("default", "sums", tasks={"add": ["sums", 7]})
    local_store.heartbeats.beat(beat, ttl_seconds=60)
    shell.out("enqueue", "add", "--id", "one")
    shell.out("enqueue", "add", "--id", "two", "--queue", "other", "--max-retries", "1")
    sent = {id: local_store.broker.find(id) for id in ("one", "two")}
    told = {id: peeked and (peeked.queue, b'"maxRetries":7' in peeked.body) for id, peeked in sent.items()}
    assert told == {"one": ("sums", True), "two": ("other", False)}
    warned = shell.run("enqueue", "ad")
    assert warned.returncode == 0
    assert warned.stderr == "warning: No running worker has a task ad; did you mean add?\n"


def test_status_heeds_the_namespace_that_workers_listen_in(shell: Shell, local_store: Store) -> None:
    for name, control in (("here", "stem"), ("there", "ops")):
        local_store.heartbeats.beat(a_beat("default", name=name, controlNamespace=control), ttl_seconds=60)

    def names(shell: Shell, *words: str) -> list[str]:
        return [each["workerId"] for each in shell.json("worker", "status", *words)["workers"]]

    assert names(shell.at(STEM_CONTROL_NAMESPACE="ops")) == ["there"]
    assert names(shell.at(STEM_WORKER_NAMESPACE="ops")) == ["there"]
    assert names(shell, "--namespace", "ops") == ["there"]
    assert names(shell) == ["here", "there"]


def test_a_worker_that_is_paused_says_so_to_every_question(lab: Lab) -> None:
    lab.start("w1", "--concurrency", "1")
    lab.desk.send("quick")
    lab.shell.out("queue", "pause", "default", "mail")
    for command in ("ping", "stats", "inspect", "queue-status"):
        assert lab.replies(command)["w1"]["state"] == "paused", command
    lab.desk.send("quick")
    lab.desk.send("mail", {"queue": "mail"})
    assert lab.told("stats")["queueDepth"] >= 2


def test_a_value_that_workers_refuse_is_a_mistake_of_the_command(lab: Lab) -> None:
    lab.start("w1", "--concurrency", "1")
    for words, sentence in (
        (("autoscale", "--min", "0"), "autoscale.min"),
        (("autoscale", "--idle", "soon"), "idle"),
        (("rate-limit", "nosuch", "5/s"), "no task 'nosuch'"),
        (("rate-limit", "quick", "fast"), "fast"),
    ):
        done = lab.run(*words)
        assert done.returncode == 64 and sentence in done.stderr, done
        assert "refused" in done.stdout
    assert "has the isolate 1;" in lab.shell.refusal("worker", "recycle", "--isolate", "1", code=1)
    assert "Name at least" in lab.shell.refusal("worker", "revoke", code=64)


def test_diagnose_and_health_check_revoke_store_signing_and_tls(shell: Shell, local_store: Store) -> None:
    assert local_store.namespace == "stem"
    checks = {each["check"]: each for each in shell.json("worker", "diagnose")["checks"]}
    assert checks["signing keys"]["message"].startswith("Off") and checks["TLS"]["level"] == "ok"
    away = shell.at(STEM_REVOKE_STORE_URL="redis://127.0.0.1:1/0")
    done = away.run("worker", "diagnose", "--json")
    (found,) = [each for each in json.loads(done.stdout)["checks"] if each["check"] == "revoke store"]
    assert (done.returncode, found["level"]) == (70, "error")
    assert "127.0.0.1:1" in away.refusal("health", code=70)
    kept = shell.at(STEM_REVOKE_STORE_URL="revokes.stem").json("health")
    assert kept["revokes"]["url"].endswith("revokes.stem") and kept["signing"].startswith("off")

    (shell.directory / "ca.pem").write_text("no certificate")
    broken = shell.at(STEM_TLS_CA_CERT="ca.pem")
    assert "ca.pem" in broken.refusal("health", code=64)
    assert broken.run("worker", "diagnose").returncode == 70
    assert shell.at(STEM_SIGNING_KEYS="nokey").run("health").returncode == 64
