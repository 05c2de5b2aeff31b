"""Ops that arrange elements anew and compute nothing; adjoint pairs stand side by side."""

import itertools

from tinygrad_edu.arrays.devices import to_device
from tinygrad_edu.arrays.library import module_of
from tinygrad_edu.arrays.memory import side_by_side, unlocked
from tinygrad_edu.arrays.sums import total
from tinygrad_edu.engine.tape import Op


class Alias(Op):
    """{out} = {x}, as a node of its own"""

    views = True

    def forward(x):
        return x[...]

    def dx(g):
        """d{x} = d{out}"""
        return g


class Detach(Op):
    """{out} = {x}, and no gradient goes back"""

    views = True

    def forward(x):
        return x[...]


class Clone(Op):
    """{out} = {x} in memory of its own"""

    def forward(x):
        return x.copy()

    def dx(g):
        """d{x} = d{out}"""
        return g


class Transfer(Op):
    """{out} = {x} on {device}; its own adjoint"""

    def forward(x, *, device, source):
        return to_device(x, device)

    def dx(g, device, source):
        """d{x} = d{out} on {source}"""
        return Transfer(g, device=source, source=device)


class Reshape(Op):
    """{out} = {x} read row by row into {shape}; its own adjoint"""

    views = True

    def forward(x, *, shape):
        return x.reshape(shape)

    def dx(g, x_shape):
        """d{x} = d{out} in the shape of {x}"""
        return Reshape(g, shape=x_shape)


class Permute(Op):
    """{out} = {x} with its axes in the order {axes}; adjoint: the inverse order"""

    views = True

    def forward(x, *, axes):
        return x.transpose(axes)

    def dx(g, axes):
        """d{x} = d{out} with the axes back in order"""
        back = sorted(range(len(axes)), key=lambda i: axes[i] % len(axes))
        return Permute(g, axes=tuple(back))


class Transpose(Op):
    """{out} = {x} with two axes exchanged; its own adjoint"""

    views = True

    def forward(x, *, dim0=-2, dim1=-1):
        return x.swapaxes(dim0, dim1)

    def dx(g, dim0, dim1):
        """d{x} = d{out} with the two axes exchanged"""
        return Transpose(g, dim0=dim0, dim1=dim1)


class Expand(Op):
    """{out} = {x} copied along new axes and axes of 1, up to {shape}; adjoint of sum_to"""

    views = True

    def forward(x, *, shape):
        y = module_of(x).broadcast_to(x, shape)
        return unlocked(y, x) if y.size == x.size else y

    def dx(g, x_shape):
        """d{x} = Σ d{out} over the copied axes"""
        return SumTo(g, shape=x_shape)


class SumTo(Op):
    """{out} = Σ {x} over the axes along which {shape} was copied; adjoint of expand"""

    def forward(x, *, shape):
        lead = x.ndim - len(shape)
        axes = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and x.shape[i + lead] != 1)
        return total(x, axes).reshape(shape)

    def dx(g, x_shape):
        """d{x} = d{out}, copied along the summed axes"""
        lead = (1,) * (len(x_shape) - len(g.shape))
        return Expand(Reshape(g, shape=(*lead, *g.shape)), shape=x_shape)


class Cat(Op):
    """{out} = the inputs, one behind the other along {axis}; adjoint of split"""

    promotes = True
    saves = ("bounds",)

    def forward(*xs, axis):
        bounds = itertools.accumulate((x.shape[axis] for x in xs), initial=0)
        return module_of(xs[0]).concatenate(xs, axis=axis), tuple(bounds)

    def dxs(g, position, bounds, axis):
        """d of each input = its part of d{out}"""
        return Narrow(g, axis=axis, start=bounds[position], stop=bounds[position + 1])


