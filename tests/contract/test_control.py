"""Asking live workers through a store: who is there answers, who is silent is told, and what is not meant has no effect."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from conftest import OpenStore
from stem.backends.memory.mail import MemoryMail
from stem.backends.postgres.mail import PostgresMail
from stem.backends.redis.mail import RedisMail
from stem.backends.sqlite.mail import SqliteMail
from stem.contracts.steering.control import ControlTransport
from stem.contracts.store import Store
from stem.control.caller import Answers, Caller
from stem.control.listener import ControlListener
from stem.control.responder import Responder
from stem.control.signing import sign, sign_reply
from stem.control.transports.broadcast import BroadcastTransport
from stem.control.transports.broker import BrokerTransport
from stem.control.transports.chain import TransportChain
from stem.control.transports.control_mail import ControlMail
from stem.control.transports.http import HttpTransport
from stem.control.transports.polling import PollingTransport
from stem.core.control import Command, Reply, encode_command, encode_reply
from stem.core.errors import StoreUnavailable, UsageError
from stem.runtime.keys import Keyring
from support.background import in_thread, is_waiting, takes_less_than
from support.servers import free_port
from support.stores.calls import let_time_pass
from support.until import until
from support.workers.steerable import GONE_PID, OnDuty, Steered, a_command, beat, on_duty

KEYS = Keyring.parse("one:hmac-sha256:" + "b25l" * 8)
THREE = ("w1", "w2", "w3")


def codes(answers: Answers) -> dict[str, str | None]:
    return {worker: reply.error.code if reply.error else None for worker, reply in answers.replies.items()}


def prune_all(store: Store) -> None:
    while store.upkeep.prune():
        pass


@pytest.mark.parametrize("kind", [BrokerTransport, BroadcastTransport])
def test_a_ping_of_three_has_three_answers(
    store: Store, open_store: OpenStore, kind: Callable[..., ControlTransport]
) -> None:
    asking = open_store()
    with on_duty(store, *THREE, keyring=KEYS) as workers:
        answers = Caller(asking, KEYS, transport=kind(asking.mail, asking.namespace)).ask("ping", timeout_seconds=20)
        assert {name: reply.payload["workerId"] for name, reply in answers.replies.items()} == {w: w for w in THREE}
        assert answers.is_all_ok and answers.silent == []
        assert answers.health == dict.fromkeys(THREE, "ok")
        assert answers.transport == kind.name  # type: ignore[attr-defined]
        assert [each.told for each in workers] == [[("pong",)]] * 3, "each was told once"


def test_an_ask_ends_with_the_last_reply(store: Store, open_store: OpenStore) -> None:
    asking = open_store()
    with on_duty(store, *THREE, keyring=KEYS) as workers:
        caller = Caller(asking, KEYS)

        def seconds_after() -> float:
            """Counted from before the reply was sent, which is more than the promise."""
            answers = caller.ask("ping", timeout_seconds=20)
            ended = time.monotonic()
            assert answers.is_all_ok and answers.elapsed_seconds < 15
            return ended - max(each.worker.told_at for each in workers)

        seconds_after()
        takes_less_than(0.05, lambda: statistics.median(seconds_after() for _ in range(9)))


def test_the_named_ones_are_asked_and_nobody_else(store: Store) -> None:
    with on_duty(store, *THREE) as workers:
        for transport in (BrokerTransport, BroadcastTransport):
            answers = Caller(store, transport=transport(store.mail, store.namespace)).ask(
                "ping", workers=["w3", "w1", "w3"], timeout_seconds=20
            )
            assert list(answers.replies) == ["w1", "w3"] and answers.is_all_ok
        assert [len(each.told) for each in workers] == [2, 0, 2]
        until(lambda: [each.counts for each in workers] == [{"ok": 2}, {}, {"ok": 2}])


def test_a_silent_worker_is_told_of_when_the_time_is_up(store: Store) -> None:
    beat(store, "elsewhere", host="another-machine")
    beat(store, "frozen")
    beat(store, "killed", pid=GONE_PID)
    with on_duty(store, "w1") as (worker,):
        worker.worker.state = "draining"

        def told_in_time() -> Answers | None:
            """Unless the machine was halted, so that also who lives came too late."""
            answers = Caller(store).ask("ping", timeout_seconds=0.6)
            assert answers.elapsed_seconds >= 0.59
            return answers if answers.elapsed_seconds < 3 and answers.replies["w1"].status == "ok" else None

        answers = until(told_in_time)
    assert codes(answers) == {"elsewhere": "timeout", "frozen": "timeout", "killed": "timeout", "w1": None}
    assert answers.silent == ["elsewhere", "frozen", "killed"] and not answers.is_all_ok
    assert answers.health == {"elsewhere": "timeout", "frozen": "timeout", "killed": "dead", "w1": "draining"}


def test_a_worker_whose_heartbeat_goes_while_it_is_asked_is_dead(store: Store) -> None:
    def asked_in_time() -> Answers | None:
        beat(store, "fading", host="another-machine", seconds=0.3)
        answers = Caller(store).ask("ping", timeout_seconds=1)
        return answers if answers.replies else None

    answers = until(asked_in_time)
    assert codes(answers) == {"fading": "timeout"} and answers.health == {"fading": "dead"}


def test_a_worker_that_nobody_knows_is_called_unknown(store: Store) -> None:
    def answered_in_time() -> Answers | None:
        answers = Caller(store).ask("ping", workers=["w1", "w9"], timeout_seconds=0.5)
        return answers if answers.replies["w1"].status == "ok" else None

    with on_duty(store, "w1"):
        answers = until(answered_in_time)
    assert codes(answers) == {"w1": None, "w9": "unknown-worker"}
    assert answers.replies["w9"].status == "timeout" and answers.health["w9"] == "timeout"


def test_where_nobody_is_there_an_ask_ends_at_once(store: Store) -> None:
    answers = Caller(store).ask("ping", timeout_seconds=20)
    assert dict(answers.replies) == {} and answers.elapsed_seconds < 15


def test_an_impossible_command_is_refused_before_it_is_sent(store: Store) -> None:
    with on_duty(store, "w1") as (worker,):
        caller = Caller(store)
        wrong: list[Callable[[], object]] = [
            lambda: caller.ask("Ping"),
            lambda: caller.ask("ping", workers=["*"]),
            lambda: caller.ask("ping", workers=["a b"]),
            lambda: caller.ask("ping", workers=[f"w{n}" for n in range(1001)]),
            lambda: caller.ask("ping", timeout_seconds=0),
            lambda: caller.ask("ping", timeout_seconds=601),
            lambda: caller.ask("ping", {"x": object()}),
            lambda: caller.ask("ping", {"x": "y" * 300_000}),
        ]
        for ask in wrong:
            with pytest.raises(UsageError):
                ask()
        caller.ask("ping", timeout_seconds=20)
        assert worker.told == [("pong",)] and worker.counts == {"ok": 1}


def test_a_worker_that_is_busy_obeying_answers_a_ping(store: Store) -> None:
    with on_duty(store, "w1") as (worker,):
        worker.worker.may_go_on.clear()
        revoking = in_thread(
            lambda: Caller(store).ask("revoke", {"taskIds": ["t"]}, workers=["w1"], timeout_seconds=20)
        )
        until(lambda: worker.told)
        assert Caller(store).ask("ping", timeout_seconds=15).is_all_ok
        assert is_waiting(revoking, seconds=0.01)
        worker.worker.may_go_on.set()
        assert revoking.result(20).replies["w1"].payload == {"tasks": {"t": "noted"}}


def deliver(store: Store, command: Command, worker: OnDuty) -> Reply:
    """Into the worker's own box, as one who can write to the store would."""
    post = ControlMail(store.mail, store.namespace)
    store.mail.send(post.worker_box(worker.worker.worker_id), encode_command(command), ttl_seconds=60)
    replies = until(lambda: post.replies(command.request_id, 1))
    assert len(replies) == 1
    return replies[0]


