"""Ops that shorten axes: sums, means, maxima, over a tuple of axes."""

from tinygrad_edu.arrays.library import floating, largest, module_of, quiet, sum_dtype
from tinygrad_edu.arrays.sums import counting, narrow, total, wide
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.arithmetic import Abs, PowNumber, Sign
from tinygrad_edu.ops.choice import Cast, Where, ZerosLike
from tinygrad_edu.ops.shape import Cat, Expand, Narrow, Permute, Reshape


def kept(g, axes, keepdim, shape):
    """`g` with the reduced axes standing as 1, so that it broadcasts against the input of shape `shape`."""
    return g if keepdim else Reshape(g, shape=tuple(1 if i in axes else n for i, n in enumerate(shape)))


def _count(shape, axes):
    n = 1
    for i in axes:
        n *= shape[i]
    return n


class Sum(Op):
    """{out} = Σ {x} over {axes}"""

    def forward(x, *, axes, keepdim=False):
        return total(x, axes, keepdim)

    def dx(g, axes, keepdim, x_shape):
        """d{x} = d{out}, copied along {axes}"""
        return Expand(kept(g, axes, keepdim, x_shape), shape=x_shape)


class Mean(Op):
    """{out} = Σ {x} / n over {axes}; of nothing it is NaN"""

    def forward(x, *, axes, keepdim=False):
        n, x = _count(x.shape, axes), floating(x)
        return narrow(total(wide(x), axes, keepdim) * (1.0 / n if n else float("nan")), x.dtype)

    def dx(g, axes, keepdim, x_shape):
        """d{x} = d{out} / n, copied along {axes}"""
        n = _count(x_shape, axes)
        return Expand(kept(g * (1.0 / max(n, 1)), axes, keepdim, x_shape), shape=x_shape)


class CentredSquares(Op):
    """{out} = Σ ({x} − mean {x})² over {axes}

    The gradient that goes through the mean is Σ ({x} − mean {x}), which is 0: it is left out.
    """

    def forward(x, *, axes, keepdim=False):
        exact = wide(floating(x))
        n = _count(x.shape, axes)
        with quiet(x):
            centred = exact - total(exact, axes, True) * (1.0 / n if n else float("nan"))
            return narrow(total(module_of(x).square(centred), axes, keepdim), floating(x).dtype)

    def dx(g, x, axes, keepdim, x_shape):
        """d{x} = 2 d{out} ⊙ ({x} − mean {x})"""
        return kept(g * 2.0, axes, keepdim, x_shape) * (x - Mean(x, axes=axes, keepdim=True))


class Amax(Op):
    """{out} = max {x} over {axes}; equal maxima share the gradient evenly

    A NaN makes the result NaN. It then has the gradient where `nan_shares`, else all gradients are NaN: PyTorch's max()
    and norms, and its amax.
    """

    def forward(x, *, axes, keepdim=False, nan_shares=False):
        return x.max(axis=axes, keepdims=keepdim)

    def dx(g, x, out, axes, keepdim, nan_shares, x_shape):
        """d{x} = d{out} / (number of maxima) where {x} = {out}, else 0"""
        return _shared(kept(g, axes, keepdim, x_shape), x, kept(out, axes, keepdim, x_shape), axes, nan_shares)


class Amin(Op):
    """{out} = min {x} over {axes}; equal minima share the gradient evenly

    NaN: as of amax.
    """

    def forward(x, *, axes, keepdim=False, nan_shares=False):
        return x.min(axis=axes, keepdims=keepdim)

    def dx(g, x, out, axes, keepdim, nan_shares, x_shape):
        """d{x} = d{out} / (number of minima) where {x} = {out}, else 0"""
        return _shared(kept(g, axes, keepdim, x_shape), x, kept(out, axes, keepdim, x_shape), axes, nan_shares)


def _shared(g, x, extreme, axes, nan_shares):
    """`g` divided among the `x` that are the extreme."""
    won = x == extreme
    if nan_shares:
        won = won | ((x != x) & (extreme != extreme))
    among = Cast(won, dtype=counting(x.dtype))
    share = g / Sum(among, axes=axes, keepdim=True)
    return Where(won, share, 0.0) if nan_shares else among * share


class CountNonzero(Op):
    """{out} = how many of {x} over {axes} are not 0, in the dtype of {x}; its slope is 0 wherever it has one"""

    def forward(x, *, axes, keepdim=False):
        return (x != 0).sum(axis=axes, keepdims=keepdim, dtype=x.dtype)

    def dx(g, axes, keepdim, x_shape):
        """d{x} = 0"""
        return Expand(kept(ZerosLike(g), axes, keepdim, x_shape), shape=x_shape)


class Any(Op):
    """{out} = whether any {x} over {axes}"""

    def forward(x, *, axes, keepdim=False):
        return x.any(axis=axes, keepdims=keepdim)


class All(Op):
    """{out} = whether all {x} over {axes}"""

    def forward(x, *, axes, keepdim=False):
        return x.all(axis=axes, keepdims=keepdim)


class Norm(Op):
    """{out} = √(Σ {x}²) over {axes}; the gradient at 0 is 0"""

    def forward(x, *, axes, keepdim=False):
        xp, exact = module_of(x), wide(x)
        top = _scale(largest(xp.abs(exact), axes, 0.0))
        y = xp.sqrt(total(xp.square(exact / top), axes, True)) * top  # squares of large numbers overflow
        return narrow(y if keepdim else y.squeeze(axes), x.dtype)

    def dx(g, x, out, axes, keepdim, x_shape):
        """d{x} = d{out} ⊙ {x} / {out}"""
        y = kept(out, axes, keepdim, x_shape)
        return kept(g, axes, keepdim, x_shape) * Unit(x, y, axes=axes)


