"""Stem: the store is that of STEM_BROKER_URL."""

import sending

from stem import Stem

app = Stem()


@app.task(name="noop")
def noop(n: int) -> int:
    sending.mark()
    return n


if __name__ == "__main__":
    sending.send(lambda n: noop.enqueue(n=n))
