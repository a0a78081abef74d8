"""Tasks that an operator may want to stop."""

import time

from stem import Stem, TaskContext

app = Stem()


@app.task(name="render")
def render(ctx: TaskContext, tiles: int) -> int:
    """Says after each tile that it lives: a revoke reaches it there at the latest."""
    for tile in range(tiles):
        time.sleep(0.05)
        ctx.progress((tile + 1) / tiles)
    return tiles


@app.task(name="mail.send", queue="mail")
def send_mail(to: str) -> str:
    return f"sent to {to}"
