"""Functions of one number, element by element: exponential, trigonometric and the bends of neural networks.

A slope that becomes small, as that of tanh x far from 0, is computed from x and not as 1 minus a result that has
rounded to 1; and it is an op whose own rule does not subtract either, so that second derivatives keep their digits.
"""

from tinygrad_edu import kernels
from tinygrad_edu.arrays.library import floating, module_of, quiet, where
from tinygrad_edu.arrays.pieces import by_pieces, log1p, logistic_slope, sech_squared_of_exp
from tinygrad_edu.arrays.sums import narrow, wide
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.arithmetic import Abs, Clamp, Exp
from tinygrad_edu.ops.choice import Where, whole


class Tanh(Op):
    """{out} = tanh {x}"""

    saves = ("slope",)

    def forward(x, *, recording=False):
        def formula(z):
            y = module_of(z).tanh(z)
            return (y, sech_squared_of_exp(module_of(z).exp(z))) if recording else (y,)

        return by_pieces(formula, x)

    def slope(x):
        return SechSquared(x)

    def dx(g, slope):
        """d{x} = d{out} ⊙ sech² {x}, which is 1 − {out}²"""
        return g * slope


class SechSquared(Op):
    """{out} = 1 / cosh² {x}, the slope of tanh"""

    def forward(x):
        return by_pieces(lambda z: (sech_squared_of_exp(module_of(z).exp(z)),), x)[0]

    def dx(g, x, out):
        """d{x} = −2 d{out} ⊙ {out} ⊙ tanh {x}"""
        return g * (out * Tanh(x) * -2.0)


class Sigmoid(Op):
    """{out} = 1 / (1 + exp(−{x}))"""

    saves = ("slope",)

    def forward(x, *, recording=False):
        def formula(z):
            xp = module_of(z)
            e = xp.exp(-z)  # far to the left ∞, and 1 / ∞ is right
            y = xp.reciprocal(e + 1.0)
            if not recording:
                return (y,)
            return y, logistic_slope(e, y)

        return by_pieces(formula, x)

    def slope(x):
        return SechSquared(x * 0.5) * 0.25

    def dx(g, slope):
        """d{x} = d{out} ⊙ ¼ sech²({x} / 2), which is {out} ⊙ (1 − {out})"""
        return g * slope


class Bell(Op):
    """{out} = exp(−{scale} {x}²)"""

    def forward(x, *, scale):
        return kernels.of(x).bell(floating(x), scale)

    def dx(g, x, out, scale):
        """d{x} = −2 {scale} d{out} ⊙ {x} ⊙ {out}"""
        return g * (x * out * (-2.0 * scale))


