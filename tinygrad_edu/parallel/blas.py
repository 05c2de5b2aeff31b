"""How many threads a matrix product uses, as one setting of the whole process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinygrad_edu.arrays.locks import lock_of_process

_lock = lock_of_process()
_limits: dict[int, int] = {}  # id of who limits at present -> to what
_before: dict[str, tuple[Any, int]] = {}  # file of a library -> the library, and its count before anybody limited it


class BlasThreads:
    """A limit on the threads of the loaded BLAS libraries, set by a direct call.

    The counts belong to the process. Of several limits at once the lowest holds, whoever ends first; when the last has
    ended, the counts are those from before the first.
    """

    def __init__(self) -> None:
        self._now: int | None = None
        from threadpoolctl import ThreadpoolController

        self._libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers

    def limit(self, count: int) -> None:
        """Every product from now on, in whichever Python thread, uses at most `count` threads."""
        if count != self._now:
            with _lock:
                for library in self._libraries:
                    _before.setdefault(library.filepath, (library, library.num_threads))
                _limits[id(self)] = count
                _set()
                self._now = count

    def restore(self) -> None:
        """This limit ends; once is enough. It also ends with the object."""
        with _lock:
            self._now = None
            _limits.pop(id(self), None)
            _set()
            if not _limits:
                _before.clear()

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending() and id(self) in _limits:
            self.restore()

    @contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """`limit` for a `with` block."""
        try:
            self.limit(count)
            yield
        finally:
            self.restore()


def _set() -> None:
    for library, before in list(_before.values()):
        library.set_num_threads(min([before, *_limits.values()]))