def test_commands_that_are_not_to_be_trusted_have_no_effect_and_are_counted(store: Store) -> None:
    with on_duty(store, "w1", keyring=KEYS) as (worker,):

        def made(*, life: float = 60, **fields: Any) -> Command:
            return sign(a_command(store.upkeep.now(), "shutdown", life=life, **fields), KEYS, namespace=store.namespace)

        good = made()
        bad = {
            "unsigned": (msgspec.structs.replace(made(), auth=None), "signature-invalid"),
            "tampered": (msgspec.structs.replace(made(), payload={"mode": "hard"}), "signature-invalid"),
            "another fleet's": (
                sign(a_command(store.upkeep.now(), "shutdown", life=60), KEYS, namespace="other"),
                "signature-invalid",
            ),
            "expired": (made(age=10, life=5), "expired"),
            "of before": (made(age=60, life=600), "expired"),
        }
        for what, (command, code) in bad.items():
            reply = deliver(store, command, worker)
            assert reply.error is not None and reply.error.code == code, what
        assert worker.told == []
        assert deliver(store, good, worker).status == "ok"
        replayed = deliver(store, good, worker)
        assert replayed.error is not None and replayed.error.code == "replayed"
        assert worker.told == [("shutdown", "warm")]
        assert worker.counts == {"signature-invalid": 3, "expired": 2, "ok": 1, "replayed": 1}


