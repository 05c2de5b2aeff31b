"""Writing files: whole or not at all, and only where the caller meant to. Everything that writes a file uses this.

Two kinds of paths differ in what a link means:

- A path that the user named (`--out`, the argument of a `save`) is followed. A link remains a link, and the file that
  it points to is replaced; a pipe, a terminal or a device such as /dev/stdout is written to.
- A name that the program chose inside a folder (metrics.jsonl in the folder of a run) is not followed. A folder copied
  from elsewhere may contain links that point out of it, so a link there is replaced by a file of its own.

Neither ever turns a device or a pipe into a regular file. A file that is replaced keeps its permissions and, where the
system allows it, its owner; a new one gets those of the umask.
"""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, NoReturn

# Flags of some systems only; Windows wants to be told that bytes are written as they are.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

_IN_MEMORY = 1 << 24  # bytes on their way to a device that need no temporary file


def write_atomically(path: str | os.PathLike[str], content: bytes | str, *, follow: bool = True) -> None:
    """Write a file by way of a temporary file in the same folder, flushed to the disk before it is renamed.

    Text is written as UTF-8, line ends as they are. When writing fails, the file at `path` is what it was and the
    temporary file is gone; one left behind by a killed process matches `TEMPORARY` and may be deleted.

    Args:
        path: the file, or a device or pipe if `follow`, which gets the content as it is.
        follow: whether a link is followed, as for a path that the user named, or replaced.

    Raises OSError, with the name of the file, where the folder is missing, is read-only or takes no more, and for a
    path that is a folder or ends in a slash.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/new.txt", "text")
    ...     os.listdir(folder), Path(folder, "new.txt").read_text()
    (['new.txt'], 'text')
    """
    with replacing(path, follow=follow) as file:
        file.write(_encoded(content))


def file_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is to be written.

    Raises OSError for one that can only name a folder: `Path` drops the slash at its end, and a file would be written
    that was not asked for. Raises ValueError for a NUL character.

    >>> file_path("picture.svg/")
    Traceback (most recent call last):
    IsADirectoryError: [Errno 21] names a folder, not a file; leave the slash at its end out: 'picture.svg/'
    """
    name = os.fspath(path)
    last = name.replace(os.altsep or os.sep, os.sep).rpartition(os.sep)[2]
    if "\0" in name:
        raise ValueError(f"the path {name!r} has a NUL character, which no path may have")
    if not name:
        raise OSError(errno.ENOENT, "the path is empty; name a file", name)
    if last in ("", ".", ".."):
        fix = "leave the slash at its end out" if not last else "name a file in it"
        raise OSError(errno.EISDIR, f"names a folder, not a file; {fix}", name)
    return Path(path)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, follow: bool = True) -> Iterator[IO[bytes]]:
    """Within the block, a file to write and seek in; after it, that is the file at `path`, or gone after an error.

    Arguments and errors are those of `write_atomically`.
    """
    path = file_path(path)
    with naming(path):
        if follow and is_stream(path):
            with _stream(path) as stream, tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
                yield file
                file.seek(0)
                with contextlib.suppress(OSError, ValueError):
                    sys.stdout.flush()  # what was printed before, maybe to the same place, comes before
                shutil.copyfileobj(file, stream)
                stream.flush()
            return
        draft = _Draft(Path(os.path.realpath(path)) if follow and path.is_symlink() else path)
        try:
            yield draft.file
            draft.finish()
            draft.rename()
        except BaseException:
            draft.discard()
            raise
        flush_folder(draft.target.parent)


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write several files of a folder: none gets its name before all are on the disk. Links there are replaced.

    Raises OSError, with the name of the file, where one cannot be written; then the folder is as it was.
    """
    drafts: list[_Draft] = []
    try:
        for name, content in contents.items():
            with naming(folder / name):
                drafts.append(_Draft(folder / name))
                drafts[-1].file.write(content)
                drafts[-1].finish()
        for draft in drafts:
            with naming(draft.target):
                draft.rename()
    except BaseException:
        for draft in drafts:
            draft.discard()
        raise
    flush_folder(folder)


def write_beside(path: Path, content: bytes | str, final: Path) -> None:
    """Write a file that is going to be renamed to `final`, whose permissions it gets, flushed to the disk.

    Whatever has the name `path` is removed first, a link as well as what a killed process left. Raises OSError, with
    the name of the file; a part of it may remain then.
    """
    with naming(path):
        _check_regular(path)
        path.unlink(missing_ok=True)
        draft = _Draft(final, path)
        try:
            draft.file.write(_encoded(content))
            draft.finish()
        except BaseException:
            draft.discard()
            raise


def rename(old: Path, new: Path) -> None:
    """Give a file of a folder another name there, in place of what has it. Raises OSError with that name."""
    with naming(new):
        _check_regular(new)
        os.replace(old, new)


def remove(paths: Iterable[Path]) -> None:
    """Remove files in this order, of a link the link itself; what is missing is passed over.

    Raises OSError where one of them is a folder, a device, a pipe or a socket: then none is removed.
    """
    found = list(paths)
    for path in found:
        _check_regular(path)
    for path in found:
        with naming(path):
            path.unlink(missing_ok=True)


