"""An isolate that imports the app by itself, for apps whose import leaves threads running and so cannot be forked.

Run as `python -m stem.worker.fork.spawn PATH WORKER SLOTS IS_INLINE PARENT INBOX STREAM OUTPUT STATUS`.
"""

import sys
from typing import NoReturn

from stem.client.loading import load
from stem.runtime import process
from stem.runtime.process import die_with
from stem.worker.fork.protocol import StartIsolate
from stem.worker.fork.server import serve_start


def main() -> NoReturn:
    path, worker, slots, is_inline, parent, *descriptors = sys.argv[1:]
    die_with(int(parent))
    process.imports_for_isolates = True
    serve_start(load(path), StartIsolate(0, int(slots), is_inline == "1", worker), [int(each) for each in descriptors])


if __name__ == "__main__":
    main()
