"""Layers and the base class of models, under PyTorch's names."""

from typing import Any

from tinygrad_edu.absent import missing
from tinygrad_edu.nn import functional, init, utils
from tinygrad_edu.nn.activations import (
    CELU,
    ELU,
    GLU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softsign,
    Tanh,
    Tanhshrink,
)
from tinygrad_edu.nn.attention import (
    MultiheadAttention,
)
from tinygrad_edu.nn.cells import (
    GRUCell,
    LSTMCell,
    RNNCell,
)
from tinygrad_edu.nn.containers import (
    ModuleDict,
    ModuleList,
    Sequential,
)
from tinygrad_edu.nn.convolution import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    Conv1d,
    Conv2d,
    MaxPool1d,
    MaxPool2d,
)
from tinygrad_edu.nn.layers import (
    GELU,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    RMSNorm,
)
from tinygrad_edu.nn.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from tinygrad_edu.nn.module import (
    Module,
)
from tinygrad_edu.nn.norms import (
    BatchNorm1d,
    BatchNorm2d,
    GroupNorm,
)
from tinygrad_edu.nn.parameter import (
    Buffer,
    Parameter,
)
from tinygrad_edu.nn.parameters import (
    ParameterDict,
    ParameterList,
)
from tinygrad_edu.nn.plain import (
    Flatten,
    Identity,
    Unflatten,
)
from tinygrad_edu.nn.recurrent import (
    GRU,
    LSTM,
    RNN,
)
from tinygrad_edu.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Buffer",
    "Conv1d",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
    "functional",
    "init",
    "utils",
]

_INSTEAD = {
    "BatchNorm3d": "BatchNorm1d of the flattened axes is the same",
    "SyncBatchNorm": "use BatchNorm1d or BatchNorm2d",
    "InstanceNorm1d": "use GroupNorm with a group for every channel",
    "EmbeddingBag": "use Embedding, then .sum(1) or .mean(1)",
    "Bilinear": "use functional: einsum with a Parameter of three axes",
    "DataParallel": "tinygrad_edu.parallel.Shards uses the cores of one machine",
    "parallel": "tinygrad_edu.parallel.Shards uses the cores of one machine",
    "AlphaDropout": "use Dropout",
    "CTCLoss": "it is not written; write it with logsumexp over alignments",
    "AdaptiveLogSoftmaxWithLoss": "use Linear and CrossEntropyLoss",
    "UninitializedParameter": "give the sizes when the layer is made",
    "LazyLinear": "give the sizes when the layer is made: Linear(in_features, out_features)",
}
_INSTEAD |= dict.fromkeys(
    ["Conv3d", "ConvTranspose1d", "ConvTranspose2d", "Upsample", "PixelShuffle", "Unfold", "Fold", "Dropout2d"],
    "of convolutions there are Conv1d and Conv2d, with max, mean and adaptive mean pooling over one and two axes",
)


def __getattr__(name: str) -> Any:
    raise missing("nn", name, __all__, _INSTEAD)
