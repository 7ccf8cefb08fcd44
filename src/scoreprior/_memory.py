"""What the C library does with memory that is freed."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_MOST_BYTES = 2**30


def keep_freed_memory() -> bool:
    """Keep freed memory for the next allocation; False where the C library is not glibc, and nothing changes.

    A step of inference on a few hundred points takes and frees megabytes. glibc gives them back to the system each
    time, and gets them anew page by page, which took longer than the step itself (`results/speed.txt`).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # TypeError: a system where None is no library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MOST_BYTES)) and bool(mallopt(_TRIM_THRESHOLD, _MOST_BYTES))
