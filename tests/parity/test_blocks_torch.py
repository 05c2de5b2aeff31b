"""The block against PyTorch's encoder and decoder layers, rotary positions against transformers."""

from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg
from models.positions import rotate, rotation
from models.transformer import Block
from tinygrad_edu import nn

NAMES = {
    "attention.qkv.weight": "self_attn.in_proj_weight",
    "attention.qkv.bias": "self_attn.in_proj_bias",
    "attention.output": "self_attn.out_proj",
    "cross.qkv.weight": "multihead_attn.in_proj_weight",
    "cross.qkv.bias": "multihead_attn.in_proj_bias",
    "cross.output": "multihead_attn.out_proj",
    "feed_forward.up": "linear1",
    "feed_forward.down": "linear2",
    "attention_norm": "norm1",
}


def theirs_of(name: str, cross: bool) -> str:
    last = {"cross_norm": "norm2", "feed_forward_norm": "norm3" if cross else "norm2"}
    for ours, theirs in (NAMES | last).items():
        if name.startswith(ours):
            return theirs + name[len(ours) :]
    raise AssertionError(name)


@pytest.mark.parametrize("cross", [False, True], ids=["encoder", "decoder"])
@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_block_is_pytorchs_layer(cross: bool, norm_first: bool, activation: str) -> None:
    random = np.random.default_rng(0)
    D, F, H = 12, 20, 3
    ours = Block(D, H, hidden=F, activation=activation, norm_first=norm_first, cross=cross).to(tg.float64)
    kind = torch.nn.TransformerDecoderLayer if cross else torch.nn.TransformerEncoderLayer
    theirs: Any = kind(D, H, F, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64)
    for p in ours.parameters():
        nn.init.normal_(p, std=0.5)
    theirs.load_state_dict({theirs_of(name, cross): torch.tensor(p.numpy()) for name, p in ours.state_dict().items()})
    x, memory = random.normal(size=(2, 4, D)), random.normal(size=(2, 5, D))
    seen = np.arange(5) < np.array([[5], [3]])  # the second memory is padded
    a = tg.tensor(x, requires_grad=True), tg.tensor(memory, requires_grad=True)
    b = torch.tensor(x, requires_grad=True), torch.tensor(memory, requires_grad=True)
    if cross:
        y = ours(a[0], causal=True, memory=a[1], memory_visible=tg.tensor(seen[:, None, None, :]))
        later = torch.ones(4, 4, dtype=torch.bool).triu(1)
        z = theirs(b[0], b[1], tgt_mask=later, memory_key_padding_mask=torch.tensor(~seen))
    else:
        y = ours(a[0], visible=tg.tensor(seen[:, None, None, :4]))
        z = theirs(b[0], src_key_padding_mask=torch.tensor(~seen[:, :4]))
    assert np.allclose(y.detach().numpy(), z.detach().numpy(), rtol=0, atol=1e-12)
    weights = random.normal(size=x.shape)
    (y * tg.tensor(weights)).sum().backward()
    (z * torch.tensor(weights)).sum().backward()
    for mine, other in zip(a[: 1 + cross], b[: 1 + cross], strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert np.allclose(mine.grad.numpy(), other.grad.numpy(), rtol=0, atol=1e-10)
    gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
    for name, p in ours.named_parameters():
        assert p.grad is not None
        assert np.allclose(p.grad.numpy(), gradients.pop(theirs_of(name, cross)), rtol=0, atol=1e-10), name
    assert not gradients


@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_rotary_positions_are_those_of_llama(base: float) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(hidden_size=24, num_attention_heads=3, rope_theta=base, max_position_embeddings=64)
    config.rope_parameters = {"rope_type": "default", "rope_theta": base}
    q, k = np.random.default_rng(0).normal(size=(2, 2, 3, 5, 8)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3, 4], [7, 8, 0, 1, 60]])
    cos, sin = llama.LlamaRotaryEmbedding(config)(torch.tensor(q), torch.tensor(positions))
    expected = llama.apply_rotary_pos_emb(torch.tensor(q), torch.tensor(k), cos, sin)
    turn = rotation(positions, 8, base)
    for ours, theirs in zip((q, k), expected, strict=True):
        assert np.allclose(rotate(tg.tensor(ours), turn).numpy(), theirs.numpy(), rtol=0, atol=1e-5)
