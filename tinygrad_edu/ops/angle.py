"""Angles and their hyperbolic kin: inverse functions of sine, cosine, tangent, and the length of (x, y)."""

from tinygrad_edu.backend import floating, module_of, quiet
from tinygrad_edu.ops.arithmetic import Rsqrt
from tinygrad_edu.ops.choice import Where
from tinygrad_edu.tape import Op


class Asin(Op):
    """{out} = the angle from −π/2 to π/2 with sin {out} = {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).arcsin(floating(x))

    def dx(g, x):
        """d{x} = d{out} / √(1 − {x}²)"""
        return g * Rsqrt(1.0 - x * x)


class Acos(Op):
    """{out} = the angle from 0 to π with cos {out} = {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).arccos(floating(x))

    def dx(g, x):
        """d{x} = −d{out} / √(1 − {x}²)"""
        return -(g * Rsqrt(1.0 - x * x))


class Atan(Op):
    """{out} = the angle from −π/2 to π/2 with tan {out} = {x}"""

    def forward(x):
        return module_of(x).arctan(floating(x))

    def dx(g, x):
        """d{x} = d{out} / (1 + {x}²)"""
        return g / (x * x + 1.0)


class Atan2(Op):
    """{out} = the angle of the point ({y}, {x}), from −π to π"""

    promotes = True

    def forward(x, y):
        return module_of(x).arctan2(floating(x), floating(y))

    def dx(g, x, y):
        """d{x} = d{out} ⊙ {y} / ({x}² + {y}²)"""
        return g * (y / (x * x + y * y))

    def dy(g, x, y):
        """d{y} = −d{out} ⊙ {x} / ({x}² + {y}²)"""
        return -(g * (x / (x * x + y * y)))


class Hypot(Op):
    """{out} = √({x}² + {y}²), without overflow; the gradient at (0, 0) is 0"""

    promotes = True

    def forward(x, y):
        return module_of(x).hypot(floating(x), floating(y))

    def dx(g, x, out):
        """d{x} = d{out} ⊙ {x} / {out}"""
        return g * (x / Where(out == 0, 1.0, out))

    def dy(g, y, out):
        """d{y} = d{out} ⊙ {y} / {out}"""
        return g * (y / Where(out == 0, 1.0, out))


class Asinh(Op):
    """{out} = ln({x} + √({x}² + 1)), the inverse of sinh"""

    def forward(x):
        return module_of(x).arcsinh(floating(x))

    def dx(g, x):
        """d{x} = d{out} / √({x}² + 1)"""
        return g * Rsqrt(x * x + 1.0)


class Acosh(Op):
    """{out} = ln({x} + √({x}² − 1)), the inverse of cosh from 1 on"""

    def forward(x):
        with quiet(x):
            return module_of(x).arccosh(floating(x))

    def dx(g, x):
        """d{x} = d{out} / √({x}² − 1)"""
        return g * Rsqrt(x * x - 1.0)


class Atanh(Op):
    """{out} = ½ ln((1 + {x}) / (1 − {x})), the inverse of tanh"""

    def forward(x):
        with quiet(x):
            return module_of(x).arctanh(floating(x))

    def dx(g, x):
        """d{x} = d{out} / (1 − {x}²)"""
        return g / (1.0 - x * x)
