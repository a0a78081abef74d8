"""A task that takes a moment, so that a backlog builds up."""

import time

from stem import Stem

app = Stem()


@app.task(name="resize")
def resize(picture: int) -> int:
    time.sleep(0.2)
    return picture
