"""Runs the shop with its worker and scheduler: `python run.py` with Stem, `python run.py before` with Celery."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
COMMANDS = {
    "before": [
        [
            "celery",
            "-A",
            "shop",
            "worker",
            "-Q",
            "celery,stock",
            "--concurrency",
            "2",
            "--without-gossip",
            "--without-mingle",
        ],
        ["celery", "-A", "shop", "beat", "--schedule", "{folder}/beat"],
    ],
    "after": [["stem", "worker", "start", "--app", "shop.celery:app", "--concurrency", "2", "--beat"]],
}


def main(side: str = "after") -> int:
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        broker = os.environ.get("SHOP_BROKER_URL") or (f"sqlite:///{folder}/tasks.db" if side == "after" else "")
        if not broker:
            print(
                "Set SHOP_BROKER_URL to a Redis server, such as redis://localhost:6379/0, for Celery.", file=sys.stderr
            )
            return 64
        environment = {
            **os.environ,
            "SHOP_BROKER_URL": broker,
            "SHOP_DATABASE": f"{folder}/shop.db",
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "PYTHONPATH": str(HERE / side),
        }
        return run(side, folder, environment)


def run(side: str, folder: str, environment: dict[str, str]) -> int:
    here = HERE / side
    make_tables = "import django; django.setup(); from django.core.management import call_command as call; "
    make_tables += "call('migrate', run_syncdb=True, verbosity=0)"
    subprocess.run([sys.executable, "-c", make_tables], cwd=here, env=environment, check=True)
    log = Path(folder, "log")
    services = []
    with log.open("wb") as output:
        for command in COMMANDS[side]:
            program, *arguments = (part.format(folder=folder) for part in command)
            services.append(
                subprocess.Popen(
                    [str(BIN / program), *arguments], cwd=here, env=environment, stdout=output, stderr=output
                )
            )
    try:
        code = subprocess.run([sys.executable, "use.py"], cwd=here, env=environment, timeout=90, check=False).returncode
    finally:
        for service in services:
            service.send_signal(signal.SIGINT)
        for service in services:
            service.wait(20)
    if code:
        sys.stderr.write(log.read_text(errors="replace"))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
