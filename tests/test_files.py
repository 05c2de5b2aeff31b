"""The writer: whole or not at all, links of the user followed and planted ones not, permissions kept, devices left."""

import contextlib
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tinygrad_edu import files, ones
from tinygrad_edu.data import ByteTokenizer, write_tokens
from tinygrad_edu.files import (
    append,
    make_folder,
    remove,
    rename,
    replacing,
    write_atomically,
    write_beside,
    write_together,
)
from tinygrad_edu.graph import trace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and permissions of POSIX")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A file outside of the folder that is written to."""
    path = tmp_path / "outside" / "notes.txt"
    path.parent.mkdir()
    path.write_text("notes")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Within the block, no file grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# Each way of writing, to a name in a folder that the program chose.
INSIDE: dict[str, Callable[[Path, bytes], object]] = {
    "write_atomically": lambda path, content: write_atomically(path, content, follow=False),
    "write_together": lambda path, content: write_together(path.parent, {path.name: content}),
    "write_beside": lambda path, content: write_beside(path, content, path.with_name("final")),
}


def test_content_is_written_as_it_is(folder: Path) -> None:
    write_atomically(folder / "a", "ü\r\n")
    assert (folder / "a").read_bytes() == b"\xc3\xbc\r\n"
    with replacing(folder / "a") as file:
        file.write(b"....tail")
        file.seek(0)
        file.write(b"head")
    assert (folder / "a").read_bytes() == b"headtail"
    assert names(folder) == ["a"]


@pytest.mark.parametrize("write", [write_atomically, *INSIDE.values()], ids=["followed", *INSIDE])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    write: Callable[[Path, bytes], object], folder: Path
) -> None:
    path = folder / "file"
    if write is not INSIDE["write_beside"]:  # which writes what has no name yet
        write(path, b"old" * 1000)
    before = {name: (folder / name).read_bytes() for name in names(folder)}
    with full_disk(5000), pytest.raises(OSError, match="File too large") as caught:
        write(path, b"new" * 10000)
    assert caught.value.filename == str(path)
    assert {name: (folder / name).read_bytes() for name in names(folder)} == before


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_the_message_names_the_file_and_not_a_temporary_one(
    failing: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*places: object) -> None:
        raise OSError(28, "No space left on device", *(str(place) for place in places if isinstance(place, Path)))

    write_atomically(folder / "file", b"old")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space") as caught:
        write_atomically(folder / "file", b"new")
    assert str(caught.value) == f"[Errno 28] No space left on device: '{folder / 'file'}'"
    assert (folder / "file").read_bytes() == b"old"
    assert names(folder) == ["file"]


def test_an_interrupted_write_leaves_nothing(folder: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt), replacing(folder / "file") as file:
        file.write(b"part")
        raise KeyboardInterrupt
    assert names(folder) == []


def test_none_of_several_files_is_replaced_before_all_are_written(folder: Path) -> None:
    write_together(folder, {"a": b"1", "b": b"1"})
    with full_disk(5000), pytest.raises(OSError, match="File too large") as caught:
        write_together(folder, {"a": b"2", "b": b"2" * 10000})
    assert caught.value.filename == str(folder / "b")
    assert {name: (folder / name).read_bytes() for name in names(folder)} == {"a": b"1", "b": b"1"}


def test_what_cannot_be_added_whole_is_not_added(folder: Path) -> None:
    append(folder / "lines", "one\n")
    with full_disk(5000), pytest.raises(OSError, match="File too large") as caught:
        append(folder / "lines", "two" * 10000)
    append(folder / "lines", "three\n")
    assert (folder / "lines").read_text() == "one\nthree\n"
    assert caught.value.filename == str(folder / "lines")


# links


def test_a_link_that_the_user_named_remains_one(folder: Path, notes: Path) -> None:
    (folder / "link").symlink_to(notes)
    (folder / "far").symlink_to("link")
    write_atomically(folder / "far", "new")
    assert notes.read_text() == "new"
    assert (folder / "far").readlink() == Path("link")
    assert (folder / "link").readlink() == notes
    (folder / "dangling").symlink_to("missing")
    write_atomically(folder / "dangling", "made")
    assert (folder / "missing").read_text() == "made"
    (folder / "elsewhere").symlink_to(notes.parent)
    write_atomically(folder / "elsewhere" / "file", "there")
    assert names(notes.parent) == ["file", "notes.txt"]


