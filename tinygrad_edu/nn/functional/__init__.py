"""The functions that layers are made of, under PyTorch's names: linear, softmax, cross_entropy, attention, ..."""

from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.nn.functional.activations import (
    celu,
    elu,
    gelu,
    glu,
    gumbel_softmax,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softsign,
    tanh,
    tanhshrink,
)
from tinygrad_edu.nn.functional.attention import (
    scaled_dot_product_attention,
)
from tinygrad_edu.nn.functional.layers import (
    cosine_similarity,
    dropout,
    embedding,
    layer_norm,
    linear,
    normalize,
    one_hot,
    pad,
    pairwise_distance,
    rms_norm,
)
from tinygrad_edu.nn.functional.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
]

_INSTEAD = {
    "batch_norm": "normalise with layer_norm or rms_norm",
    "group_norm": "reshape the channels into groups and use layer_norm",
    "embedding_bag": "use embedding(ids, weight).sum(1) or .mean(1)",
    "multi_head_attention_forward": "nn.MultiheadAttention computes it; scaled_dot_product_attention is its core",
    "scaled_dot_product_attention_math": "use scaled_dot_product_attention",
    "relu_": "x.relu_() changes in place; relu(x) does not",
    "interpolate": "there are no images here",
    "ctc_loss": "it is not written; write it with logsumexp over alignments",
    "unfold": "there are no convolutions; x[:, index] with an index array gathers windows",
    "bilinear": "use einsum",
}
_INSTEAD |= dict.fromkeys(
    ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "max_pool1d", "max_pool2d", "avg_pool1d",
     "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool2d"],
    "there are no convolutions and no pooling; this library is for Transformers and recurrent networks",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    raise missing("nn.functional", name, __all__, _INSTEAD)
