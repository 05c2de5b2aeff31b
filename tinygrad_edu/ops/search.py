"""Ops that find, count and draw: what they give depends on values and has no derivative."""

from tinygrad_edu import random
from tinygrad_edu.arrays.devices import to_device
from tinygrad_edu.arrays.dtypes import float32
from tinygrad_edu.arrays.library import module_of
from tinygrad_edu.engine.tape import Op


class Nonzero(Op):
    """{out} = the indices of the elements of {x} that are not 0, a row for each"""

    def forward(x):
        return module_of(x).stack(x.nonzero(), axis=1)


class Unique(Op):
    """values, inverse, counts = the different elements of {x} in order, along {axis} or of all; where each went; each's
    number"""

    outputs = True
    differentiable = (True, False, False)

    def forward(x, *, axis=None):
        values, inverse, counts = module_of(x).unique(
            x, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
        )
        return values, inverse.reshape(x.shape if axis is None else (x.shape[axis],)), counts

    def dx(g):
        """d{x} is not defined: equal elements became one"""
        raise NotImplementedError("unique: its values have no derivative; use x.detach().unique(), or x[places]")


class Bincount(Op):
    """{out}_i = how often {x} is i, or the sum of its {weights} there"""

    def forward(x, weights=None, *, minlength=0):
        y = module_of(x).bincount(x, weights, minlength)
        return y if weights is None or weights.dtype != float32 else y.astype(float32)

    def dweights(g):
        """d{weights} is not there, as in PyTorch"""
        raise NotImplementedError(
            "bincount: it has no derivative in its weights; use zeros(n).index_add(0, x, weights), which has"
        )


class Searchsorted(Op):
    """{out} = before which element of the ascending {x}, row by row, {values} belong; {right}: behind equal ones"""

    def forward(x, values, *, right=False):
        xp, side = module_of(x), "right" if right else "left"
        if x.ndim == 1:
            return xp.asarray(xp.searchsorted(x, values, side))
        if not values.size:
            return xp.zeros(values.shape, dtype=int)
        rows = zip(x.reshape(-1, x.shape[-1]), values.reshape(-1, values.shape[-1]))
        return xp.stack([xp.searchsorted(row, v, side) for row, v in rows]).reshape(values.shape)


class Isin(Op):
    """{out} = whether {x} is among the {elements}, or, if {invert}, is not"""

    def forward(x, elements, *, invert=False):
        return module_of(x).isin(x, elements, invert=invert)


class Multinomial(Op):
    """{out} = {count} indices drawn from each row with probabilities in proportion to the weights {x}"""

    def forward(x, *, count, replacement, key):
        return module_of(x).asarray(random.indices(to_device(x, "cpu"), count, replacement, key))
