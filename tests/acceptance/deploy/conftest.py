"""A shell in the folder of a small app."""

import pytest

from acceptance.shell import Shell

APP = """
import time

from stem import Stem

app = Stem()


@app.task(queue="mail")
def send(to: str) -> str:
    return f"sent to {to}"


@app.task(queue="mail")
def linger(seconds: float) -> str:
    print("lingering", flush=True)
    time.sleep(seconds)
    return "done"
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    (shell.directory / "shop.py").write_text(APP)
    return shell.at(STEM_APP="shop:app")
