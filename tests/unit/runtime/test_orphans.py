"""Orphans come to who adopts them, and are ended or waited for there. In a process of its own: adopting is for life."""

import subprocess
import sys

PREAMBLE = """
import os, subprocess, sys, time
from stem.runtime import orphans
orphans.adopt_orphans()
def leave(*command):
    "An orphan in a session of its own."
    subprocess.run(["sh", "-c", "setsid " + " ".join(command) + " & true"], check=True)
def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
def state(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
"""


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", PREAMBLE + code], check=True, timeout=60)


def test_an_orphan_becomes_a_child_and_ends_with_all_it_has_started() -> None:
    run("""
leave("sh", "-c", "'sleep 600; true'")
until(orphans.children)
assert orphans.end_children() is True
assert orphans.children() == [] and orphans.end_children() is False
""")


def test_those_to_be_spared_are() -> None:
    run("""
kept = subprocess.Popen(["sleep", "600"])
leave("sleep", "600")
until(lambda: len(orphans.children()) == 2)
until(lambda: orphans.kill_children({kept.pid}) or orphans.children() == [kept.pid])
assert kept.poll() is None
kept.kill()
""")


def test_dead_children_are_waited_for_when_nobody_has_for_a_while() -> None:
    run("""
orphans.REAP_SECONDS = 0.0
dead = orphans.ZombieReaper()
between = os.fork()
if between == 0:
    os.fork()  # nobody waits for this one, as a shell might have done
    os._exit(0)
os.waitpid(between, 0)
until(lambda: [state(pid) for pid in orphans.children()] == ["Z"])
own = subprocess.Popen(["false"])
dead.reap()
until(lambda: own.poll() is not None)
assert own.returncode == 1, "who asks in time hears the code"
dead.reap()
assert orphans.children() == []
""")
