"""One run in a folder at a time."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from tinygrad_edu.files import make_folder, write_atomically
from tools.cli import UserError

if sys.platform != "win32":
    import fcntl

_NAME = ".lock"  # says which process it is; what is locked is the folder itself, which no one can remove from under it


class Lock:
    """The right to write to a folder, see `locked`."""

    def __init__(self, folder: Path, handle: int | None) -> None:
        self._folder, self._handle = folder, handle

    def check(self) -> None:
        """Raise UserError where the path leads to another folder by now, in which another run may be at work."""
        if self._handle is not None and not _is(self._folder, self._handle):
            raise UserError(
                f"{self._folder} is no longer the folder that this run began to write to: it was moved, removed or "
                f"replaced, so nothing more is written; put it back and go on with --resume"
            )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Within the block no other run writes to `folder`, which is made if it is missing.

    The lock lies on the folder itself, so it is found under each of its names, moves with it, and outlives its files;
    the system frees that of a killed run. Call `check` before writing. Windows and some network file systems have no
    such locks: there, two runs are not kept apart.

    Raises UserError where another run holds it.
    """
    if sys.platform == "win32":
        yield Lock(folder, None)
        return
    handle = _opened(folder)
    try:
        with contextlib.suppress(OSError):
            write_atomically(folder / _NAME, str(os.getpid()), follow=False)
        yield Lock(folder, handle)
    finally:
        with contextlib.suppress(OSError):
            found = os.stat(_NAME, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):  # a pipe of that name is not this run's
                os.unlink(_NAME, dir_fd=handle)
        os.close(handle)


def _opened(folder: Path) -> int:
    """A handle of the folder, locked."""
    while True:
        make_folder(folder)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{folder} is in use by another run (process {_holder(folder)}); wait for its end or choose "
                    f"another --out"
                ) from None
            except OSError:
                pass  # a file system without locks
            if _is(folder, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # of a folder that its run has just removed


def _is(folder: Path, handle: int) -> bool:
    """Whether the path leads to this open folder."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.stat(folder), os.fstat(handle))
    return False


def _holder(folder: Path) -> str:
    """The process that has noted itself, for a message; nothing but a plain file is opened."""
    with contextlib.suppress(OSError, ValueError):
        handle = os.open(folder / _NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return str(int(os.read(handle, 20)))
        finally:
            os.close(handle)
    return "unknown"
