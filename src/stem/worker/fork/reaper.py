"""The parent of the fork server: kills every remaining descendant when the fork server exits, however it exits.

Run as `python -m stem.worker.fork.reaper DESCRIPTOR`. It forks before anything large is imported, so it needs little memory.
Which process ends which is described in docs/decisions/0022-child-processes-end-with-their-isolate.md.
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
# The end of the supervisor shows in the closed control stream. This is for a stream that another process also holds open, and
# for a fork server that does not read it.
PARENT_CHECK_SECONDS = 2.0


def watch(server: int, supervisor: int) -> int:
    """Wait for the fork server; returns its exit code."""
    while True:
        received = signal.sigtimedwait({signal.SIGCHLD, END}, PARENT_CHECK_SECONDS)
        if (received is not None and received.si_signo == END) or os.getppid() != supervisor:
            with suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == server:
                return os.waitstatus_to_exitcode(found[1])


def main() -> NoReturn:
    # The supervisor handles signals of the terminal and the service manager.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, the fork server cannot be waited for
    adopt_orphans()
    control, supervisor = int(sys.argv[1]), os.getppid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, END})
    server = os.fork()
    if server == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, END})
        from stem.worker.fork.server import serve

        serve(control)
    os.close(control)
    exit_code = watch(server, supervisor)
    end_children()
    os._exit(exit_code if exit_code >= 0 else 128 - exit_code)


if __name__ == "__main__":
    main()
