"""Angles and their hyperbolic kin: inverse functions of sine, cosine, tangent, and the length of (x, y)."""

from tinygrad_edu.arrays.library import floating, module_of, quiet
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.arithmetic import Abs, Rsqrt
from tinygrad_edu.ops.choice import Where


class OneMinusSquare(Op):
    """{out} = 1 − {x}², with all its digits near ±1"""

    def forward(x):
        with quiet(x):
            return (1.0 - x) * (1.0 + x)

    def dx(g, x):
        """d{x} = −2 d{out} ⊙ {x}"""
        return g * (x * -2.0)


class Asin(Op):
    """{out} = the angle from −π/2 to π/2 with sin {out} = {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).arcsin(floating(x))

    def dx(g, x):
        """d{x} = d{out} / √(1 − {x}²)"""
        return g * Rsqrt(OneMinusSquare(x))


class Acos(Op):
    """{out} = the angle from 0 to π with cos {out} = {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).arccos(floating(x))

    def dx(g, x):
        """d{x} = −d{out} / √(1 − {x}²)"""
        return -(g * Rsqrt(OneMinusSquare(x)))


class Atan(Op):
    """{out} = the angle from −π/2 to π/2 with tan {out} = {x}"""

    def forward(x):
        return module_of(x).arctan(floating(x))

    def dx(g, x):
        """d{x} = d{out} / (1 + {x}²)"""
        r = 1.0 / Hypot(x, 1.0)  # x² would overflow
        return g * (r * r)


class Atan2(Op):
    """{out} = the angle of the point ({y}, {x}), from −π to π; the gradient at (0, 0) is 0"""

    promotes = True
    numbers = "exact"

    def forward(x, y):
        return module_of(x).arctan2(floating(x), floating(y))

    def dx(g, x, y):
        """d{x} = d{out} ⊙ {y} / ({x}² + {y}²)"""
        return g * Inversion(y, x)

    def dy(g, x, y):
        """d{y} = −d{out} ⊙ {x} / ({x}² + {y}²)"""
        return -(g * Inversion(x, y))


class Hypot(Op):
    """{out} = √({x}² + {y}²), without overflow; the gradient at (0, 0) is 0"""

    promotes = True
    numbers = "exact"

    def forward(x, y):
        return module_of(x).hypot(floating(x), floating(y))

    def dx(g, x, y):
        """d{x} = d{out} ⊙ {x} / {out}"""
        return g * Direction(x, y)

    def dy(g, x, y):
        """d{y} = d{out} ⊙ {y} / {out}"""
        return g * Direction(y, x)


class Direction(Op):
    """{out} = {x} / √({x}² + {y}²), the cosine of the angle between ({x}, {y}) and the first axis; 0 at (0, 0)"""

    promotes = True

    def forward(x, y):
        return x / _length(x, y)

    def dx(g, x, y):
        """d{x} = d{out} ⊙ {y}² / √({x}² + {y}²)³"""
        s = Direction(y, x)
        return g * _near(x, y, s * (s / _length(x, y)))

    def dy(g, x, y, out):
        """d{y} = −d{out} ⊙ {x} ⊙ {y} / √({x}² + {y}²)³"""
        return -(g * _near(x, y, out * (Direction(y, x) / _length(x, y))))


class Inversion(Op):
    """{out} = {x} / ({x}² + {y}²), a coordinate of the point ({x}, {y}) mirrored in the unit circle; 0 at (0, 0)"""

    promotes = True

    def forward(x, y):
        r = _length(x, y)
        return x / r / r

    def dx(g, x, y):
        """d{x} = d{out} ⊙ ({y}² − {x}²) / ({x}² + {y}²)²"""
        r = _length(x, y)
        return g * _near(x, y, (y - x) / r * ((y + x) / r) / r / r)

    def dy(g, x, y):
        """d{y} = −2 d{out} ⊙ {x} ⊙ {y} / ({x}² + {y}²)²"""
        r = _length(x, y)
        return g * _near(x, y, x / r * (y / r) / r / r * -2.0)


def _length(x, y):
    """√(x² + y²), and 1 where that is 0, to divide by."""
    r = Hypot(x, y)
    return Where(r == 0, 1.0, r)


def _near(x, y, slope):
    """The slope, and 0 where x or y is infinite, whose quotients are no numbers."""
    return Where(Hypot(x, y) == float("inf"), 0.0, slope)


class Asinh(Op):
    """{out} = ln({x} + √({x}² + 1)), the inverse of sinh"""

    def forward(x):
        return module_of(x).arcsinh(floating(x))

    def dx(g, x):
        """d{x} = d{out} / √({x}² + 1)"""
        return g / Hypot(x, 1.0)  # x² would overflow


class Acosh(Op):
    """{out} = ln({x} + √({x}² − 1)), the inverse of cosh from 1 on"""

    def forward(x):
        with quiet(x):
            return module_of(x).arccosh(floating(x))

    def dx(g, x):
        """d{x} = d{out} / √({x}² − 1)"""
        size = Abs(x)  # as in PyTorch there is a number below −1, too, where the value is none
        return g * (Rsqrt(size - 1.0) * Rsqrt(size + 1.0))


class Atanh(Op):
    """{out} = ½ ln((1 + {x}) / (1 − {x})), the inverse of tanh"""

    def forward(x):
        with quiet(x):
            return module_of(x).arctanh(floating(x))

    def dx(g, x):
        """d{x} = d{out} / (1 − {x}²)"""
        return g / OneMinusSquare(x)