class Split(Op):
    """outputs = {x} cut into pieces of the lengths {sizes} along {axis}; adjoint of cat"""

    outputs = True
    views = True

    def forward(x, *, sizes, axis):
        ends = list(itertools.accumulate(sizes))
        lead = (slice(None),) * axis
        return tuple(x[(*lead, slice(end - n, end))] for n, end in zip(sizes, ends, strict=True))

    def dx(g, sizes, axis, x_shape):
        """d{x} = the pieces' gradients, one behind the other"""
        return _joined(g, sizes, axis, x_shape[axis])


def _joined(pieces, sizes, axis, length):
    """The pieces one behind the other, 0 where one is None."""
    if all(piece is not None for piece in pieces):
        whole = side_by_side(pieces, axis)
        return Cat(*pieces, axis=axis) if whole is None else whole
    total, start = None, 0
    for n, piece in zip(sizes, pieces, strict=True):
        if piece is not None:
            placed = Widen(piece, axis=axis, start=start, length=length)
            total = placed if total is None else total + placed
        start += n
    return total


class Narrow(Op):
    """{out} = {x} from {start} up to {stop} along {axis}; adjoint of widen"""

    views = True

    def forward(x, *, axis, start, stop):
        return x[(*(slice(None),) * axis, slice(start, stop))]

    def dx(g, axis, start, stop, x_shape):
        """d{x} = d{out} at its place, 0 around it"""
        return Widen(g, axis=axis, start=start, length=x_shape[axis])


class Widen(Op):
    """{out} = {x} from {start} on along an axis of {length}, 0 elsewhere; adjoint of narrow"""

    def forward(x, *, axis, start, length):
        y = module_of(x).zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), dtype=x.dtype)
        y[(*(slice(None),) * axis, slice(start, start + x.shape[axis]))] = x
        return y

    def dx(g, axis, start, x_shape):
        """d{x} = the part of d{out} where {x} stands"""
        return Narrow(g, axis=axis, start=start, stop=start + x_shape[axis])


class Unbind(Op):
    """outputs = the slices of {x} along {axis}, without that axis"""

    outputs = True
    views = True

    def forward(x, *, axis):
        lead = (slice(None),) * axis
        return tuple(x[(*lead, i, ...)] for i in range(x.shape[axis]))

    def dx(g, axis, x_shape):
        """d{x} = the slices' gradients, side by side along {axis}"""
        one = (*x_shape[:axis], 1, *x_shape[axis + 1 :])
        pieces = [None if piece is None else Reshape(piece, shape=one) for piece in g]
        return _joined(pieces, (1,) * len(pieces), axis, x_shape[axis])


class Flip(Op):
    """{out} = {x} from back to front along {axes}; its own adjoint"""

    def forward(x, *, axes):
        return module_of(x).flip(x, axes).copy()  # both libraries show the same memory, PyTorch copies

    def dx(g, axes):
        """d{x} = d{out} from back to front along {axes}"""
        return Flip(g, axes=axes)


class Roll(Op):
    """{out} = {x} moved on by {shifts} along {axes}, from the end round to the start; adjoint: moved back"""

    def forward(x, *, shifts, axes):
        return module_of(x).roll(x, shifts, axes)

    def dx(g, shifts, axes):
        """d{x} = d{out} moved back by {shifts}"""
        return Roll(g, shifts=tuple(-n for n in shifts), axes=axes)


class Pad(Op):
    """{out} = {x} with {value} around it, {widths} elements before and behind each axis; adjoint of crop"""

    def forward(x, *, widths, value=0.0):
        return module_of(x).pad(x, widths, constant_values=value)

    def dx(g, widths):
        """d{x} = the inner part of d{out}"""
        return Crop(g, widths=widths)


class Crop(Op):
    """{out} = {x} without {widths} elements before and behind each axis; adjoint of pad"""

    views = True

    def forward(x, *, widths):
        return x[tuple(slice(a, n - b) for n, (a, b) in zip(x.shape, widths, strict=True))]

    def dx(g, widths):
        """d{x} = d{out} with 0 around it"""
        return Pad(g, widths=widths)
