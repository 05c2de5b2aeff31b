"""How many threads a matrix product uses, as one setting of the whole process."""

from __future__ import annotations

from typing import Any


class BlasThreads:
    """The thread counts of the loaded BLAS libraries: read once, changed by a direct call, put back by `restore`."""

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
        self._before = [library.num_threads for library in self._libraries]
        self._now: int | None = None

    def limit(self, count: int) -> None:
        """Every product from now on, in whichever Python thread, uses at most `count` threads."""
        if count != self._now:
            for library, before in zip(self._libraries, self._before):
                library.set_num_threads(min(count, before))
            self._now = count

    def restore(self) -> None:
        """The counts from before."""
        if self._now is not None:
            for library, before in zip(self._libraries, self._before):
                library.set_num_threads(before)
            self._now = None
