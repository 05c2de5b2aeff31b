"""Arithmetic, element by element; operands broadcast."""

from tinygrad_edu.arrays.library import floating, module_of, quiet
from tinygrad_edu.arrays.sums import narrow, wide
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.choice import Where, ZerosLike


class Add(Op):
    """{out} = {x} + {y}"""

    promotes = True
    rounds_last = True

    def forward(x, y):
        return x + y

    def dx(g):
        """d{x} = d{out}"""
        return g

    def dy(g):
        """d{y} = d{out}"""
        return g


class Sub(Op):
    """{out} = {x} − {y}"""

    promotes = True
    rounds_last = True

    def forward(x, y):
        return x - y

    def dx(g):
        """d{x} = d{out}"""
        return g

    def dy(g):
        """d{y} = −d{out}"""
        return -g


class Mul(Op):
    """{out} = {x} ⊙ {y}"""

    promotes = True
    rounds_last = True

    def forward(x, y):
        return x * y

    def dx(g, y):
        """d{x} = d{out} ⊙ {y}"""
        return g * y

    def dy(g, x):
        """d{y} = d{out} ⊙ {x}"""
        return g * x


class Div(Op):
    """{out} = {x} / {y}"""

    promotes = True
    rounds_last = True
    numbers = "exact"

    def forward(x, y):
        with quiet(x):
            return floating(x) / floating(y)

    def dx(g, y):
        """d{x} = d{out} / {y}"""
        return g / y

    def dy(g, y, out):
        """d{y} = −d{out} ⊙ {out} / {y}"""
        return -(g * out) / y


class Neg(Op):
    """{out} = −{x}"""

    def forward(x):
        return -x

    def dx(g):
        """d{x} = −d{out}"""
        return -g


class Pow(Op):
    """{out} = {x}^{y}; at {x} = 0 the gradient of a {y} from 0 on is 0"""

    promotes = True
    rounds_last = True

    def forward(x, y):
        with quiet(x):
            return _integer_power(x, y) if hasattr(x, "dtype") and x.dtype.kind != "f" else x**y

    def dx(g, x, y):
        """d{x} = d{out} ⊙ {y} ⊙ {x}^({y} − 1)"""
        # Where x³ is 0 in the dtype, 1/x² is too large for it, and so may x^(y − 1) be, while y times it is a number.
        small = (x > 0) & (x * x * x == 0) & (y != 0) & (abs(y) < 0.5)
        near, little = Where(small, x, 1.0), Where(small, y, 1.0)
        slope = Where(small, little * Pow(near, little) / near, y * PowLess(Where(small, 1.0, x), y, less=1))
        return Where(y == 0, 0.0, g * slope)  # also where x is 0 or NaN, and g infinite

    def dy(g, x, y, out):
        """d{y} = d{out} ⊙ {out} ⊙ ln {x}"""
        if isinstance(x, int | float) and x:  # has no dtype of its own, and so all its digits
            return g * (out * Log(float(x)))
        return g * (out * Log(Where((x == 0) & (y >= 0), 1.0, x)))


class PowLess(Op):
    """{out} = {x}^({y} − {less}) with all the digits of {y}, an array or a number; the slope of x^y needs it"""

    def forward(x, y, *, less):
        xp, rest = module_of(x), y - less
        # Where y is small, y − less is rounded, and a large ln x multiplies the error; x^y / x is exact there.
        exact = (x > 0) & (x < float("inf")) & (y < less / 2)
        if not hasattr(y, "dtype"):
            y, rest = (xp.asarray(each, dtype=x.dtype) for each in (y, rest))
        with quiet(x):
            power = x ** xp.where(exact, y, rest)
            divisor = xp.where(exact, x, xp.ones_like(x))
            for _ in range(less):
                power = power / divisor
        return power

    def dx(g, x, y, less):
        """d{x} = d{out} ⊙ ({y} − {less}) ⊙ {x}^({y} − {less} − 1)"""
        slope = g * (PowLess(x, y, less=less + 1) * (y - less))
        return slope if isinstance(y, int | float) else Where(y == less, 0.0, slope)

    def dy(g, x, y, out, less):
        """d{y} = d{out} ⊙ {out} ⊙ ln {x}"""
        return g * (out * Log(Where((x == 0) & (y >= less), 1.0, x)))