def append(path: Path, content: bytes | str) -> None:
    """Add to a regular file, made where it is missing: all of the content, or none after an error.

    Links are not followed. Raises OSError, with the name of the file, for one, and where the disk takes no more.
    """
    with naming(path):
        _check_regular(path, link=False)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK | _AT_ONCE, 0o666)
        with os.fdopen(handle, "wb", buffering=0) as file:  # a buffer would be written again when the file is closed
            size, rest = os.fstat(handle).st_size, memoryview(_encoded(content))
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except BaseException:
                os.ftruncate(handle, size)
                raise


def make_folder(path: Path, *, follow: bool = True) -> None:
    """Make a folder, with those above it, unless it is there. follow: whether a link to a folder counts as one.

    Raises OSError for a link if not `follow`, for a file, and where it cannot be made.
    """
    if not follow:
        refuse_link(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        _refuse(path, errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def refuse_link(path: Path) -> None:
    """Raise OSError for a link, where a folder or file of its own is wanted."""
    if path.is_symlink():
        _refuse(path, errno.ELOOP, f"is a link to {os.readlink(path)}, which is not followed here; remove the link")


def check_writable(folder: Path) -> None:
    """Raise OSError where no file can be made in a folder."""
    with naming(folder):
        _Draft(folder / "any").discard()


TEMPORARY = ".tinygrad-*.tmp"  # the pattern of temporary names; they are short, so that any name can be written


class _Draft:
    """A file under a temporary name, which nobody can have planned for: it takes neither a link nor another's file.

    target: the name that it is to get, and whose permissions it takes.
    """

    def __init__(self, target: Path, path: Path | None = None) -> None:
        old = _check_regular(target)
        self.target = target
        self.path = path or target.with_name(TEMPORARY.replace("*", secrets.token_hex(8)))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        handle = os.open(self.path, flags, 0o666 if old is None else 0o600)
        self.file: IO[bytes] = os.fdopen(handle, "wb")
        if old is not None:
            _take_permissions(handle, target, old)

    def finish(self) -> None:
        """Wait until all that was written is on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def rename(self) -> None:
        os.replace(self.path, self.target)

    def discard(self) -> None:
        """Remove the file, unless it has got its name."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.path.unlink()


def _take_permissions(handle: int, path: Path, old: os.stat_result) -> None:
    """Give an open file the mode, the extended attributes and, as far as allowed, the owner of the one at `path`."""
    if not hasattr(os, "fchmod"):  # Windows before Python 3.13
        return
    mode = old.st_mode & 0o777
    for owner in ((-1, old.st_gid), (old.st_uid, -1)):
        with contextlib.suppress(OSError):
            os.fchown(handle, *owner)
    if os.fstat(handle).st_gid != old.st_gid:  # what the old group may do is not for another one
        mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(handle, mode)
    if hasattr(os, "listxattr"):  # access lists among them
        with contextlib.suppress(OSError):
            for name in os.listxattr(path):
                with contextlib.suppress(OSError):
                    os.setxattr(handle, name, os.getxattr(path, name))


def _check_regular(path: Path, link: bool = True) -> os.stat_result | None:
    """The status of the regular file at `path`, None where there is none, or a link.

    Raises OSError for anything else, and for a link where `link` is False.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        if not link:
            refuse_link(path)
        return None
    if stat.S_ISDIR(found.st_mode):
        _refuse(path, errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        _refuse(path, errno.EINVAL, "is a device, a pipe or a socket, not a file")
    return found


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path, links followed, is written to as it is: a pipe, a device, or a file that is open as /dev/stdout.

    Raises OSError for a disk and a socket, to which nothing is written.
    """
    path = Path(path)
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        _refuse(path, errno.EINVAL, "is a disk or a socket, not a file")
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _stream(path: Path) -> IO[bytes]:
    """A pipe or device, open for writing. Raises OSError for a pipe that nobody reads, rather than wait."""
    number = _descriptor(path)
    if number is not None:
        return os.fdopen(os.dup(number), "wb")
    try:
        handle = os.open(path, os.O_WRONLY | _AT_ONCE)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "is a pipe that nobody reads; start its reader first", str(path)) from None
        raise
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def _descriptor(path: Path) -> int | None:
    """The number of this process's open file that a path such as /dev/stdout names, directly or by links.

    It cannot be opened by its real name: standard output may be a pipe, or a file in the middle of which others write.
    """
    places = {Path("/dev/fd"), *(Path("/proc", name, "fd") for name in ("self", "thread-self", str(os.getpid())))}
    for _ in range(40):  # as many links as Linux follows
        if path.parent in places and path.name.isdecimal():
            return int(path.name)
        try:
            path = path.parent / os.readlink(path)
        except OSError:
            return None
    return None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Within the block, an OSError with no file's name, as of a full disk, or with a temporary one gets this file's."""
    try:
        yield
    except OSError as error:
        known = isinstance(error.filename, str | bytes) and not Path(os.fsdecode(error.filename)).match(TEMPORARY)
        if known or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _refuse(path: Path, number: int, why: str) -> NoReturn:
    raise OSError(number, why, str(path))


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, on the systems where a folder can be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _encoded(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
