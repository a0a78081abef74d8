"""An agent asks a human for approval, and survives the loss of its worker.

    python examples/agents/run.py

Two tickets: while the first is handled, its worker is killed with SIGKILL, and another takes over. Exit 0 only if no step
that was recorded was repeated, and the human's decisions were obeyed.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stem import TaskRecord

HERE = Path(__file__).parent
PATIENCE_SECONDS = 60.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="stem-agents-", ignore_cleanup_errors=True) as place:
        ledger = Path(place, "ledger.txt")
        ledger.touch()
        os.environ.update(STEM_BROKER_URL=f"sqlite:///{place}/stem.db", AGENT_LEDGER=str(ledger))
        first = worker(place)
        try:
            return verdict(play(place, ledger, first))
        finally:
            first.kill()
            first.wait()


def play(place: str, ledger: Path, first: "subprocess.Popen[bytes]") -> dict[str, bool]:
    sys.path.insert(0, str(HERE))
    from agent import Ticket, app, handle

    ada = handle.enqueue(Ticket("Ada", "A-1"))
    until(lambda: "look_up" in ledger.read_text())
    first.kill()
    print("ada's ticket: the worker was killed while the agent looked her order up")
    second = worker(place)
    try:
        asked = until(lambda: question(ada.status()))
        print(f"ada's ticket: the agent asks: {asked}")
        calls = Counter(ledger.read_text().split())
        bob = handle.enqueue(Ticket("Bob", "B-2"))
        until(lambda: question(bob.status()))
        holders = {ada.status().worker, bob.status().worker}
        ada.send_event("decision", {"approved": True})
        bob.send_event("decision", {"approved": False})
        outcomes = ada.get(PATIENCE_SECONDS), bob.get(PATIENCE_SECONDS)
    finally:
        second.terminate()
        second.wait(PATIENCE_SECONDS)
        app.close()
    for outcome in outcomes:
        print(f"the agent replies: {outcome.reply}")
    total = Counter(ledger.read_text().split())
    return {
        "the step that was cut off was run again": calls["look_up"] == 2,
        "no recorded thought was repeated, by the crash or by the wait": (calls["think"], total["think"]) == (2, 6),
        "both waited for the human without holding a worker": holders == {None},
        "the approved refund was made, once": outcomes[0].reply.endswith("40 back.") and total["refund"] == 1,
        "the declined one was not": outcomes[1].reply == "Bob, we cannot refund B-2.",
    }


def question(record: TaskRecord) -> str:
    """What the agent asks, once its task has gone to wait."""
    return str(record.meta["progress"]["message"]) if record.state == "queued" and "progress" in record.meta else ""


def worker(place: str) -> "subprocess.Popen[bytes]":
    """With a short lease, so that the next worker need not wait long for what a dead one held."""
    words = ["worker", "start", "--app", "agent:app", "--concurrency", "1", "--lease", "2s"]
    with Path(place, "worker.log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "stem", *words], cwd=HERE, stderr=log, stdout=log)  # noqa: S603


def until(condition: Callable[[], object]) -> object:
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit("The agent did not get on in time.")
        time.sleep(0.05)
    return found


def verdict(expectations: dict[str, bool]) -> int:
    for what, has_held in expectations.items():
        print(f"{'held  ' if has_held else 'FAILED'}  {what}")
    return 0 if all(expectations.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
