"""Locks of the whole process that nobody waits for in vain."""

import os
import threading
from typing import Any


def lock_of_process() -> Any:
    """A lock for `with`, free in a forked child whoever held it; the handler of a signal may take it a second time.

    >>> lock = lock_of_process()
    >>> with lock, lock:
    ...     pass
    """
    lock: Any = threading.RLock()
    if hasattr(os, "register_at_fork"):  # the thread that held it is not there to release it
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock
