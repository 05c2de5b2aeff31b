"""How many threads a matrix product uses, as one setting of the whole process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_limits: dict[int, int] = {}  # id of who limits at present -> to what
_before: dict[str, tuple[Any, int]] = {}  # file of a library -> the library, and its count before anybody limited it


class BlasThreads:
    """A limit on the threads of the loaded BLAS libraries, set by a direct call.

    The counts belong to the process. Of several limits at once the lowest holds, whoever ends first; when the last has
    ended, the counts are those from before the first.
    """

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
        self._now: int | None = None

    def limit(self, count: int) -> None:
        """Every product from now on, in whichever Python thread, uses at most `count` threads."""
        if count != self._now:
            with _lock:
                for library in self._libraries:
                    _before.setdefault(library.filepath, (library, library.num_threads))
                _limits[id(self)] = self._now = count
                _set()

    def restore(self) -> None:
        """This limit ends."""
        with _lock:
            self._now = None
            if _limits.pop(id(self), None) is not None:
                _set()
            if not _limits:
                _before.clear()

    @contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """`limit` for a `with` block."""
        self.limit(count)
        try:
            yield
        finally:
            self.restore()


def _set() -> None:
    for library, before in _before.values():
        library.set_num_threads(min([before, *_limits.values()]))
