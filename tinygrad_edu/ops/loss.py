"""Losses: cross-entropies of logits, row by row, and of yes and no by logits or probabilities; Huber's of errors."""

from tinygrad_edu import kernels
from tinygrad_edu.arrays.library import module_of, quiet, where
from tinygrad_edu.arrays.pieces import log1p
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.activation import LogSoftmax
from tinygrad_edu.ops.arithmetic import Abs, Log, Mul, Sign
from tinygrad_edu.ops.choice import Where
from tinygrad_edu.ops.curve import Log1p, Sigmoid, Softplus
from tinygrad_edu.ops.index import Gather
from tinygrad_edu.ops.reduction import Sum
from tinygrad_edu.ops.shape import Reshape


class CrossEntropy(Op):
    """{out} = −ln softmax({logits})[{target}] of every row

    Under {smoothing} s the target is spread, 1 − s on itself and s / V on every class; {weight} scales each class's
    part. Rows whose target is {ignore_index} give 0, and so does their gradient.
    """

    saves = ("saved",)

    def definition(logits, target, weight=None, *, ignore_index=-100, smoothing=0.0):
        counted = target != ignore_index
        safe = Where(counted, target, 0)
        log_probability = LogSoftmax(logits, axis=1)
        if weight is not None:
            log_probability = Mul(log_probability, weight)
        picked = Reshape(Gather(log_probability, Reshape(safe, shape=(-1, 1)), axis=1), shape=(logits.shape[0],))
        loss = -picked
        if smoothing:
            spread = Sum(log_probability, axes=(1,)) * (-1.0 / logits.shape[1])
            loss = Mul(loss, 1.0 - smoothing) + Mul(spread, smoothing)
        return Where(counted, loss, 0.0)

    def forward(logits, target, weight=None, *, ignore_index=-100, smoothing=0.0):
        return kernels.of(logits).cross_entropy(logits, target, ignore_index, smoothing, weight)

    def dlogits(g, logits, target, weight, saved, ignore_index, smoothing):
        """d{logits} = (softmax({logits}) − onehot({target})) ⊙ d{out}"""
        return kernels.of(g).cross_entropy_backward(g, logits, target, saved, ignore_index, smoothing, weight)


class Huber(Op):
    """{out} = {e}² / (2 {width}) where |{e}| < {bound}, else {slope} (|{e}| − {bound} / 2)

    Source: Huber, "Robust estimation of a location parameter", 1964.
    """

    def forward(e, *, bound, width, slope):
        xp = module_of(e)
        with quiet(e):
            size = xp.abs(e)
            return where(size >= bound, slope * (size - bound / 2), e / width * e / 2)

    def de(g, e, bound, width, slope):
        """d{e} = d{out} ⊙ {e} / {width} where |{e}| < {bound}, else {slope} d{out} ⊙ sign {e}"""
        return g * Where(Abs(e) >= bound, Sign(e) * slope, e / width)


class LogitCrossEntropy(Op):
    """{out} = −({p} {y} ln σ({x}) + (1 − {y}) ln σ(−{x})), σ the sigmoid"""

    promotes = True

    def forward(x, y, p):
        xp = module_of(x)
        with quiet(x):
            rest = log1p(xp.exp(-xp.abs(x)))  # −ln σ(x) is max(−x, 0) and this
            return p * y * (xp.maximum(-x, 0) + rest) + (1.0 - y) * (xp.maximum(x, 0) + rest)

    def dx(g, x, y, p):
        """d{x} = d{out} ⊙ ((1 − {y}) σ({x}) − {p} {y} σ(−{x}))"""
        return g * ((1.0 - y) * Sigmoid(x) - p * y * Sigmoid(-x))

    def dy(g, x, p):
        """d{y} = d{out} ⊙ ((1 − {p}) ln σ(−{x}) − {p} {x})"""
        right = x > 0  # of ln σ(−|x|): that of the other side is nearly −|x|, which would have to be taken away again
        return g * ((p - 1.0) * Softplus(Where(right, -x, x)) - Where(right, x, p * x))

    def dp(g, x, y):
        """d{p} = −d{out} ⊙ {y} ln σ({x})"""
        return g * (y * Softplus(-x))


class BinaryCrossEntropy(Op):
    """{out} = −({y} ln {x} + (1 − {y}) ln(1 − {x})), logarithms not below −100"""

    def forward(x, y):
        xp = module_of(x)
        with quiet(x):
            return -(y * xp.maximum(xp.log(x), -100.0) + (1.0 - y) * xp.maximum(xp.log1p(-x), -100.0))

    def dx(g, x, y):
        """d{x} = d{out} ⊙ ((1 − {y}) / (1 − {x}) − {y} / {x}), a divisor of 0 taken as 10⁻¹²"""
        rest = 1.0 - x
        return g * ((1.0 - y) / Where(rest == 0, 1e-12, rest) - y / Where(x == 0, 1e-12, x))

    def dy(g, x):
        """d{y} = d{out} ⊙ (ln(1 − {x}) − ln {x})"""
        return g * (Log1p(-x) - Log(x))