@pytest.mark.parametrize("way", INSIDE)
@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_a_planted_link_is_replaced(way: str, kind: str, folder: Path, notes: Path) -> None:
    getattr(folder / "file", kind)(notes)
    INSIDE[way](folder / "file", b"ours")
    assert notes.read_text() == "notes"
    assert (folder / "file").read_bytes() == b"ours"
    assert not (folder / "file").is_symlink()
    assert not (folder / "file").samefile(notes)


def test_a_rename_replaces_a_planted_link(folder: Path, notes: Path) -> None:
    (folder / "file").symlink_to(notes)
    write_atomically(folder / "next", b"ours")
    rename(folder / "next", folder / "file")
    assert notes.read_text() == "notes"
    assert names(folder) == ["file"]


def test_nothing_is_added_through_a_link(folder: Path, notes: Path) -> None:
    (folder / "lines").symlink_to(notes)
    with pytest.raises(OSError, match="is a link to") as caught:
        append(folder / "lines", "more")
    assert caught.value.filename == str(folder / "lines")
    assert notes.read_text() == "notes"


def test_a_folder_that_is_a_link_is_one_only_where_the_user_named_it(folder: Path, notes: Path) -> None:
    (folder / "link").symlink_to(notes.parent)
    make_folder(folder / "link")
    with pytest.raises(OSError, match="is a link to"):
        make_folder(folder / "link", follow=False)
    make_folder(folder / "a" / "b", follow=False)
    make_folder(folder / "a" / "b", follow=False)
    (folder / "file").touch()
    for name in ("file", "file/inner"):
        with pytest.raises(NotADirectoryError):
            make_folder(folder / name)


# permissions


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o444, 0o755])
def test_permissions_are_kept(permissions: int, folder: Path) -> None:
    path = folder / "file"
    path.write_text("old")
    path.chmod(permissions)
    (folder / "link").symlink_to(path)
    for write in (write_atomically, INSIDE["write_atomically"], INSIDE["write_together"]):
        write(path, b"new")
        assert mode(path) == permissions
    write_atomically(folder / "link", b"new")
    assert mode(path) == permissions
    write_beside(folder / "next", b"newer", path)
    rename(folder / "next", path)
    assert mode(path) == permissions


