"""What a daemon takes from its process: an incarnation, and tuning where the process is its own."""

import ctypes
import gc
import resource
import threading
import time
from contextlib import suppress

_INCARNATION_BITS = 32
_TICKS_PER_S = 16
_EPOCH_S = 1_735_689_600  # 2025-01-01
_last_incarnation = 0
_incarnation_lock = threading.Lock()

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024
"""Even the largest frame is then taken from the heap."""
_TRIM_THRESHOLD_BYTES = 64 * 1024 * 1024
"""What is freed beyond this is given back: more than bundles under way take, less than what a burst of full
buffers leaves behind."""
_TOP_PAD_BYTES = 32 * 1024 * 1024
_GC_OBJECTS = 100_000


def new_incarnation() -> int:
    """A number that tells one run of a daemon from every other one, never 0.

    Sixteenths of a second of the wall clock since 2025 (they last for 8 years and then start again). Two runs
    of a daemon in different processes are further apart than that, since an interpreter starts between them;
    runs inside one process get different numbers even within one tick.
    """
    global _last_incarnation
    ticks = int((time.time() - _EPOCH_S) * _TICKS_PER_S)
    with _incarnation_lock:
        _last_incarnation = max(ticks, _last_incarnation + 1)
        return _last_incarnation % (1 << _INCARNATION_BITS) or 1


def tune() -> None:
    """Fit a process that does nothing but run a daemon to its work.

    Keeps freed memory: bundles of some 60 KB come and go, and getting each from the kernel anew costs page
    faults (28 % of the throughput at 1 KB messages). Looks for cyclic garbage rarely: bundles make none, but
    thousands of buffers under way would be walked through again and again. Allows as many connections as the
    system grants.
    """
    gc.freeze()
    gc.set_threshold(_GC_OBJECTS, 20, 20)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without it works as well, only slower
        pass
    else:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
        mallopt(_M_TOP_PAD, _TOP_PAD_BYTES)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # the kernel may grant less than the limit says
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
