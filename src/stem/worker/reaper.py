"""The reaper: the parent of the fork server. When that ends, however it ends, it kills every process that is left below.

Run as `python -m stem.worker.reaper DESCRIPTOR`. It forks before anything large is imported, so it costs little memory.
Who can leave what behind, and who ends it, is told in docs/decisions/0022-children-end-with-their-isolate.md.
"""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from stem.runtime.orphans import adopt_orphans, end_children

END = (
    signal.SIGRTMIN + 3
)  # from the supervisor: end the fork server, whatever it does. People and libraries use others.
# The end of the supervisor shows in the closed control stream. This is for a stream that somebody else holds open, too, and
# for a fork server that does not read it.
PARENT_CHECK_SECONDS = 2.0


def watch(server: int, supervisor: int) -> int:
    """Until the fork server has ended; its exit code."""
    while True:
        heard = signal.sigtimedwait({signal.SIGCHLD, END}, PARENT_CHECK_SECONDS)
        if (heard is not None and heard.si_signo == END) or os.getppid() != supervisor:
            with suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == server:
                return os.waitstatus_to_exitcode(found[1])


def main() -> NoReturn:
    # The supervisor hears what the terminal and the service manager say, and tells the others.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it was ignored, nobody could wait for the fork server
    adopt_orphans()
    control, supervisor = int(sys.argv[1]), os.getppid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, END})
    server = os.fork()
    if server == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, END})
        from stem.worker.server import serve

        serve(control)
    os.close(control)
    exit_code = watch(server, supervisor)
    end_children()
    os._exit(exit_code if exit_code >= 0 else 128 - exit_code)


if __name__ == "__main__":
    main()