class PowerNorm(Op):
    """{out} = (Σ |{x}|^{p})^(1/{p}) over {axes}, {p} > 1; the gradient at 0 is 0"""

    def forward(x, *, axes, keepdim=False, p):
        size = abs(wide(x))
        top = _scale(largest(size, axes, 0.0), p)
        with quiet(x):
            y = total((size / top) ** p, axes, True) ** (1.0 / p) * top
        return narrow(y if keepdim else y.squeeze(axes), x.dtype)

    def dx(g, x, out, axes, keepdim, p, x_shape):
        """d{x} = d{out} ⊙ sign {x} ⊙ (|{x}| / {out})^({p} − 1)"""
        unit = Unit(x, kept(out, axes, keepdim, x_shape), axes=axes, p=p)
        return kept(g, axes, keepdim, x_shape) * _slope(unit, p)


class Unit(Op):
    """{out} = {x} / {length}, its norm (Σ |{x}|^{p})^(1/{p}) over {axes}, {p} from 1 on; 0 where that is 0

    Where one entry is nearly all of the norm, its own derivative is what the others add up to and not 1 minus nearly 1.
    """

    def forward(x, length, *, axes, p=2):
        with quiet(x):
            return x / _divisor(length)

    def dlength(g):
        """d{length} = 0: that it depends on {x} is in d{x}"""

    def dx(g, out, length, axes, p):
        """d{x} = (d{out} − sign {out} ⊙ |{out}|^({p} − 1) ⊙ Σ d{out} ⊙ {out}) / {length}"""
        divisor, slope = _divisor(length), _slope(out, p)
        most = slope * out > 0.51  # its share of the norm; no two have so much, however rounded
        rest = Where(most, 0.0, out)
        part = rest / divisor
        others = Sum(Where(most, 0.0, slope) * part, axes=axes, keepdim=True)
        exact = g * others - slope * Sum(part * g, axes=axes, keepdim=True)
        return Where(most, exact, g / divisor - slope * Sum(out / divisor * g, axes=axes, keepdim=True))


def _scale(top, p=2):
    """What to divide by before powers are taken: 1 for 0, ∞ and NaN, else the largest power of 2 that is not above
    `top`, which rounds nothing, and for a large p, whose powers of 2 leave the dtype, `top` itself."""
    xp = module_of(top)
    known = xp.where(xp.isfinite(top) & (top > 0), top, xp.ones_like(top))
    return xp.ldexp(xp.ones_like(top), xp.frexp(known)[1] - 1) if p <= 16 else known


def _divisor(length):
    return Where(length == 0, float("inf"), length)


def _slope(unit, p):
    """The derivative of the norm by each entry, of the entries over the norm."""
    if p == 2:
        return unit
    none = unit == 0  # a power of 0 may have no slope that is a number
    return Sign(unit) * Where(none, 0.0, PowNumber(Where(none, 1.0, Abs(unit)), exponent=p - 1))


class Prod(Op):
    """{out} = Π {x} over {axes}"""

    def definition(x, *, axes, keepdim=False):
        rest = tuple(i for i in range(len(x.shape)) if i not in axes)
        lead = tuple(x.shape[i] for i in rest)
        factors = Reshape(Permute(x, axes=rest + axes), shape=(*lead, _count(x.shape, axes)))
        last, n = len(lead), factors.shape[-1]
        if not n:  # of nothing it is 1
            factors, n = Sum(factors, axes=(last,), keepdim=True) + 1.0, 1
        while n > 1:  # halves times halves, so that a factor of 0 is no division by 0
            half = n // 2
            pairs = Narrow(factors, axis=last, start=0, stop=half) * Narrow(
                factors, axis=last, start=half, stop=2 * half
            )
            odd = Narrow(factors, axis=last, start=2 * half, stop=n)
            factors, n = (Cat(pairs, odd, axis=last), half + 1) if n % 2 else (pairs, half)
        shape = tuple(1 if i in axes else k for i, k in enumerate(x.shape)) if keepdim else lead
        return Reshape(factors, shape=shape)

    def forward(x, *, axes, keepdim=False):
        with quiet(x):
            return narrow(wide(x).prod(axis=axes, keepdims=keepdim, dtype=sum_dtype(wide(x))), sum_dtype(x))

    def dx(g, x, axes, keepdim, x_shape):
        """d{x} = d{out} ⊙ the product of all others"""
        xp = module_of(x)
        rest = tuple(i for i in range(x.ndim) if i not in axes)
        order = rest + axes
        factors = wide(x).transpose(order).reshape((*(x_shape[i] for i in rest), _count(x_shape, axes)))
        before, after = xp.ones_like(factors), xp.ones_like(factors)
        before[..., 1:] = factors[..., :-1].cumprod(axis=-1)
        after[..., :-1] = factors[..., :0:-1].cumprod(axis=-1)[..., ::-1]
        others = (before * after).reshape([x_shape[i] for i in order])
        back = sorted(range(x.ndim), key=lambda i: order[i])
        return kept(g, axes, keepdim, x_shape) * others.transpose(back)
