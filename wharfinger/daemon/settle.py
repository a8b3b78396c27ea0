"""What a daemon does once it has started: nothing of the start is looked through or kept any longer than needed."""

from __future__ import annotations

import ctypes
import gc


def settle() -> None:
    """Give what the start left over back to the system, and keep the cycle collector from looking at what stays.

    Modules, descriptors and compiled codecs live as long as the process. glibc keeps freed memory for later; after a
    start that is several megabytes which an idle daemon never uses again. Without glibc only the first half happens.
    """
    gc.collect()
    gc.freeze()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return
