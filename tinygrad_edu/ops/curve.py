"""Functions of one number, element by element: exponential, trigonometric and the bends of neural networks."""

from tinygrad_edu import kernels
from tinygrad_edu.backend import floating, module_of, quiet
from tinygrad_edu.ops.arithmetic import Exp
from tinygrad_edu.ops.choice import Where
from tinygrad_edu.tape import Op


class Tanh(Op):
    """{out} = tanh {x}"""

    def forward(x):
        return module_of(x).tanh(floating(x))

    def dx(g, out):
        """d{x} = d{out} ⊙ (1 − {out}²)"""
        return g * (1.0 - out * out)


class Sigmoid(Op):
    """{out} = 1 / (1 + exp(−{x}))"""

    def forward(x):
        with quiet(x):  # far to the left exp overflows to ∞ and 1 / ∞ is right
            return 1.0 / (1.0 + module_of(x).exp(-floating(x)))

    def dx(g, out):
        """d{x} = d{out} ⊙ {out} ⊙ (1 − {out})"""
        return g * (out * (1.0 - out))


class Erf(Op):
    """{out} = erf {x} = 2/√π ∫₀ˣ exp(−t²) dt"""

    def forward(x):
        return kernels.of(x).erf(floating(x))

    def dx(g, x):
        """d{x} = d{out} ⊙ 2/√π · exp(−{x}²)"""
        return g * (Exp(-(x * x)) * 1.1283791670955126)


class Relu(Op):
    """{out} = max({x}, 0); the gradient at 0 is 0"""

    def forward(x):
        return module_of(x).maximum(x, 0)

    def dx(g, out):
        """d{x} = d{out} where {out} > 0, else 0"""
        return Where(out > 0, g, 0.0)


class Silu(Op):
    """{out} = {x} ⊙ σ({x}), σ the sigmoid"""

    def forward(x):
        with quiet(x):
            return x * Sigmoid(x)

    def dx(g, x, out):
        """d{x} = d{out} ⊙ (σ({x}) + {out} ⊙ (1 − σ({x})))"""
        s = Sigmoid(x)
        return g * (s + out * (1.0 - s))


class Softplus(Op):
    """{out} = ln(1 + exp({beta} {x})) / {beta}, which is nearly {x} far to the right"""

    def forward(x, *, beta=1.0):
        xp, x = module_of(x), floating(x)
        scaled = x * beta
        return (xp.maximum(scaled, 0) + xp.log1p(xp.exp(-xp.abs(scaled)))) * (1.0 / beta)

    def dx(g, x, beta):
        """d{x} = d{out} ⊙ σ({beta} {x})"""
        return g * Sigmoid(x * beta)


class LeakyRelu(Op):
    """{out} = {x} where {x} > 0, else {slope} {x}"""

    def forward(x, *, slope):
        return module_of(x).where(x > 0, x, x * slope)

    def dx(g, x, slope):
        """d{x} = d{out} where {x} > 0, else {slope} d{out}"""
        return Where(x > 0, g, g * slope)


class Elu(Op):
    """{out} = {x} where {x} > 0, else {alpha} (exp {x} − 1)"""

    def forward(x, *, alpha):
        xp = module_of(x)
        return xp.where(x > 0, x, alpha * xp.expm1(xp.minimum(x, 0)))

    def dx(g, x, out, alpha):
        """d{x} = d{out} where {x} > 0, else d{out} ⊙ ({out} + {alpha})"""
        return Where(x > 0, g, g * (out + alpha))


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

    def dx(g, out):
        """d{x} = d{out} ⊙ ({out} + 1)"""
        return g * (out + 1.0)


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