def _integer_power(x, y):
    """x^y of integers; below 0 cut to an integer, so that only 1 and −1 leave anything."""
    if x.dtype.kind != "i" or not (y < 0).any():
        return x**y
    xp = module_of(x)
    return xp.where(y < 0, xp.where(xp.abs(x) == 1, x ** (y & 1), 0), x ** xp.maximum(y, 0)).astype(x.dtype)


class PowNumber(Op):
    """{out} = {x}^{exponent}; the exponent is a number"""

    def forward(x, *, exponent):
        if exponent == 2:
            return x * x
        if exponent == 3:
            return x * x * x  # a hundred times faster than x**3
        with quiet(x):
            return x**exponent if exponent != -0.5 else 1.0 / module_of(x).sqrt(x)

    def dx(g, x, exponent):
        """d{x} = {exponent} · d{out} ⊙ {x}^({exponent} − 1)"""
        if exponent == 0:
            return ZerosLike(g)
        if exponent == 2:
            return g * x * 2.0
        if exponent < 0 and exponent % 1 == 0:  # x^(exponent − 1) can be too small where exponent times it is not
            return g * (PowNumber(x, exponent=exponent) * float(exponent) / x)
        rounded = exponent < 0.5 and exponent % 1 > 0
        slope = PowLess(x, exponent, less=1) if rounded else PowNumber(x, exponent=exponent - 1)
        return g * (slope * float(exponent))


class Exp(Op):
    """{out} = exp {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).exp(floating(x))

    def dx(g, out):
        """d{x} = d{out} ⊙ {out}"""
        return g * out


class Log(Op):
    """{out} = ln {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).log(floating(x))

    def dx(g, x):
        """d{x} = d{out} / {x}"""
        return g / x


class Logit(Op):
    """{out} = ln({x} / (1 − {x})), the inverse of the sigmoid"""

    def forward(x):
        with quiet(x):
            p = wide(floating(x))
            return narrow(module_of(x).log(p / (1.0 - p)), floating(x).dtype)

    def dx(g, x):
        """d{x} = d{out} / ({x} ⊙ (1 − {x})), NaN outside of 0 to 1"""
        return g / Where((x < 0) | (x > 1), float("nan"), x * (1.0 - x))


