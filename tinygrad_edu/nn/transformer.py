"""The Transformer of 2017 from whole layers, under PyTorch's names: encoder, decoder and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tinygrad_edu.creation import full
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.attention import MultiheadAttention
from tinygrad_edu.nn.containers import ModuleList
from tinygrad_edu.nn.layers import Dropout, LayerNorm, Linear
from tinygrad_edu.nn.module import Module
from tinygrad_edu.tensor import Tensor


def _activation(activation: Any) -> Callable[[Any], Any]:
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise ValueError(f"activation is 'relu', 'gelu' or a function, not {activation!r}")
    return F.relu if activation == "relu" else F.gelu


class TransformerEncoderLayer(Module):
    """x ← norm1(x + attention(x)), x ← norm2(x + W_2·f(W_1·x)); with `norm_first` x ← x + attention(norm1(x)), ...

    Args:
        d_model: D, width of x. nhead: heads, which divide D. dim_feedforward: width between W_1 and W_2.
        dropout: probability of dropping, in training: attention weights, after f, and both branches.
        activation: f: "relu", "gelu" or a function.
        layer_norm_eps: ε of the norms.
        batch_first: whether x is [B, T, D], not [T, B, D].
        norm_first: whether the norms stand before the branches, not behind the sums.
        bias: whether the layers have biases.
        device, dtype: of the parameters.

    Parts: self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2.

    >>> import tinygrad_edu as tg
    >>> TransformerEncoderLayer(8, 2, batch_first=True)(tg.zeros(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """src [T, B, D] -> the same shape. Masks as of MultiheadAttention: [T, T] and [B, T], True hides."""

        def attend(x: Any) -> Any:
            y, _ = self.self_attn(
                x, x, x, src_key_padding_mask, need_weights=False, attn_mask=src_mask, is_causal=is_causal
            )
            return self.dropout1(y)

        if self.norm_first:
            x = src + attend(self.norm1(src))
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(src + attend(src))
        return self.norm2(x + self._feed_forward(x))

    def _feed_forward(self, x: Any) -> Any:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Attention over the target, attention over the encoder's result, W_2·f(W_1·x); each with a norm and a sum.

    Arguments as of TransformerEncoderLayer. Parts: self_attn, multihead_attn, linear1, dropout, linear2, norm1, norm2,
    norm3, dropout1, dropout2, dropout3.

    >>> import tinygrad_edu as tg
    >>> TransformerDecoderLayer(8, 2)(tg.zeros(5, 2, 8), tg.zeros(7, 2, 8)).shape
    (5, 2, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **made)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt [q, B, D], memory [k, B, D] -> [q, B, D]. Masks: [q, q], [q, k], [B, q] and [B, k], True hides."""

        def attend(x: Any) -> Any:
            y, _ = self.self_attn(
                x, x, x, tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask, is_causal=tgt_is_causal
            )
            return self.dropout1(y)

        def look(x: Any) -> Any:
            y, _ = self.multihead_attn(
                x,
                memory,
                memory,
                memory_key_padding_mask,
                need_weights=False,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )
            return self.dropout2(y)

        if self.norm_first:
            x = tgt + attend(self.norm1(tgt))
            x = x + look(self.norm2(x))
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(tgt + attend(tgt))
        x = self.norm2(x + look(x))
        return self.norm3(x + self._feed_forward(x))

    def _feed_forward(self, x: Any) -> Any:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """Layers on top of each other, made as copies of one, and a norm behind them.

    Args:
        encoder_layer: the layer that is copied; all copies start with its values.
        num_layers: how many.
        norm: a module for the end, or None.
        enable_nested_tensor, mask_check: PyTorch's, without effect.

    Parts: layers, norm.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Tensor:
        """src [T, B, D] -> the same shape. Masks as of the layers."""
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Layers on top of each other, made as copies of one, and a norm behind them; arguments as of TransformerEncoder.

    Parts: layers, norm.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt [q, B, D], memory [k, B, D] -> [q, B, D]. Masks as of the layers."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of the source and a decoder of the target that looks at the encoder's result.

    There are no embeddings, positions or logits in it: it takes and gives vectors.

    Args:
        d_model: D. nhead: heads. num_encoder_layers, num_decoder_layers: layers of each.
        custom_encoder, custom_decoder: modules to take their place.
        dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype: see
            TransformerEncoderLayer.

    Parts: encoder, decoder. Parameters of two or more axes are xavier-uniform at first.
    Source: Vaswani et al., "Attention is all you need", 2017.

    >>> import tinygrad_edu as tg
    >>> model = Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(tg.zeros(2, 5, 8), tg.zeros(2, 3, 8), tgt_mask=model.generate_square_subsequent_mask(3)).shape
    (2, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*options, **made),
            num_encoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **made),
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*options, **made),
            num_decoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **made),
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """src [k, B, D], tgt [q, B, D] -> [q, B, D]. Masks as of the encoder and the decoder, True hides."""
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """[sz, sz], to be added to scores: 0 on and below the diagonal, −∞ above."""
        return full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)