def test_asking_without_the_key_is_refused_by_every_worker(store: Store) -> None:
    with on_duty(store, *THREE, keyring=KEYS) as workers:
        answers = Caller(store).ask("shutdown", timeout_seconds=20)
        assert codes(answers) == dict.fromkeys(THREE, "signature-invalid")
        assert answers.health == dict.fromkeys(THREE, "refused")
        assert [each.told for each in workers] == [[], [], []]


def test_forged_replies_are_not_shown_and_do_not_hide_the_answer(store: Store) -> None:
    """Somebody who can write to the store answers first, in the worker's name, to every question."""
    strangers = Keyring.parse("one:hmac-sha256:" + "eHh4" * 8)
    post = ControlMail(store.mail, store.namespace)

    class Overheard(BroadcastTransport):
        def send_command(self, command: Command) -> str:
            for forged in forgeries(command):
                store.mail.send(post.reply_box(command.request_id), forged, ttl_seconds=60)
            return super().send_command(command)

    def forgeries(command: Command) -> list[bytes]:
        plain = Reply(request_id=command.request_id, worker_id="w1", status="ok", payload={"forged": True})
        signed = sign_reply(plain, command, strangers, namespace=store.namespace)
        elsewhere = sign_reply(plain, command, KEYS, namespace="another-fleet")
        other = msgspec.structs.replace(command, nonce="n" * 16)
        recorded = sign_reply(plain, other, KEYS, namespace=store.namespace)
        rubbish = [b"", b"{", b'{"requestId": 1}', b"\xff", b'{"a":' * 10_000]
        return [*(encode_reply(each) for each in (plain, signed, elsewhere, recorded)), *rubbish]

    caller = Caller(store, KEYS, transport=Overheard(store.mail, store.namespace))
    with on_duty(store, "w1", keyring=KEYS):
        answers = caller.ask("ping", timeout_seconds=20)
        assert answers.is_verified and answers.is_all_ok
        assert answers.replies["w1"].payload["pong"] is True
    beat(store, "w1", host="elsewhere")
    silent = caller.ask("ping", timeout_seconds=0.3)
    (reply,) = silent.replies.values()
    assert reply.status == "timeout" and reply.payload == {} and reply.error is not None
    assert reply.error.code == "reply-unverified" and "in the name of w1 does not count" in reply.error.message
    assert not Caller(store).ask("ping", timeout_seconds=0.1).is_verified


def test_a_copy_of_a_command_does_not_hide_the_answer_to_it(store: Store) -> None:
    class Twice(BrokerTransport):
        """Sends to the box and to all."""

        def send_command(self, command: Command) -> str:
            BroadcastTransport(store.mail, store.namespace).send_command(command)
            return super().send_command(command)

    with on_duty(store, "w1") as (worker,):
        for _ in range(5):
            answers = Caller(store, transport=Twice(store.mail, store.namespace)).ask(
                "ping", workers=["w1"], timeout_seconds=20
            )
            assert codes(answers) == {"w1": None}
        until(lambda: worker.counts == {"ok": 5, "replayed": 5})
        assert worker.told == [("pong",)] * 5


def test_more_than_the_rate_is_refused_each_with_a_reply(store: Store) -> None:
    began = store.upkeep.now()
    with on_duty(store, "w1", commands_per_second=2) as (worker,):
        post = ControlMail(store.mail, store.namespace)
        commands = [a_command(store.upkeep.now(), life=60) for _ in range(30)]
        for command in commands:
            post.to_all(command)
        replies = [until(lambda each=command: post.replies(each.request_id, 1))[0] for command in commands]  # type: ignore[misc]
        refused = [reply for reply in replies if reply.error is not None and reply.error.code == "rate-limited"]
        obeyed = [reply for reply in replies if reply.status == "ok"]
        assert len(refused) + len(obeyed) == 30
        assert 2 <= len(obeyed) == len(worker.told) <= 2 + 2 * (store.upkeep.now() - began)
        assert worker.counts == {"ok": len(obeyed), "rate-limited": len(refused)}


def test_a_command_to_an_absent_worker_never_fires(store: Store) -> None:
    caller = Caller(store)
    beat(store, "w1", host="another-machine")
    with on_duty(store, "w1"):
        pass
    answers = caller.ask("shutdown", {"mode": "hard"}, workers=["w1"], timeout_seconds=0.1)
    assert answers.silent == ["w1"]
    # One with a long life lies in its box when the worker is back, and one was broadcast.
    for targets in (("w1",), ("*",)):
        ControlMail(store.mail, store.namespace).to_each(
            a_command(store.upkeep.now(), "shutdown", targets=targets, life=600)
        )
    let_time_pass(store, 0.11)  # also of what was sent only when the caller's time was nearly over
    with on_duty(store, "w1") as (worker,):
        assert caller.ask("ping", workers=["w1"], timeout_seconds=20).is_all_ok
        assert caller.ask("ping", timeout_seconds=20).is_all_ok
        assert worker.told == [("pong",), ("pong",)]
        assert worker.counts == {"ok": 2, "expired": 1}, "the box was emptied, and nothing in it obeyed"


