"""Parameters of one dtype and device as views of one array, with what an optimizer keeps of them in the same layout."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_edu.arrays import devices, dtypes
from tinygrad_edu.arrays.buffers import Place
from tinygrad_edu.tensor import Tensor

LINE = 64  # bytes; every parameter starts on a cache line, which the matrix products that read it like

Part = tuple[Any, Any, dict[str, Any]]  # values, gradients, state


def kept_dtype(dtype: Any) -> Any:
    """The dtype of what an optimizer keeps of parameters of `dtype`: float32 for float16, in which the squares of small
    gradients are 0."""
    return dtypes.float32 if dtype == dtypes.float16 else dtype


class Flat:
    """One array each for values, gradients and every kind of state; the parameters' arrays become views of the first.

    Parameters keep their own version counters: they are neighbours here, not views of each other. Their gradients are
    copied together here, but for those that were written here to begin with, see `gradient_place`.
    """

    def __init__(self, parameters: Sequence[Tensor], slots: Mapping[str, float]) -> None:
        first = parameters[0].array
        unit = max(1, LINE // first.dtype.itemsize)
        self.parameters = list(parameters)
        self.starts = [0]
        for p in parameters:
            self.starts.append(self.starts[-1] + -(-p.array.size // unit) * unit)
        self.values = self._zeros(first)
        self.state = {name: self._zeros(first, kept_dtype(first.dtype)) for name in slots}
        for name, value in slots.items():
            self.state[name][...] = value
        self.views = self._views(self.values)
        self._new_gradient()
        self.lends = False  # whether gradients may be written here: not where an optimizer overwrites what is here
        self.at = {id(p): i for i, p in enumerate(parameters)}
        self.steps = [0] * len(parameters)
        for p, view in zip(parameters, self.views):
            view[...] = p.array
            p.array = view
            _flats[id(p)] = self

    def _new_gradient(self) -> None:
        self.gradient = self._zeros(self.values)
        self.gradient_views = self._views(self.gradient)
        numpy = isinstance(self.gradient, np.ndarray)
        self.places = [Place(view) for view in self.gradient_views] if numpy else []

    def _zeros(self, like: Any, dtype: Any = None) -> Any:
        dtype = like.dtype if dtype is None else dtype
        size, unit = self.starts[-1], dtype.itemsize
        if not isinstance(like, np.ndarray):  # a GPU's memory starts on a line of its own
            return devices.module_on(devices.device_of(like)).zeros(size, dtype=dtype)
        memory = np.zeros(size + LINE // unit, dtype)
        offset = -memory.ctypes.data % LINE // unit
        return memory[offset : offset + size]

    def _views(self, flat: Any) -> list[Any]:
        return [
            flat[start : start + math.prod(p.shape)].reshape(p.shape) for p, start in zip(self.parameters, self.starts)
        ]

    def state_views(self) -> list[dict[str, Any]]:
        """The state of each parameter, as views in its shape."""
        views = {name: self._views(flat) for name, flat in self.state.items()}
        return [{name: of[i] for name, of in views.items()} for i in range(len(self.parameters))]

    def gather(self, what: str, lends: bool = False) -> list[tuple[int, int, int]]:
        """Copy the gradients together; (begin, end, step) of each run of neighbours that have a gradient and are to
        make the same step, counted from 1. A parameter without a gradient is in no run.

        lends: the caller leaves what it finds in `gradient` as it is, so a gradient that lies there already is not
        copied, and the next ones may be written there."""
        here = self._lying_here(lends)
        self.lends = lends
        begin, count = 0, 0
        runs = []
        devices.settle(self.values)
        for i, (p, view, steps, there) in enumerate(zip(self.parameters, self.gradient_views, self.steps, here)):
            gradient = p.grad
            now = 0 if gradient is None else steps + 1
            if now != count:
                if count:
                    runs.append((begin, i, count))
                begin, count = i, now
            if gradient is not None and not there:
                if gradient.array.shape != view.shape:
                    raise ValueError(
                        f"{what}: a gradient has shape {gradient.shape} and its parameter {view.shape}; assign "
                        f"gradients in the parameter's shape"
                    )
                view[...] = gradient.array
        if count:
            runs.append((begin, len(self.parameters), count))
        return runs

    def _lying_here(self, lends: bool) -> list[bool]:
        """Which parameters have a gradient that need not be copied. What somebody sees of earlier steps is left to
        him, with the memory it lies in."""
        if not self.places:
            return [False] * len(self.parameters)
        shown = [None if p.grad is None else p.grad.array for p in self.parameters]
        here = [lends and array is not None and place.shows(array) for array, place in zip(shown, self.places)]
        if all(there or place.shows(None) for there, place in zip(here, self.places)):
            return here
        self._new_gradient()
        return [False] * len(self.parameters)

    def part(self, begin: int, end: int) -> Part:
        """Values, gradients and state of the parameters begin..end, each as one vector."""
        run = slice(self.starts[begin], self.starts[end])
        return self.values[run], self.gradient[run], {name: flat[run] for name, flat in self.state.items()}

    def parts(self, begin: int, end: int) -> list[tuple[int, Part]]:
        """Value, gradient and state of each parameter from begin to end, in its own shape; and where in the vector of
        `part` it starts."""
        parts = zip(self.views[begin:end], self.gradient_views[begin:end], self.state_views()[begin:end])
        return [(start - self.starts[begin], part) for start, part in zip(self.starts[begin:end], parts)]

    def pieces(self, begin: int, end: int, size: int) -> list[tuple[int, Part]]:
        """The vector of `part` cut into pieces of `size` elements; and where each starts."""
        param, grad, state = self.part(begin, end)
        cuts = [(i, slice(i, i + size)) for i in range(0, param.size, size)]
        return [(i, (param[cut], grad[cut], {name: s[cut] for name, s in state.items()})) for i, cut in cuts]

    def written(self, begin: int, end: int, step: int) -> None:
        """Parameters begin..end were changed by their step number `step`."""
        for i in range(begin, end):
            self.steps[i] = step
            self.parameters[i].bump_version()


_flats: weakref.WeakValueDictionary[int, Flat] = weakref.WeakValueDictionary()  # id of a parameter -> where it lies


def gradient_place(p: Tensor) -> np.ndarray | None:
    """Memory of p's shape and dtype for its gradient, which its optimizer then reads without a copy.

    It is like memory of its own: nobody sees it until the caller shows it around, and it is not given out again
    while anybody does. None where there is none: no optimizer has made a step with p, or one that overwrites what it
    reads, or a gradient from before can still be seen.
    """
    flat = _flats.get(id(p))
    if flat is None or not flat.lends or p.array is not flat.views[flat.at[id(p)]]:
        return None
    return flat.places[flat.at[id(p)]].array() if flat.places else None


Kept = dict[int, tuple[int, dict[str, Any]]]  # id of a parameter -> (steps made, its state), for those with a step


class Layout:
    """The parameters of one group in as many `Flat`s as they have dtypes and devices, with the state they had."""

    def __init__(self, parameters: Sequence[Tensor], slots: Mapping[str, float], kept: Kept) -> None:
        kinds: dict[Any, list[Tensor]] = {}
        for p in parameters:
            kinds.setdefault((p.array.dtype, devices.device_of(p.array)), []).append(p)
        self.slots = dict(slots)
        self.flats = [Flat(alike, slots) for alike in kinds.values()]
        for flat in self.flats:
            for i, (p, state) in enumerate(zip(flat.parameters, flat.state_views())):
                if id(p) in kept:
                    flat.steps[i], values = kept[id(p)]
                    for name, value in values.items():
                        state[name][...] = devices.to_device(value, devices.device_of(state[name]))
        self.arrays = [p.array for p in parameters]

    def holds(self, parameters: Sequence[Tensor]) -> bool:
        """Whether each parameter still is its view, so that writing here changes it."""
        arrays = self.arrays
        return len(parameters) == len(arrays) and all(p.array is a for p, a in zip(parameters, arrays))

    def kept(self) -> Kept:
        """The state of each parameter that has made a step, as views."""
        return {
            id(p): (step, state)
            for flat in self.flats
            for p, step, state in zip(flat.parameters, flat.steps, flat.state_views())
            if step
        }
