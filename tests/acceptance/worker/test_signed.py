"""Where keys are set nothing unsigned steers a worker: tried by somebody who can write to the store, and has no key."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from acceptance.lab import Lab
from acceptance.serving import Serving
from acceptance.shell import Shell
from stem import Stem
from stem.client.stores import RevokeStore, connect_revokes
from stem.core.lifecycle import State
from stem.core.pause import pause_id
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from support.until import until

KEYS = "ops:hmac-sha256:" + "b3Bz" * 8
OTHERS = "tasks:hmac-sha256:" + "dGFz" * 8
NOTHING = "nothing was written; set STEM_CONTROL_KEYS."


def attack(marks: RevokeStore, *ids: str) -> None:
    """What a command without a key used to write, and workers used to follow."""
    killing = [RevokeRequest(task_id=each, terminate=True, signal="SIGKILL") for each in ids]
    marks.revokes.put([*killing, RevokeRequest(task_id=pause_id("default"), reason="*")])


def ignored(shell: Shell) -> int:
    count: int = shell.json("worker", "stats")["replies"][0]["payload"]["revokesIgnored"]
    return count


def check_attack_fails(lab: Lab, signing: Shell, marks: RevokeStore) -> Serving:
    before = lab.desk.send("quick", mark="before")
    attack(marks, before)
    worker = lab.start("w1", "--concurrency", "1", shell=signing)
    lab.desk.value(before)
    held, waiting = lab.desk.send("hold"), lab.desk.send("quick", mark="waiting")
    lab.began("hold")
    version = marks.revokes.version()
    without = lab.shell.at(**{name: value for name, value in signing.variables.items() if "KEYS" not in name})
    for words in (("revoke", held, "--terminate"), ("pause", "--queue", "default"), ("resume", "--queue", "default")):
        assert NOTHING in without.refusal("worker", *words, code=64)
    assert marks.revokes.version() == version
    attack(marks, held, waiting)
    until(lambda: ignored(signing) == 5, seconds=30)
    lab.let_go("hold")
    lab.desk.value(held)
    lab.desk.value(waiting)
    assert worker.log.count("revokes.ignored") == 1

    (replied,) = signing.json("worker", "revoke", victim := lab.desk.send("nap", seconds=600), "--terminate")["replies"]
    assert replied["status"] == "ok"
    assert lab.desk.ended(victim).state is State.CANCELLED
    return worker


def test_unsigned_revokes_and_pauses_have_no_effect(any_lab: Lab) -> None:
    signing = any_lab.shell.at(STEM_CONTROL_KEYS=KEYS)
    store = any_lab.desk.app.store
    marks = RevokeStore(url="", revokes=store.revokes, now=store.upkeep.now, close=lambda: None)
    worker = check_attack_fails(any_lab, signing, marks)
    worker.says("worker.signing_configured tasks=off control=on")


def test_unsigned_lines_of_a_revoke_file_have_no_effect(lab: Lab, tmp_path: Path, namespace: str) -> None:
    signing = lab.shell.at(STEM_CONTROL_KEYS=KEYS, STEM_REVOKE_STORE_URL=f"{tmp_path}/revokes.stem")
    marks = connect_revokes(Settings(revokes_url=f"{tmp_path}/revokes.stem", namespace=namespace))
    check_attack_fails(lab, signing, marks)
    marks.close()


def test_signed_pauses_and_revokes_outlive_a_restart(lab: Lab) -> None:
    signing = lab.shell.at(STEM_CONTROL_KEYS=KEYS)
    assert "verified" not in signing.run("worker", "pause", "--queue", "mail", "--unknown-ok").stdout
    revoked = lab.desk.send("quick")
    signing.out("worker", "revoke", revoked)
    lab.start(shell=signing)
    assert lab.desk.ended(revoked).state is State.CANCELLED
    lab.desk.send("mail")
    lab.desk.value(lab.desk.send("quick"))
    assert signing.json("worker", "queue-status")["replies"][0]["payload"]["queues"]["mail"]["paused"]
    signing.out("worker", "resume", "--queue", "mail")
    lab.began("mail")


LOOKING = """
import os

from stem import Stem

app = Stem()


@app.task(name="look")
def look() -> dict[str, list[str]]:
    with open(f"/proc/{os.getppid()}/environ") as server:
        names = [line.partition("=")[0] for line in server.read().split("\\0")]
    held = [repr(app.store_connection.keyring), app.settings.control.keys]
    return {"held": held, "names": [name for name in [*os.environ, *names] if name.endswith("_KEYS")]}
"""


def test_isolates_are_not_given_the_control_keys_and_keys_for_tasks_steer_nobody(lab: Lab) -> None:
    (lab.shell.directory / "lab.py").write_text(LOOKING)
    worker = lab.start(shell=(signing := lab.shell.at(STEM_CONTROL_KEYS=KEYS, STEM_SIGNING_KEYS=OTHERS)))
    worker.says("worker.signing_configured tasks=on control=on")
    assert "signing.keys_shared" not in worker.log
    with Stem(settings=replace(lab.desk.app.settings, signing_keys=OTHERS)) as sender:
        held = sender.enqueue("look", check=False).get(20)
    assert held == {"held": ["Keyring(tasks)", ""], "names": ["STEM_SIGNING_KEYS"] * 2}
    assert "pong" in signing.out("worker", "ping")
    asked = lab.shell.at(STEM_SIGNING_KEYS=OTHERS).run("worker", "shutdown", "--timeout", "2s")
    assert asked.returncode == 70 and "does not count" in asked.stderr
    assert "pong" in signing.out("worker", "ping")


def test_where_one_list_serves_both_the_worker_says_so(lab: Lab) -> None:
    worker = lab.start(shell=lab.shell.at(STEM_SIGNING_KEYS=OTHERS))
    worker.says("worker.signing_configured tasks=on control=on")
    worker.says("signing.keys_shared")
    assert "unverified" in lab.shell.run("worker", "ping").stdout
    off = lab.start("w2")
    off.says("worker.signing_configured tasks=off control=off")


@pytest.mark.parametrize("variable", ["STEM_SIGNING_KEYS", "STEM_CONTROL_KEYS"])
@pytest.mark.parametrize("value", ["", " ", ",", "@empty"])
def test_keys_that_are_set_and_hold_none_are_refused_everywhere(shell: Shell, variable: str, value: str) -> None:
    (shell.directory / "empty").write_text("\n")
    (shell.directory / "app.py").write_text("from stem import Stem\napp = Stem()\n@app.task\ndef f() -> None: ...\n")
    there = shell.at(**{variable: value})
    for words in (("worker", "start", "--app", "app:app"), ("worker", "ping"), ("worker", "revoke", "x")):
        assert "key" in there.refusal(*words, code=64)
    checked = there.run("config", "check")
    assert checked.returncode != 0 and "key" in checked.stdout
    diagnosed = there.run("worker", "diagnose")
    assert diagnosed.returncode != 0 and "key" in diagnosed.stdout
    client = [sys.executable, "-c", "import app; app.app.control.ping()"]
    ran = subprocess.run(client, cwd=there.directory, env=there.variables, capture_output=True, text=True, timeout=30)
    assert "ConfigError" in ran.stderr, ran


def test_a_revoke_store_in_memory_is_no_store_for_a_command(lab: Lab) -> None:
    for variable in ("STEM_REVOKE_STORE_URL", "STEM_RESULT_BACKEND_URL"):
        said = lab.shell.at(**{variable: "memory://"}).refusal("worker", "revoke", "x", code=64)
        assert "memory:// lives in one process alone, so no command can reach it" in said
