"""Memory shared by the supervisor and one isolate: per slot the running task, its start, its limits and its progress.

One slot of 4096 bytes per task that may run at once. Words are eight bytes and aligned, so each is written atomically; the
word that validates the others is written last.
"""

import fcntl
import math
import mmap
import os
import time

SLOT_BYTES = 4096
SLOT_WORDS = SLOT_BYTES // 8
PROGRESS_BYTES = SLOT_BYTES - 64

# Word by word. The isolate writes the first six, the supervisor the last two.
NUMBER, STARTED_AT, SOFT_AT, HARD_AT, BEATS, LENGTH, INTERRUPTED, INTERRUPTION = range(8)

OVER = 1 << 63  # set in the number of a run that has ended

READS = 50  # before giving up on a task that writes in a tight loop

SOFT_LIMIT, REVOKED, STOPPED = 1, 2, 3  # the last: by the worker, which decides how the run is settled


class StatusBlock:
    """Both sides map the same memory. Times are the machine's monotonic clock, which all its processes share."""

    def __init__(self, descriptor: int, slots: int) -> None:
        self._map = mmap.mmap(descriptor, slots * SLOT_BYTES)
        view = memoryview(self._map)
        self._words = view.cast("Q")
        self._times = view.cast("d")
        self._bytes = view
        self.slots = slots

    @classmethod
    def create(cls, slots: int) -> tuple["StatusBlock", int]:
        """A new block, and the descriptor that shares it with another process."""
        descriptor = os.memfd_create("stem-status", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, slots * SLOT_BYTES)
        # Otherwise a task could shrink it, and the other side would crash on its next read (SIGBUS).
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls(descriptor, slots), descriptor

    @classmethod
    def take_over(cls, descriptor: int, slots: int) -> "StatusBlock":
        """Map it without leaving a descriptor that a task could write to. For a single-threaded process that never unmaps it."""
        copy = os.dup(descriptor)
        os.close(copy)
        status = cls(descriptor, slots)  # mmap makes a copy for itself, which gets the same number
        os.close(copy)
        os.close(descriptor)
        return status

    # The isolate's side

    def begin(self, slot: int, number: int) -> None:
        base = slot * SLOT_WORDS
        times = self._times
        times[base + STARTED_AT] = time.monotonic()
        times[base + SOFT_AT] = 0.0
        times[base + HARD_AT] = 0.0
        words = self._words
        words[base + BEATS] = 0  # discard those of the previous run
        words[base + NUMBER] = number

    def limit(self, slot: int, soft_limit: float | None, hard_limit: float | None) -> None:
        base = slot * SLOT_WORDS
        started_at = self._times[base + STARTED_AT]
        if soft_limit is not None:
            self._times[base + SOFT_AT] = started_at + soft_limit
        if hard_limit is not None:
            self._times[base + HARD_AT] = started_at + hard_limit

    def end(self, slot: int) -> None:
        self._words[slot * SLOT_WORDS + NUMBER] |= OVER

    def beat(self, slot: int, progress: bytes) -> None:
        """An odd count of beats means that a write is in progress."""
        base, words = slot * SLOT_WORDS, self._words
        beats = words[base + BEATS]
        words[base + BEATS] = beats + 1
        start = slot * SLOT_BYTES + 64
        self._bytes[start : start + len(progress)] = progress
        words[base + LENGTH] = len(progress)
        words[base + BEATS] = beats + 2

    def interruption(self, slot: int, number: int) -> int:
        """Why the supervisor interrupts this run; 0 if it does not."""
        base = slot * SLOT_WORDS
        return self._words[base + INTERRUPTION] if self._words[base + INTERRUPTED] == number else 0

    # The supervisor's side

    def running(self, slot: int) -> int:
        """The number of the run in this slot; 0 if there is none."""
        number = self._words[slot * SLOT_WORDS + NUMBER]
        return number if number < OVER else 0

    def over(self, slot: int) -> int:
        """The number of the last run in this slot if it is over; 0 while it runs."""
        number = self._words[slot * SLOT_WORDS + NUMBER]
        return number & ~OVER if number >= OVER else 0

    def begun(self, slot: int) -> int:
        """The number of the last run started in this slot, whether it runs or is over."""
        return self._words[slot * SLOT_WORDS + NUMBER] & ~OVER

    def started_at(self, slot: int) -> float:
        """When the last run in this slot started, as its process says."""
        return self._times[slot * SLOT_WORDS + STARTED_AT]

    def times(self, slot: int) -> tuple[float, float, float]:
        """When it started, and when its soft and its hard limit end; 0 for a limit that it has not. Raises ValueError for
        what no isolate writes."""
        base = slot * SLOT_WORDS
        started_at, soft_at, hard_at = self._times[base + STARTED_AT : base + HARD_AT + 1]
        # False also for NaN. A limit may be given and infinite.
        if not (0 <= started_at < math.inf and soft_at >= 0 and hard_at >= 0):
            raise ValueError("a task has written into the memory that its isolate shares")
        return started_at, soft_at, hard_at

    def beats(self, slot: int) -> int:
        return self._words[slot * SLOT_WORDS + BEATS]

    def progress(self, slot: int) -> tuple[int, bytes] | None:
        """The count of beats and the last progress; None while it is being written."""
        base, start = slot * SLOT_WORDS, slot * SLOT_BYTES + 64
        for _ in range(READS):
            before = self._words[base + BEATS]
            found = bytes(self._bytes[start : start + min(self._words[base + LENGTH], PROGRESS_BYTES)])
            if before == self._words[base + BEATS] and before % 2 == 0:
                return before, found
        return None

    def interrupt(self, slot: int, number: int, why: int) -> None:
        base = slot * SLOT_WORDS
        self._words[base + INTERRUPTION] = why
        self._words[base + INTERRUPTED] = number

    def close(self) -> None:
        self._words.release()
        self._times.release()
        self._bytes.release()
        self._map.close()