def test_a_new_file_follows_the_umask(folder: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(folder / "a", b"")
        write_together(folder, {"b": b""})
        append(folder / "c", b"")
        write_beside(folder / "d", b"", folder / "final")
    finally:
        os.umask(before)
    assert {mode(folder / name) for name in "abcd"} == {0o640}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_is_kept(folder: Path) -> None:
    path = folder / "file"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    write_atomically(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_another_group_does_not_get_the_permissions_of_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "file"
    path.write_text("old")
    path.chmod(0o664)
    status, real = path.lstat(), os.fstat

    def elsewhere(handle: int) -> os.stat_result:  # the group that the system gives to new files
        found = real(handle)
        return os.stat_result((*found[:5], status.st_gid + 1, *found[6:]))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", elsewhere)
        write_atomically(path, b"new")
    assert mode(path) == 0o644


# what is not a file


def test_a_pipe_gets_what_is_written(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    with pytest.raises(OSError, match="is a pipe that nobody reads"):
        write_atomically(folder / "pipe", "text")
    read: list[str] = []
    for name in ("pipe", "link"):
        thread = threading.Thread(target=lambda: read.append((folder / "pipe").read_text()))
        thread.start()
        while thread.is_alive():  # the reader may come later
            with contextlib.suppress(OSError):
                write_atomically(folder / name, "text" * 50_000)
                break
        thread.join()
    assert read == ["text" * 50_000] * 2
    assert (folder / "pipe").is_fifo()
    assert names(folder) == ["link", "pipe"]


@pytest.mark.parametrize("way", [*INSIDE, "append", "rename"])
def test_a_planted_pipe_is_refused(way: str, folder: Path) -> None:
    os.mkfifo(folder / "file")
    (folder / "old").touch()
    ways = {**INSIDE, "append": append, "rename": lambda path, _: rename(path.with_name("old"), path)}
    with pytest.raises(OSError, match="is a device, a pipe or a socket") as caught:
        ways[way](folder / "file", b"text")
    assert caught.value.filename == str(folder / "file")
    assert (folder / "file").is_fifo()


def test_files_are_removed_together_or_not_at_all(folder: Path) -> None:
    (folder / "first").touch()
    (folder / "last").symlink_to("nowhere")
    for plant in (os.mkfifo, os.mkdir):
        plant(folder / "odd")
        with pytest.raises(OSError, match="odd"):
            remove(folder / name for name in ("first", "odd", "last", "missing"))
        assert names(folder) == ["first", "last", "odd"]
        (folder / "odd").rmdir() if plant is os.mkdir else (folder / "odd").unlink()
    remove(folder / name for name in ("first", "odd", "last", "missing"))
    assert names(folder) == []


def test_devices_remain(folder: Path) -> None:
    for name, number in (("null", 3), ("full", 7)):
        path = Path("/dev", name)
        if not path.is_char_device():
            pytest.skip(f"no {path} here")
        if os.geteuid() == 0:  # who may replace them: not those of the system, in a test
            path = folder / name
            try:
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, number))
                path.open("rb").close()
            except OSError:
                pytest.skip("no devices can be made here")
        with contextlib.ExitStack() as stack:
            caught = stack.enter_context(pytest.raises(OSError, match="No space left")) if name == "full" else None
            write_tokens(path, ByteTokenizer(), [ByteTokenizer().encode("text")])
        assert caught is None or caught.value.filename == str(path)
        assert path.is_char_device()


@pytest.mark.parametrize("place", ["/dev/stdout", "link"])
def test_standard_output_gets_what_is_written(place: str, folder: Path) -> None:
    if not Path("/dev/fd/1").exists():
        pytest.skip("no /dev/fd here")
    if place == "link":
        (folder / "link").symlink_to("/dev/stdout")
        place = str(folder / "link")
    code = "import sys; from tinygrad_edu.files import *; print(1); write_atomically(sys.argv[1], '2\\n'); print(3)"
    command = [sys.executable, "-c", code, place]
    root = Path(files.__file__).parent.parent
    if place == "/dev/stdout":
        assert subprocess.run(command, cwd=root, capture_output=True, check=True).stdout == b"1\n2\n3\n"
    else:  # a file, which is neither replaced nor cut
        with open(folder / "out", "wb") as out:
            subprocess.run(command, cwd=root, stdout=out, check=True)
        assert (folder / "out").read_bytes() == b"1\n2\n3\n"


@pytest.mark.parametrize("follow", [True, False])
def test_errors_name_the_path(follow: bool, folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "file").touch()
    cases = {
        "inner": IsADirectoryError,
        "missing/file": FileNotFoundError,
        "file/file": NotADirectoryError,
        "n" * 300: OSError,
    }
    for name, kind in cases.items():
        with pytest.raises(kind) as caught:
            write_atomically(folder / name, b"", follow=follow)
        assert isinstance(caught.value, OSError)
        assert caught.value.filename == str(folder / name)
    write_atomically(folder / ("n" * 255), b"", follow=follow)
    (folder / "loop").symlink_to("loop")
    with contextlib.nullcontext() if not follow else pytest.raises(OSError, match="symbolic links"):
        write_atomically(folder / "loop", b"", follow=follow)


@pytest.mark.parametrize("name", ["new.txt/", "new.txt//", "new.txt/.", "new.txt/..", "old/", ".", "..", "", "a/"])
def test_a_name_of_a_folder_is_no_file(name: str, folder: Path) -> None:
    """`Path` drops a slash at the end: the file without it would be written, or replaced."""
    (folder / "old").write_text("old")
    path = f"{folder}/{name}" if name else ""
    tokenizer, graph = ByteTokenizer(), trace(lambda x: x * 2, ones(2, requires_grad=True))
    writers: list[Callable[[], Any]] = [
        lambda: write_atomically(path, "x"),
        lambda: tokenizer.save(path),
        lambda: write_tokens(path, tokenizer, iter([tokenizer.encode("x")])),
        lambda: graph.save(path),
        lambda: graph.diff(graph).save(path),
    ]
    for write in writers:
        with pytest.raises(OSError, match=r"names a folder, not a file|the path is empty"):
            write()
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"old": "old"}


def test_a_nul_character_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="has a NUL character"):
        write_atomically(f"{folder}/a\0b", "x")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.chmod(0o500)
    for write in (write_atomically, *INSIDE.values(), append):
        with pytest.raises(PermissionError) as caught:
            write(folder / "file", b"")
        assert caught.value.filename == str(folder / "file")