class Sqrt(Op):
    """{out} = √{x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).sqrt(floating(x))

    def dx(g, out):
        """d{x} = d{out} / (2 {out})"""
        return g / (out * 2.0)


class Abs(Op):
    """{out} = |{x}|; the gradient at 0 is 0"""

    def forward(x):
        return module_of(x).abs(x)

    def dx(g, x):
        """d{x} = d{out} ⊙ sign {x}"""
        return g * Sign(x)


class Sign(Op):
    """{out} = −1, 0 or 1"""

    def forward(x):
        return x.copy() if x.dtype.kind == "b" else (x > 0).astype(x.dtype) - (x < 0)  # of NaN it is 0

    def dx(g):
        """d{x} = 0"""
        return ZerosLike(g)


class Maximum(Op):
    """{out} = max({x}, {y}); equal values share the gradient in halves"""

    promotes = True

    def forward(x, y):
        return module_of(x).maximum(x, y)

    def dx(g, x, y):
        """d{x} = d{out} where {x} > {y}, half of it where equal"""
        return Where(x == y, g * 0.5, Where(x < y, 0.0, g))

    def dy(g, x, y):
        """d{y} = d{out} where {y} > {x}, half of it where equal"""
        return Where(x == y, g * 0.5, Where(y < x, 0.0, g))


class Xlogy(Op):
    """{out} = {x} ⊙ ln {y}; 0 where {x} is 0, unless {y} is NaN"""

    promotes = True
    numbers = "exact"

    def forward(x, y):
        xp, x = module_of(x), floating(x)
        y = floating(y) if hasattr(y, "dtype") else xp.asarray(y, dtype=x.dtype)
        with quiet(x):
            return xp.where((x == 0) & (y == y), 0, x * xp.log(y))

    def dx(g, x, y):
        """d{x} = d{out} ⊙ ln {y}, 0 where {x} = 0 and {y} ≤ 0"""
        none = (x == 0) & (y <= 0)
        return Where(none, 0.0, Xlogy(g, Where(none, 1.0, y)))  # a gradient of 0 stays 0

    def dy(g, x, y):
        """d{y} = d{out} ⊙ {x} / {y}"""
        return g * (x / y)


class Rsqrt(Op):
    """{out} = 1 / √{x}"""

    def forward(x):
        with quiet(x):
            return 1.0 / module_of(x).sqrt(floating(x))

    def dx(g, out):
        """d{x} = −½ d{out} ⊙ {out}³"""
        return g * (out * out * out * -0.5)


class Minimum(Op):
    """{out} = min({x}, {y}); equal values share the gradient in halves"""

    promotes = True

    def forward(x, y):
        return module_of(x).minimum(x, y)

    def dx(g, x, y):
        """d{x} = d{out} where {x} < {y}, half of it where equal"""
        return Where(x == y, g * 0.5, Where(x > y, 0.0, g))

    def dy(g, x, y):
        """d{y} = d{out} where {y} < {x}, half of it where equal"""
        return Where(x == y, g * 0.5, Where(y > x, 0.0, g))


class Clamp(Op):
    """{out} = {x}, but {low} below {low} and {high} above {high}; at a bound the gradient passes"""

    def forward(x, *, low=None, high=None):
        return module_of(x).clip(x, low, high)

    def dx(g, x, low, high):
        """d{x} = d{out} where {low} ≤ {x} ≤ {high}, else 0"""
        inside = (x == x) if low is None else (x >= low)
        return Where(inside if high is None else inside & (x <= high), g, 0.0)


class Floor(Op):
    """{out} = the largest integer not above {x}"""

    def forward(x):
        return module_of(x).floor(x)

    def dx(g):
        """d{x} = 0"""
        return ZerosLike(g)


class Trunc(Op):
    """{out} = {x} without its digits behind the point"""

    def forward(x):
        return module_of(x).trunc(x)

    def dx(g):
        """d{x} = 0"""
        return ZerosLike(g)


class Round(Op):
    """{out} = {x} rounded to {decimals} decimals, halves to even"""

    def forward(x, *, decimals=0):
        return narrow(module_of(x).round(wide(x), decimals), x.dtype)

    def dx(g):
        """d{x} = 0"""
        return ZerosLike(g)


class Remainder(Op):
    """{out} = {x} − {y} ⊙ ⌊{x} / {y}⌋, which has the sign of {y}"""

    promotes = True

    def forward(x, y):
        with quiet(x):
            return module_of(x).remainder(x, y)

    def dx(g):
        """d{x} = d{out}"""
        return g

    def dy(g, x, y):
        """d{y} = −d{out} ⊙ ⌊{x} / {y}⌋"""
        return -(g * FloorDivide(x, y))


class Fmod(Op):
    """{out} = {x} − {y} ⊙ trunc({x} / {y}), which has the sign of {x}"""

    promotes = True

    def forward(x, y):
        with quiet(x):
            return module_of(x).fmod(x, y)

    def dx(g):
        """d{x} = d{out}"""
        return g

    def dy(g, x, y):
        """d{y} = −d{out} ⊙ trunc({x} / {y})"""
        return -(g * TruncDivide(x, y))


class TruncDivide(Op):
    """{out} = trunc({x} / {y}), of the quotient before it is rounded"""

    promotes = True

    def forward(x, y):
        xp = module_of(x)
        with quiet(x):
            rest = xp.fmod(x, y)
            if x.dtype.kind != "f":
                return xp.floor_divide(x - rest, y)
            quotient = xp.round((x - rest) / y)  # x / y itself can be rounded up to an integer
            return xp.where(rest == rest, xp.copysign(quotient, x / y), xp.trunc(x / y))

    def dx(g):
        """d{x} = 0"""
        return ZerosLike(g)

    def dy(g):
        """d{y} = 0"""
        return ZerosLike(g)


class FloorDivide(Op):
    """{out} = ⌊{x} / {y}⌋"""

    promotes = True
    rounds_last = True

    def forward(x, y):
        with quiet(x):
            return module_of(x).floor_divide(x, y)

    def dx(g):
        """d{x} = 0"""
        return ZerosLike(g)

    def dy(g):
        """d{y} = 0"""
        return ZerosLike(g)
