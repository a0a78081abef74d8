"""An isolate that imports the app by itself, for apps whose import leaves threads running and so cannot be forked.

Run as `python -m stem.worker.spawned PATH WORKER SLOTS IS_LANE PARENT INBOX LINE OUTPUT CELL`.
"""

import sys
from typing import NoReturn

from stem.client.loading import load
from stem.runtime import process
from stem.runtime.process import die_with
from stem.worker.requests import Start
from stem.worker.server import become


def main() -> NoReturn:
    path, worker, slots, is_lane, parent, *descriptors = sys.argv[1:]
    die_with(int(parent))
    process.imports_for_isolates = True
    become(load(path), Start(0, int(slots), is_lane == "1", worker), [int(each) for each in descriptors])


if __name__ == "__main__":
    main()
