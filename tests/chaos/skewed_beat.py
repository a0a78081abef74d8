"""Run `stem beat` on a machine whose clock is wrong: the first argument says by how many seconds."""

import sys
import time

_RIGHT = time.time
_SECONDS = float(sys.argv[1])
time.time = lambda: _RIGHT() + _SECONDS  # before anything is imported that keeps a reference

from stem.cli.main import main  # noqa: E402

main(["beat", *sys.argv[2:]])
