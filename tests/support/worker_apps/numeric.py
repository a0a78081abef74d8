"""An app that imports numpy and pandas, whose libraries keep idle threads."""

import os

import numpy
import pandas

from stem import Stem

app = Stem()
BEFORE = os.getpid()  # of whoever has imported this


@app.task(name="multiply")
def multiply(size: int) -> tuple[float, bool]:
    """The sum of a product that takes several threads, and whether this process was forked."""
    matrix = numpy.ones((size, size))
    frame = pandas.DataFrame(matrix @ matrix)
    return float(frame.to_numpy().sum()), os.getpid() != BEFORE