class Erf(Op):
    """{out} = erf {x} = 2/√π ∫₀ˣ exp(−t²) dt"""

    def forward(x):
        return kernels.of(x).erf(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ 2/√π · exp(−{x}²)"""
        return g * (Bell(x, scale=1.0) * 1.1283791670955126)


class Erfc(Op):
    """{out} = 1 − erf {x}, with all its digits far to the right"""

    def forward(x):
        return kernels.of(x).erfc(floating(x))

    def dx(g, x):
        """d{x} = −d{out} ⊙ 2/√π · exp(−{x}²)"""
        return g * (Bell(x, scale=1.0) * -1.1283791670955126)


class NormalCdf(Op):
    """{out} = Φ({x}), the normal distribution function (1 + erf({x}/√2)) / 2"""

    def forward(x):
        return kernels.of(x).normal_cdf(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ exp(−{x}²/2) / √(2π)"""
        return g * (Bell(x, scale=0.5) * 0.3989422804014327)


class TanhCdf(Op):
    """{out} = (1 + tanh(√(2/π) ({x} + 0.044715 {x}³))) / 2, close to Φ({x})

    Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.
    """

    def forward(x):
        return kernels.of(x).tanh_cdf(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ {out} ⊙ (1 − {out}) ⊙ 2√(2/π) (1 + 0.134145 {x}²)"""
        z = Clamp(x, low=-30.0, high=30.0)  # beyond, it is 0 or 1, but z² could overflow
        return g * (TanhCdf(z) * TanhCdf(-z) * (z * z * 0.21406444881780075 + 1.5957691216057308))


class Relu(Op):
    """{out} = max({x}, 0); the gradient at 0 is 0"""

    def forward(x):
        return module_of(x).maximum(x, 0)

    def dx(g, out):
        """d{x} = d{out} where {out} > 0, else 0"""
        return Where(out <= 0, 0.0, g)  # which passes at NaN


class Silu(Op):
    """{out} = {x} ⊙ σ({x}), σ the sigmoid"""

    saves = ("slope",)

    def definition(x):
        return x * Sigmoid(x)

    def forward(x, *, recording=False):
        return kernels.of(x).silu(floating(x), recording)

    def dx(g, slope):
        """d{x} = d{out} ⊙ (σ({x}) + {x} ⊙ σ({x}) ⊙ σ(−{x}))"""
        return g * slope


class Softplus(Op):
    """{out} = ln(1 + exp({beta} {x})) / {beta}, which is nearly {x} far to the right"""

    def forward(x, *, beta=1.0):
        def formula(z):
            xp = module_of(z)
            y = log1p(xp.exp(xp.abs(z) * -beta))
            y *= 1.0 / beta
            y += xp.maximum(z, 0)
            return (y,)

        return by_pieces(formula, x)[0]

    def dx(g, x, beta):
        """d{x} = d{out} ⊙ σ({beta} {x})"""
        return g * Sigmoid(whole(x) * beta)


class TanhSoftplus(Op):
    """{out} = tanh(ln(1 + exp {x})), the logarithm not rounded"""

    def forward(x):
        def formula(z):
            upper, lower, _, _ = _softplus_parts(z)
            return (upper / lower,)

        return by_pieces(formula, x)[0]

    def dx(g, x):
        """d{x} = d{out} ⊙ (1 − {out}²) ⊙ σ({x})"""
        return g * TanhSoftplusSlope(x)


class TanhSoftplusSlope(Op):
    """{out} = (1 − tanh²(ln(1 + exp {x}))) σ({x}), the slope of tanh_softplus"""

    def forward(x):
        def formula(z):
            _, lower, below, above = _softplus_parts(z)
            below = 4.0 * below * (below + above)
            above /= lower
            return (below * above * above,)

        return by_pieces(formula, x)[0]

    def dx(g, x, out):
        """d{x} = d{out} ⊙ {out} ⊙ (σ(−{x}) − 2 σ({x}) ⊙ tanh(ln(1 + exp {x})))"""
        return g * (out * (Sigmoid(-x) - Sigmoid(x) * TanhSoftplus(x) * 2.0))


def _softplus_parts(x):
    """n and n + 2, with n = (1 + exp x)² − 1, both times c², and b and c, the exponentials of min(x, 0) and −max(x, 0).

    As exp x = b / c, nothing overflows; n / (n + 2) is the tanh.
    """
    xp = module_of(x)
    below, above = xp.exp(xp.minimum(x, 0)), xp.exp(-xp.maximum(x, 0))
    twice = 2.0 * above
    upper = (twice + below) * below
    return upper, upper + twice * above, below, above


class LogAddExp(Op):
    """{out} = ln(exp {x} + exp {y}), without overflow"""

    promotes = True

    def forward(x, y):
        xp = module_of(x)
        x, y = floating(x), floating(y)
        return xp.maximum(x, y) + log1p(xp.exp(-xp.abs(_apart(x, y))))

    def dx(g, x, y):
        """d{x} = d{out} ⊙ σ({x} − {y})"""
        return g * Sigmoid(_apart(x, y))

    def dy(g, x, y):
        """d{y} = d{out} ⊙ σ({y} − {x})"""
        return g * Sigmoid(_apart(y, x))


def _apart(x, y):
    """x − y, and 0 where both are the same infinity, whose difference is no number."""
    same = (x == y) & (abs(x) == float("inf"))
    return Where(same, 0.0, x) - Where(same, 0.0, y)


class LeakyRelu(Op):
    """{out} = {x} where {x} > 0, else {slope} {x}"""

    def forward(x, *, slope):
        with quiet(x):
            return where(x > 0, x, narrow(wide(x) * slope, x.dtype))

    def dx(g, x, slope):
        """d{x} = d{out} where {x} > 0, else {slope} d{out}"""
        return Where(x > 0, g, whole(g) * slope)


class Elu(Op):
    """{out} = {x} where {x} > 0, else {alpha} (exp({x} / {width}) − 1)"""

    saves = ("slope",)

    def forward(x, *, alpha, width=1.0, recording=False):
        def formula(z):
            xp = module_of(z)
            left = xp.minimum(z, 0)
            left /= width
            if width > 0:  # exp l − 1 is 2t / (1 − t) with t = tanh(l / 2); nothing cancels for l ≤ 0
                y = xp.tanh(left * 0.5)
                y /= 1.0 - y
                y *= 2.0
            else:
                y = xp.expm1(left)
            y *= alpha
            y = where(z < 0, y, z)
            if not recording:
                return (y,)
            xp.exp(left, out=left)
            left *= alpha / width
            return y, where(z <= 0, left, 1.0)  # which passes at NaN

        return by_pieces(formula, x)

    def slope(x, alpha, width):
        left = whole(Where(x < 0, x, 0.0))  # at 0 the second derivative is 0, as in PyTorch
        return Where(x <= 0, Exp(left / width) * (alpha / width), 1.0)

    def dx(g, slope):
        """d{x} = d{out} where {x} > 0, else {alpha} / {width} d{out} ⊙ exp({x} / {width})"""
        return g * slope


class Softsign(Op):
    """{out} = {x} / (1 + |{x}|)"""

    def forward(x):
        with quiet(x):
            return x / (1.0 + module_of(x).abs(x))

    def dx(g, x):
        """d{x} = d{out} / (1 + |{x}|)²"""
        r = 1.0 / (Abs(x) + 1.0)
        return g * (r * r)


class Tanhshrink(Op):
    """{out} = {x} − tanh {x}, with all its digits near 0"""

    def forward(x):
        xp, x = module_of(x), floating(x)
        near = xp.minimum(xp.abs(x), 1.0)
        square = near * near
        t = 0.0
        for odd in range(19, 1, -2):  # Lambert's continued fraction tanh x = x / (1 + x²/(3 + x²/(5 + ...)))
            t = square / (odd + t)
        return xp.where(xp.abs(x) < 1, x * (t / (1.0 + t)), x - xp.tanh(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ tanh² {x}"""
        t = Tanh(x)
        return g * (t * t)


class Sin(Op):
    """{out} = sin {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).sin(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ cos {x}"""
        return g * Cos(x)


class Cos(Op):
    """{out} = cos {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).cos(floating(x))

    def dx(g, x):
        """d{x} = −d{out} ⊙ sin {x}"""
        return -(g * Sin(x))


class Tan(Op):
    """{out} = tan {x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).tan(floating(x))

    def dx(g, out):
        """d{x} = d{out} ⊙ (1 + {out}²)"""
        return g * (out * out + 1.0)


class Sinh(Op):
    """{out} = (exp {x} − exp(−{x})) / 2"""

    def forward(x):
        with quiet(x):
            return module_of(x).sinh(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ cosh {x}"""
        return g * Cosh(x)


class Cosh(Op):
    """{out} = (exp {x} + exp(−{x})) / 2"""

    def forward(x):
        with quiet(x):
            return module_of(x).cosh(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ sinh {x}"""
        return g * Sinh(x)


class Log1p(Op):
    """{out} = ln(1 + {x}), exact near 0"""

    def forward(x):
        with quiet(x):
            return module_of(x).log1p(floating(x))

    def dx(g, x):
        """d{x} = d{out} / (1 + {x})"""
        return g / (x + 1.0)


class Expm1(Op):
    """{out} = exp {x} − 1, exact near 0"""

    def forward(x):
        with quiet(x):
            return module_of(x).expm1(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ exp {x}"""
        return g * Exp(x)


class Exp2(Op):
    """{out} = 2^{x}"""

    def forward(x):
        with quiet(x):
            return module_of(x).exp2(floating(x))

    def dx(g, out):
        """d{x} = d{out} ⊙ {out} · ln 2"""
        return g * (out * 0.6931471805599453)


class Log2(Op):
    """{out} = log₂ {x}, exact at the powers of 2"""

    def forward(x):
        with quiet(x):
            return module_of(x).log2(floating(x))

    def dx(g, x):
        """d{x} = d{out} / ({x} ln 2)"""
        return g / (x * 0.6931471805599453)


class Log10(Op):
    """{out} = log₁₀ {x}, exact at the powers of 10"""

    def forward(x):
        with quiet(x):
            return module_of(x).log10(floating(x))

    def dx(g, x):
        """d{x} = d{out} / ({x} ln 10)"""
        return g / (x * 2.302585092994046)
