"""A Django shop: receipts that commit with their orders, a report by the calendar, and a link in the admin.

    python examples/django_shop/run.py

A worker with a scheduler and the dashboard run beside it. Exit 0 only if everything came out right.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE_SECONDS = 60.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="stem-shop-") as place, ExitStack() as running:
        port = free_port()
        os.environ.update(
            DJANGO_SETTINGS_MODULE="shop.settings",
            SHOP_PLACE=place,
            SHOP_DASHBOARD_URL=f"http://localhost:{port}/",
        )
        manage("migrate", "--verbosity", "0")
        running.enter_context(service(place, "worker", "start", "--beat"))
        running.enter_context(service(place, "dashboard", "--port", str(port)))
        return verdict(visit(f"http://localhost:{port}/"))


def visit(dashboard_url: str) -> dict[str, bool]:
    """Be a customer, then an administrator."""
    import django

    sys.path.insert(0, str(HERE))
    django.setup()
    from django.test import Client
    from orders.models import Order, Report

    from stem.integrations.django import app

    customer = Client()
    bought = customer.post("/orders/", {"email": "ada@example.org", "amount": "12.50", "card": "good"})
    refused = customer.post("/orders/", {"email": "eve@example.org", "amount": "99.00", "card": "empty"})
    print(f"ada: {bought.json()}")
    print(f"eve: {refused.json()}")
    receipt = app.handle(bought.json()["task"]).get(PATIENCE_SECONDS)
    print(f"receipt: {receipt}")
    reported = until(lambda: Report.objects.filter(text="turnover 12.50").exists())
    print(f"report: {Report.objects.latest('pk').text}")
    admin_page, link = administrator_sees(Client())
    print(f"admin: the link leads to {link}")
    sent = manage("stem", "task", "list", "--name", "orders.tasks.send_receipt", "--json")
    shown = until(lambda: "orders.tasks.send_receipt" in read(f"{dashboard_url}tasks"))
    return {
        "the order and its receipt were stored together": receipt == Order.objects.get().receipt,
        "what was rolled back left no order and no task": refused.status_code == 402 and sent.count('"id"') == 1,
        "the scheduler ran the report": reported,
        "the admin links to the dashboard": "Dashboard" in admin_page and link == dashboard_url,
        "and the dashboard shows the task": shown,
    }


def administrator_sees(client: Any) -> tuple[str, str]:
    """The admin's first page, and where the dashboard's link leads."""
    from django.contrib.auth.models import User

    client.force_login(User.objects.create_superuser("root"))
    return client.get("/admin/").content.decode(), client.get("/admin/stem/dashboardlink/").headers["Location"]


@contextmanager
def service(place: str, *words: str) -> Iterator[None]:
    """A part of Stem in a process of its own, started as in production."""
    with Path(place, f"{words[0]}.log").open("wb") as log:
        command = [sys.executable, "manage.py", "stem", *words]
        process = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log)  # noqa: S603
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def manage(*words: str) -> str:
    command = [sys.executable, "manage.py", *words]
    return subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while not (is_met := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return is_met


def read(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own dashboard
            return str(answer.read().decode())
    except OSError:  # it is still starting
        return ""


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
