"""Ops that treat every element by itself, operands broadcast."""

from tinygrad_edu import kernels
from tinygrad_edu.backend import floating, module_of, quiet
from tinygrad_edu.tape import Op


class Add(Op):
    """{out} = {x} + {y}"""

    promotes = True

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

    def forward(x, y):
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
    """{out} = {x}^{y}; at {x} = 0 the gradient of {y} counts as 0"""

    promotes = True

    def forward(x, y):
        return x**y

    def dx(g, x, y):
        """d{x} = d{out} ⊙ {y} ⊙ {x}^({y} − 1)"""
        return g * (y * Pow(x, Where(y == 0, 1.0, y - 1.0)))

    def dy(g, x, out):
        """d{y} = d{out} ⊙ {out} ⊙ ln {x}"""
        return g * (out * Log(Where(x == 0, 1.0, x)))


class PowNumber(Op):
    """{out} = {x}^{exponent}, a number"""

    def forward(x, *, exponent):
        if exponent == 2:
            return x * x
        if exponent == 3:
            return x * x * x  # a hundred times faster than x**3
        return x**exponent

    def dx(g, x, exponent):
        """d{x} = {exponent} · d{out} ⊙ {x}^({exponent} − 1)"""
        if exponent == 0:
            return g * 0.0
        return g * x * 2.0 if exponent == 2 else g * (PowNumber(x, exponent=exponent - 1) * float(exponent))


class Exp(Op):
    """{out} = exp {x}"""

    def forward(x):
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


class Sqrt(Op):
    """{out} = √{x}"""

    def forward(x):
        return module_of(x).sqrt(floating(x))

    def dx(g, out):
        """d{x} = d{out} / (2 {out})"""
        return g / (out * 2.0)


class Tanh(Op):
    """{out} = tanh {x}"""

    def forward(x):
        return module_of(x).tanh(floating(x))

    def dx(g, out):
        """d{x} = d{out} ⊙ (1 − {out}²)"""
        return g * (1.0 - out * out)


class Sigmoid(Op):
    """{out} = 1 / (1 + exp(−{x})), by way of tanh, which cannot overflow"""

    def forward(x):
        return module_of(x).tanh(floating(x) * 0.5) * 0.5 + 0.5

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
        return module_of(x).sign(x)


class Maximum(Op):
    """{out} = max({x}, {y}); equal values share the gradient in halves"""

    promotes = True

    def forward(x, y):
        return module_of(x).maximum(x, y)

    def dx(g, x, y):
        """d{x} = d{out} where {x} > {y}, half of it where equal"""
        return Where(x == y, g * 0.5, Where(x > y, g, 0.0))

    def dy(g, x, y):
        """d{y} = d{out} where {y} > {x}, half of it where equal"""
        return Where(x == y, g * 0.5, Where(y > x, g, 0.0))


class Where(Op):
    """{out} = {x} where {condition}, else {y}"""

    promotes = True
    unpromoted = 1

    def forward(condition, x, y):
        return module_of(condition).where(condition, x, y)

    def dx(g, condition):
        """d{x} = d{out} where {condition}, else 0"""
        return Where(condition, g, 0.0)

    def dy(g, condition):
        """d{y} = 0 where {condition}, else d{out}"""
        return Where(condition, 0.0, g)


class MaskedFill(Op):
    """{out} = {value} where {mask}, else {x}"""

    def forward(x, mask, *, value):
        xp = module_of(x)
        return xp.where(mask, xp.asarray(value, dtype=x.dtype), x)

    def dx(g, mask):
        """d{x} = 0 where {mask}, else d{out}"""
        return MaskedFill(g, mask, value=0.0)


class Cast(Op):
    """{out} = {x} as {dtype}"""

    def forward(x, *, dtype):
        return x.astype(dtype)

    def dx(g, x_dtype):
        """d{x} = d{out} as the dtype of {x}"""
        return Cast(g, dtype=x_dtype)


class Equal(Op):
    """{out} = whether {x} = {y}"""

    promotes = True

    def forward(x, y):
        return x == y


class NotEqual(Op):
    """{out} = whether {x} ≠ {y}"""

    promotes = True

    def forward(x, y):
        return x != y


class Less(Op):
    """{out} = whether {x} < {y}"""

    promotes = True

    def forward(x, y):
        return x < y


class LessEqual(Op):
    """{out} = whether {x} ≤ {y}"""

    promotes = True

    def forward(x, y):
        return x <= y


class LogicalNot(Op):
    """{out} = not {x}"""

    def forward(x):
        return module_of(x).logical_not(x)


class LogicalAnd(Op):
    """{out} = {x} and {y}"""

    def forward(x, y):
        return module_of(x).logical_and(x, y)


class LogicalOr(Op):
    """{out} = {x} or {y}"""

    def forward(x, y):
        return module_of(x).logical_or(x, y)
