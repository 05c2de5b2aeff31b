"""One run in a folder at a time."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.cli import UserError

if sys.platform != "win32":
    import fcntl


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within the block no other run writes to `folder`. The system frees the lock of a killed run by itself.

    Raises UserError where another run holds it.
    """
    if sys.platform == "win32":  # has no fcntl: two runs are not kept apart
        yield
        return
    path = folder / ".lock"
    with open(path, "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"{folder} is in use by another run (process {file.read().strip() or 'unknown'}); wait for its end or "
                f"choose another --out"
            ) from None
        except OSError:
            pass  # a file system without locks
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