def test_polling_carries_the_same(store: Store) -> None:
    polls = PollingTransport(store.mail, store.namespace, "polled", poll_seconds=0.05)
    asking = PollingTransport(store.mail, store.namespace, poll_seconds=0.05)
    worker = Steered("polled")
    with on_duty(store, "w1"):
        ears = ControlListener([polls], Responder(worker, namespace=store.namespace, clock=store.upkeep.now))
        ears.start()
        beat(store, "polled")
        caller = Caller(store, transport=asking)
        answers = caller.ask("ping", timeout_seconds=20)
        assert answers.is_all_ok and list(answers.replies) == ["polled", "w1"] and answers.transport == "polling"
        assert caller.ask("ping", workers=["polled"], timeout_seconds=20).is_all_ok
        assert worker.told == [("pong",)] * 2
        ears.stop()
        caller.close()


def test_a_chain_falls_back_to_the_next_and_says_which_one_it_was(store: Store, open_store: OpenStore) -> None:
    nobody = HttpTransport(dict)
    refusing = HttpTransport(lambda: {"w1": f"http://127.0.0.1:{free_port()}"})
    broker = BrokerTransport(store.mail, store.namespace)
    with on_duty(store, "w1") as (worker,):
        for chain in (TransportChain([nobody, refusing, broker]), TransportChain([broker, nobody])):
            answers = Caller(store, transport=chain).ask("ping", timeout_seconds=20)
            assert answers.is_all_ok and answers.transport == "broker"
        with pytest.raises(UsageError):
            Caller(store, transport=TransportChain([broker, nobody])).ask("ping", {"x": "y" * 300_000})
        with pytest.raises(StoreUnavailable, match=r"http: None of the workers.*http: No worker could be reached"):
            Caller(store, transport=TransportChain([nobody, refusing])).ask("ping", timeout_seconds=20)
        assert worker.counts == {"ok": 2}


def test_control_namespaces_are_apart(store: Store) -> None:
    with on_duty(store, "w1", namespace="blue") as (worker,):
        assert Caller(store, namespace="green").ask("ping", timeout_seconds=0.3).silent == ["w1"]
        assert Caller(store, namespace="blue").ask("ping", timeout_seconds=20).is_all_ok
        assert worker.told == [("pong",)]


def test_a_thousand_commands_with_askers_gone_midway_leave_nothing(store: Store, open_store: OpenStore) -> None:
    asking = open_store()
    life = 5.0  # the worker may be slow to hear of a command, and its caller of the answer
    beat(store, "absent", host="another-machine", seconds=600)
    prune_all(store)
    before = mail_size(store)
    with on_duty(store, "w1", reply_seconds=life) as (worker,):
        transport = BrokerTransport(asking.mail, asking.namespace)
        for n in range(1000):
            targets = (("*",), ("w1",), ("w1", "absent"))[n % 3]
            command = a_command(asking.upkeep.now(), targets=targets, life=life)
            transport.send_command(command)
            if n % 50 == 49:  # some callers stay; and nothing expires because this test is faster than the worker
                assert until(lambda each=command: transport.receive_replies(each.request_id, 1))  # type: ignore[misc]
                until(lambda done=n + 1: sum(worker.counts.values()) == done)  # type: ignore[misc]
        assert mail_size(store) > before
    let_time_pass(store, life + 0.1)
    prune_all(store)
    assert mail_size(store) == before
    assert worker.counts == {"ok": 1000}


def mail_size(store: Store) -> int:
    """What the store keeps of mail (on Redis: all its keys), counted beneath the contract."""
    match store.mail:
        case MemoryMail(_state=space):
            return sum(map(len, (*space.boxes.values(), *space.channels.values())))
        case SqliteMail(_namespace=space):
            with space.database.reading() as connection:
                return int(connection.execute("SELECT count(*) FROM stem_mail").fetchone()[0])
        case RedisMail(_namespace=space):
            return len(space.client.call("KEYS", space.key("*")))
        case PostgresMail(_namespace=namespace):
            query = f"SELECT count(*) FROM {namespace.schema}.mail WHERE ns = %(ns)s".encode()
            return int(namespace.client.rows(query, {"ns": namespace.name})[0][0])
        case _:
            raise AssertionError(store.mail)
