"""A FastAPI application whose tasks commit with its data, with a worker and the dashboard mounted.

    python examples/web_app/run.py

Exit 0 only if everything came out right.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

HERE = Path(__file__).parent
PATIENCE_SECONDS = 60.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="stem-web-") as place, ExitStack() as running:
        os.environ["WEB_APP_URL"] = f"sqlite:///{place}/web_app.db"
        port = free_port()
        web = ("uvicorn", "app:web", "--port", str(port), "--log-level", "warning")
        running.enter_context(service(place, *web))
        client = running.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS))
        wait_until_up(client)
        running.enter_context(service(place, "stem", "worker", "start", "--app", "app:stem", "--concurrency", "1"))
        return verdict(visit(client))


def visit(client: httpx.Client) -> dict[str, bool]:
    first = client.post("/sign-ups", json={"email": "ada@example.org", "plan": "pro"})
    print(f"ada signs up: {first.json()}")
    again = client.post("/sign-ups", json={"email": "ada@example.org"})
    print(f"ada signs up again: {again.status_code} {again.json()['detail']}")
    welcome = client.get(f"/welcomes/{first.json()['task']}").json()
    print(f"the worker says: {welcome['text']}")
    missing = client.get("/welcomes/nowhere")
    listed = set(re.findall(r"/stem/tasks/([0-9a-f-]{36})", client.get("/stem/tasks").text))
    print(f"the dashboard is at {client.base_url.join('/stem/')}")
    return {
        "the user was stored and welcomed": welcome["user_id"] == first.json()["user"],
        "models arrived as models": welcome["text"] == "Welcome to pro, ada@example.org",
        "a sign-up that failed left no task": again.status_code == 409 and len(listed) == 1,
        "an unknown task is a 404": missing.status_code == 404,
        "the dashboard shows the task": listed == {first.json()["task"]},
    }


@contextmanager
def service(place: str, *words: str) -> Iterator[None]:
    """A process of its own, its log in a file; stopped at the end."""
    with Path(place, f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", *words], cwd=HERE, stdout=log, stderr=log)  # noqa: S603
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def wait_until_up(client: httpx.Client) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            client.get("/openapi.json")
            return
        except httpx.ConnectError:
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def verdict(expectations: dict[str, bool]) -> int:
    for what, has_held in expectations.items():
        print(f"{'held  ' if has_held else 'FAILED'}  {what}")
    return 0 if all(expectations.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
