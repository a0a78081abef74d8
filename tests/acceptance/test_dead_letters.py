"""Dead letters: listed with a command that works when pasted, replayed, dropped."""

import msgspec

from acceptance.shell import Shell
from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.builders import a_push, dead, pushes
from support.servers import RedisServer
from support.stores.calls import WORKER, claim, claim_one, dead_ids, depth, fail_for_good
from support.stores.calls import ids as ids_of

LONG_ID = "0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00" + "-and-more" * 8


def test_the_list_says_what_died_and_the_replay_command_works_when_pasted(stem: Shell, durable_store: Store) -> None:
    fail_for_good(durable_store, LONG_ID, queue="mail", reason="crash-loop")
    listed = stem.out("dlq", "list")
    for part in (LONG_ID, "demo.add", "mail", "crash-loop"):
        assert part in listed
    command = listed.splitlines()[-1].strip()
    assert command == f"stem dlq replay {LONG_ID}"
    pasted = stem.paste(command)
    assert pasted.returncode == 0, pasted
    assert ids_of(claim(durable_store, "mail")) == [LONG_ID]
    assert stem.out("dlq", "list") == "No dead letter matches."


def test_a_store_named_by_flags_is_named_by_the_replay_command(
    shell: Shell, durable_url: str, namespace: str, durable_store: Store
) -> None:
    fail_for_good(durable_store, "a")
    flags = ("--broker-url", durable_url, "--namespace", namespace)
    (letter,) = shell.json("dlq", "list", *flags)["deadLetters"]
    assert letter["replay"] in shell.out("dlq", "list", *flags)
    pasted = shell.paste(letter["replay"])
    assert pasted.returncode == 0, pasted
    assert dead_ids(durable_store) == [] and depth(durable_store).ready == 1


def test_a_password_in_a_flag_is_never_printed(shell: Shell) -> None:
    server = RedisServer("--requirepass", "s3cret")
    url = server.url.replace("redis://", "redis://:s3cret@")
    try:
        store = connect(url, Settings())
        fail_for_good(store, "a")
        store.upkeep.close()
        for words in (("dlq", "list"), ("dlq", "list", "--json"), ("dlq", "show", "a"), ("health",)):
            printed = shell.out(*words, "--broker-url", url)
            assert "s3cret" not in printed
            assert words[0] == "health" or "set STEM_BROKER_URL" in printed
        assert shell.at(STEM_BROKER_URL=url).paste("stem dlq replay a").returncode == 0
    finally:
        server.close()


def test_show_tells_reason_error_and_arguments(stem: Shell, durable_store: Store) -> None:
    fail_for_good(durable_store, "a", reason="crash-loop")
    shown = stem.out("dlq", "show", "a")
    assert "crash-loop" in shown and "ValueError: boom" in shown and "Traceback: line 1" in shown
    letter = stem.json("dlq", "show", "a")
    assert letter["error"] == {"type": "ValueError", "message": "boom", "stack": "Traceback: line 1", "retryable": True}
    assert (letter["reason"], letter["attempts"], letter["args"]) == ("crash-loop", 1, {})
    assert "no dead letter b" in stem.refusal("dlq", "show", "b", code=1)


def test_replay_chooses_by_filter_and_a_dry_run_leaves_all_where_it_is(shell: Shell, local_store: Store) -> None:
    fail_for_good(local_store, "a", "b", queue="mail")
    fail_for_good(local_store, "c", queue="other")
    assert shell.json("dlq", "replay", "--queue", "mail", "--since", "1h", "--dry-run") == {
        "replayed": ["b", "a"],
        "dryRun": True,
    }
    assert dead_ids(local_store) == ["c", "b", "a"]
    assert shell.json("dlq", "replay", "--queue", "mail", "--limit", "1")["replayed"] == ["b"]
    assert shell.json("dlq", "replay", "--all", "--delay", "1h")["replayed"] == ["c", "a"]
    assert depth(local_store, "mail").delayed == 1 and depth(local_store, "other").delayed == 1


def test_replaying_ids_does_what_it_can_and_names_the_unknown(shell: Shell, local_store: Store) -> None:
    fail_for_good(local_store, "a")
    done = shell.run("dlq", "replay", "a", "gone")
    assert (done.returncode, dead_ids(local_store)) == (1, [])
    assert "no dead letter gone" in done.stderr and "Replayed 1" in done.stdout


def test_more_letters_than_one_step_holds_are_replayed_and_dropped(stem: Shell, durable_store: Store) -> None:
    def bury_all_that_waits() -> None:
        deliveries = claim(durable_store, limit=1100)
        assert durable_store.broker.settle([dead(delivery) for delivery in deliveries], worker=WORKER) == []

    durable_store.broker.push(pushes(*(f"task-{n}" for n in range(1100))))
    bury_all_that_waits()
    assert len(stem.json("dlq", "replay", "--all", "--dry-run")["replayed"]) == 1100
    assert len(stem.json("dlq", "replay", "--queue", "default")["replayed"]) == 1100
    assert depth(durable_store).ready == 1100
    bury_all_that_waits()
    assert stem.json("dlq", "purge", "--all", "--yes") == {"purged": 1100}


def test_purge_drops_what_was_chosen_and_nothing_else(shell: Shell, local_store: Store) -> None:
    fail_for_good(local_store, "a", "b", reason="crash-loop")
    fail_for_good(local_store, "c")
    shell.refusal("dlq", "purge", "a", code=64)
    assert shell.out("dlq", "purge", "a", "--yes") == "Dropped 1."
    assert shell.json("dlq", "purge", "--reason", "crash-loop", "--yes") == {"purged": 1}
    assert dead_ids(local_store) == ["c"]
    assert shell.run("dlq", "purge", "a", "--yes").returncode == 1
    assert shell.json("task", "show", "a")["status"] == "failed"


def test_everything_must_be_meant(shell: Shell, local_store: Store) -> None:
    fail_for_good(local_store, "a")
    for words in (("replay",), ("purge", "--yes"), ("replay", "a", "--all"), ("replay", "a", "--queue", "x")):
        assert "Say which" in shell.refusal("dlq", *words, code=64)
    assert dead_ids(local_store) == ["a"]


def test_a_limit_may_be_larger_than_any_store_could_count(stem: Shell, durable_store: Store) -> None:
    fail_for_good(durable_store, "a", "b")
    many = ("--all", "--limit", "1" * 23)
    assert stem.json("dlq", "replay", *many, "--dry-run")["replayed"] == ["b", "a"]
    assert stem.json("dlq", "replay", *many)["replayed"] == ["b", "a"]
    assert stem.json("dlq", "purge", *many, "--yes") == {"purged": 0}


def test_arguments_that_are_no_text_are_shown_as_unreadable(shell: Shell, local_store: Store) -> None:
    push = a_push("a")
    broken = msgspec.structs.replace(push.envelope, args=msgspec.Raw(b'{"x":"\xff"}'))
    local_store.broker.push([msgspec.structs.replace(push, envelope=broken)])
    assert shell.json("queue", "peek", "default")["tasks"][0]["args"] is None
    local_store.broker.settle([dead(claim_one(local_store))], worker=WORKER)
    assert "(unreadable)" in shell.out("dlq", "show", "a")
    assert shell.json("dlq", "list")["deadLetters"][0]["args"] is None
