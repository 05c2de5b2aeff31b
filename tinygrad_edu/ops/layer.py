"""The fused bodies of layers: linear, embedding, layer_norm, dropout."""

from tinygrad_edu import kernels
from tinygrad_edu.engine.tape import Op
from tinygrad_edu.ops.arithmetic import Add, Mul, Sqrt, Sub
from tinygrad_edu.ops.choice import Where
from tinygrad_edu.ops.index import GetItem
from tinygrad_edu.ops.matrix import Matmul
from tinygrad_edu.ops.reduction import Mean
from tinygrad_edu.ops.shape import Detach, Reshape, Transpose


class Linear(Op):
    """{out} = {x}·{weight}ᵀ + {bias}"""

    formulas = {
        "x": "d{x} = d{out}·{weight}",
        "weight": "d{weight} = d{out}ᵀ·{x}",
        "bias": "d{bias} = Σ d{out}",
    }

    def definition(x, weight, bias=None):
        y = Matmul(x, Transpose(weight))
        return y if bias is None else Add(y, bias)

    def forward(x, weight, bias=None):
        return kernels.of(x).linear(x, weight, bias)

    def gradients(g, need, x, weight):
        return kernels.of(g).linear_backward(g, x, weight, need)


class Embedding(Op):
    """{out} = the rows {ids} of {weight}; the row `padding` gets no gradient"""

    widens = False

    def definition(ids, weight, *, padding=None):
        rows = GetItem(weight, index=(getattr(ids, "array", ids),))
        if padding is None:
            return rows
        return Where(Reshape(ids == padding, shape=(*ids.shape, 1)), Detach(rows), rows)

    def forward(ids, weight, *, padding=None):
        return kernels.of(weight).embedding(ids, weight)

    def dweight(g, ids, weight_shape, padding):
        """d{weight} = d{out} added at the rows {ids}"""
        d = kernels.of(g).embedding_backward(g, ids, weight_shape[0])
        if padding is not None:
            d[padding] = 0
        return d


class LayerNorm(Op):
    """{out} = ({x} − μ) / √(σ² + {eps}) ⊙ {weight} + {bias}, μ and σ² over the last {axes} axes"""

    saves = ("mean", "rstd")
    formulas = {
        "x": "d{x} = (h − mean(h) − x̂ ⊙ mean(h ⊙ x̂)) / √(σ² + {eps}), h = d{out} ⊙ {weight}",
        "weight": "d{weight} = Σ d{out} ⊙ x̂",
        "bias": "d{bias} = Σ d{out}",
    }

    def definition(x, weight=None, bias=None, *, axes, eps):
        over = tuple(range(len(x.shape) - axes, len(x.shape)))
        centred = Sub(x, Mean(x, axes=over, keepdim=True))
        variance = Mean(Mul(centred, centred), axes=over, keepdim=True)
        y = centred / Sqrt(variance + eps)
        if weight is not None:
            y = Mul(y, weight)
        return y if bias is None else Add(y, bias)

    def forward(x, weight=None, bias=None, *, axes, eps):
        return kernels.of(x).layer_norm(x, weight, bias, eps, axes)

    def gradients(g, need, x, weight, mean, rstd, axes):
        return kernels.of(g).layer_norm_backward(g, x, weight, mean, rstd, need, axes)


class RmsNorm(Op):
    """{out} = {x} / √(mean({x}²) + {eps}) ⊙ {weight}, the mean over the last {axes} axes"""

    saves = ("rstd",)
    formulas = {
        "x": "d{x} = r ⊙ (h − {x} ⊙ r² ⊙ mean(h ⊙ {x})), h = d{out} ⊙ {weight}, r = 1 / √(mean({x}²) + {eps})",
        "weight": "d{weight} = Σ d{out} ⊙ {x} ⊙ r",
    }

    def definition(x, weight=None, *, axes, eps):
        over = tuple(range(len(x.shape) - axes, len(x.shape)))
        y = x / Sqrt(Mean(Mul(x, x), axes=over, keepdim=True) + eps)
        return y if weight is None else Mul(y, weight)

    def forward(x, weight=None, *, axes, eps):
        return kernels.of(x).rms_norm(x, weight, eps, axes)

    def gradients(g, need, x, weight, rstd, axes):
        return kernels.of(g).rms_norm_backward(g, x, weight, rstd, need, axes)


class Dropout(Op):
    """{out} = {x} ⊙ mask / (1 − {p}), the mask 0 with probability {p}, else 1"""

    saves = ("scaled",)

    def forward(x, *, p, key, first_sample):
        scaled = kernels.of(x).keep_mask(x, p, key, first_sample)
        return x * scaled, scaled

    def dx(g, scaled):
        """d{x} = d{out} ⊙ mask / (1 − {p})"""
        return g * scaled
