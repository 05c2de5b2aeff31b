"""Writing a file so that its readers see the old content or the new one, never a part."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Put `content` at `path` by way of a temporary file in the same folder, flushed to the disk before it is renamed.

    Text is written as UTF-8, line ends as they are. When writing fails, the file at `path` is what it was and the
    temporary file is gone; one left behind by a killed process ends in `.tmp` and may be deleted.

    Raises OSError where the folder is missing or takes no more.
    """
    with replacing(Path(path)) as temporary:
        write_and_flush(temporary, content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Within the block, the temporary file that takes the place of `target` at its end, and is gone after an error."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    flush_folder(target.parent)


def write_and_flush(path: Path, content: bytes) -> None:
    """Write a file and wait until it lies on the disk. Raises OSError, with the file's name in it."""
    with naming(path), open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Within the block, an OSError that names no file, as a full disk's does, is given the name of this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder lie on the disk, on the systems where a folder can be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
