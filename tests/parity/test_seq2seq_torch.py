"""The encoder-decoder against PyTorch's own attention and norms: logits, loss and every gradient."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import tinygrad_edu as tg
from models.seq2seq import Seq2Seq, Seq2SeqConfig
from tinygrad_edu import nn
from tinygrad_edu.data.sides import sides

HEADS = 4
CLOSE = {"float32": 1e-5, "float64": 1e-10}
PAIRS = [(np.array(a), np.array(b)) for a, b in (([3, 1, 4, 1, 5], [9, 2]), ([6, 5], [3, 5, 8, 9]), ([7], []))]


def attention(w: dict[str, Any], name: str, x: Any, memory: Any, mask: Any, causal: bool) -> Any:
    q_rows, k_rows, v_rows = w[f"{name}.qkv.weight"].chunk(3)
    q, k, v = (F.linear(s, rows).unflatten(-1, (HEADS, -1)).transpose(1, 2)
               for s, rows in ((x, q_rows), (memory, k_rows), (memory, v_rows)))  # fmt: skip
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    return F.linear(o.transpose(1, 2).flatten(2), w[f"{name}.output.weight"])


def norm(w: dict[str, Any], name: str, x: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"])


def theirs(w: dict[str, Any], layers: int, ids: Any, source: Any, mask: Any) -> Any:
    visible = mask[:, None, None, :]

    def feed_forward(name: str, x: Any) -> Any:
        up = F.linear(norm(w, f"{name}.feed_forward_norm", x), w[f"{name}.feed_forward.up.weight"])
        return x + F.linear(F.gelu(up, approximate="tanh"), w[f"{name}.feed_forward.down.weight"])

    x = w["token.weight"][source] + w["source_position.weight"][: source.shape[1]]
    for i in range(layers):
        a = norm(w, f"encoder.{i}.attention_norm", x)
        x = feed_forward(f"encoder.{i}", x + attention(w, f"encoder.{i}.attention", a, a, visible, False))
    memory = norm(w, "encoder_norm", x)
    x = w["token.weight"][ids] + w["position.weight"][: ids.shape[1]]
    for i in range(layers):
        a = norm(w, f"decoder.{i}.attention_norm", x)
        x = x + attention(w, f"decoder.{i}.attention", a, a, None, True)
        a = norm(w, f"decoder.{i}.cross_norm", x)
        x = feed_forward(f"decoder.{i}", x + attention(w, f"decoder.{i}.cross", a, memory, visible, False))
    return F.linear(norm(w, "norm", x), w["token.weight"])


@pytest.mark.parametrize("dtype", CLOSE)
def test_logits_loss_and_gradients(dtype: str) -> None:
    tg.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(vocab_size=11, block_size=8, heads=HEADS, width=32)).to(getattr(tg, dtype))
    for name, p in model.named_parameters():
        nn.init.normal_(p, mean=1.0 if "norm" in name else 0.0, std=0.2)
    batch = sides(PAIRS, begin=1, end=0)
    w: dict[str, Any] = {
        name: torch.tensor(p.detach().numpy(), requires_grad=True) for name, p in model.named_parameters()
    }
    ids, labels, source, mask = (torch.tensor(part) for part in batch)
    logits = theirs(w, 2, ids, source, mask)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    loss.backward()
    total, count = model.loss(batch)
    total.backward()
    close: Any = {"rtol": CLOSE[dtype], "atol": CLOSE[dtype]}
    ours = model(batch.ids, batch.source, batch.mask).detach().numpy()
    np.testing.assert_allclose(ours, logits.detach().numpy(), **close)
    np.testing.assert_allclose(total.item(), loss.item(), rtol=CLOSE[dtype])
    assert count == (labels >= 0).sum()
    for name, p in model.named_parameters():
        assert p.grad is not None
        expected = w[name].grad.numpy()
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(p.grad.numpy(), expected, rtol=0, atol=CLOSE[dtype] * max(1.0, scale))
