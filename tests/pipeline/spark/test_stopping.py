"""Ctrl-C and TERM to a command and all that it has started: one line, the exit code of the signal, no traceback."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.pipeline.written_history import live
from support.until import until

STEM = Path(sys.executable).with_name("stem")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
APP = """
import pathlib, time
from stem import Stem

app = Stem("sqlite:///{place}/stem.db")

@app.task(name="nap")
def nap(id: int) -> None:
    pathlib.Path("{place}/napping").touch()
    time.sleep(60)
"""


@pytest.fixture
def past(tmp_path: Path) -> Store:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    live(store, 300)
    store.upkeep.close()
    return store


def stopped(place: Path, number: int, words: list[str], moment: float | Path | None) -> tuple[int, str, str]:
    """Told to the whole group at that moment: so many seconds in, when a file is there, or with the first line of output."""
    command = [STEM, *words, "--master", "local[1]"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=place, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            if isinstance(moment, Path):
                until(moment.exists, seconds=120)
            elif moment is None:
                process.stdout.readline()
            else:
                time.sleep(moment)
            os.killpg(process.pid, number)
            out, err = process.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err


@pytest.mark.parametrize("number", CODES)
def test_a_run_that_follows_ends_as_it_is_told(past: Store, tmp_path: Path, number: int) -> None:
    code, out, err = stopped(tmp_path, number, ["pipeline", "run", "--follow", "--broker-url", past.url], None)
    assert (code, err) == (0, "")
    assert out.endswith(" s.\n") and "events are in the lake now" in out


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("moment", [1.0, "stem-lake/gold"])
def test_a_run_that_is_cut_off_says_so_in_a_line(
    past: Store, tmp_path: Path, number: signal.Signals, moment: float | str
) -> None:
    """While it starts, and while Spark works."""
    when = tmp_path / moment if isinstance(moment, str) else moment
    code, out, err = stopped(tmp_path, number, ["pipeline", "run", "--batch", "1000", "--broker-url", past.url], when)
    assert (code, out, err) == (CODES[number], "", "Stopped before it was done; run it again to go on.\n")


@pytest.mark.parametrize("number", CODES)
def test_a_bulk_that_is_cut_off_says_so_in_a_line(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "shop.py").write_text(APP.format(place=tmp_path))
    (tmp_path / "in.csv").write_text("id\n1\n2\n")
    words = ["pipeline", "bulk", "--app", "shop:app", "--task", "nap", "--from", "in.csv", "--to", "results"]
    code, out, err = stopped(tmp_path, number, words, tmp_path / "napping")
    assert (code, out, err) == (CODES[number], "", "Stopped before it was done; run it again to go on.\n")


@pytest.mark.parametrize("number", CODES)
def test_an_enqueue_that_is_cut_off_says_so_in_a_line_and_adds_nothing(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "shop.py").write_text(APP.format(place=tmp_path))
    (tmp_path / "in.csv").write_text("id\n" + "\n".join(map(str, range(1000))))
    words = ["pipeline", "enqueue", "--app", "shop:app", "--task", "nap", "--from", "in.csv"]
    code, out, err = stopped(tmp_path, number, words, 4.0)
    assert (code, out, err) == (CODES[number], "", "Stopped before it was done; run it again to go on.\n")
