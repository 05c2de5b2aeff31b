"""The models: shapes, sizes, what may see what, losses, and that they learn."""

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models import BERT, GPT, MODELS, BERTConfig, Bigram, BigramConfig, GPTConfig, LanguageModel
from models.positions import rotate, rotation, sinusoidal
from models.transformer import Attention, Block, FeedForward
from tinygrad_edu import nn, optim
from tinygrad_edu.nn import functional as F


@pytest.fixture(autouse=True)
def _seed() -> None:
    tg.manual_seed(0)


SMALL = GPTConfig(vocab_size=11, block_size=8, layers=2, heads=2, width=16)


def small(**changes: Any) -> Any:
    return GPT(dataclasses.replace(SMALL, **changes))


def draw(*shape: int, high: int = 11) -> np.ndarray:
    return np.random.default_rng(1).integers(0, high, shape)


MADE: dict[str, LanguageModel] = {
    "bigram": Bigram(BigramConfig(11)),
    "gpt": GPT(SMALL),
    "bert": BERT(BERTConfig(11, block_size=8, layers=2, heads=2, width=16)),
}


@pytest.fixture(params=list(MADE))
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return copy.deepcopy(MADE[request.param])


# What every model keeps to


def test_the_table_of_models() -> None:
    for kind, config in MODELS.values():
        assert kind.Config is config  # type: ignore[attr-defined]
        assert dataclasses.is_dataclass(config)
        assert config.__dataclass_params__.frozen  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "ids", [[[1, 2, 3]], np.array([[1, 2, 3]]), np.array([[1, 2, 3]], np.int32), tg.tensor([[1, 2, 3]])]
)
def test_ids_come_as_lists_arrays_and_tensors(model: LanguageModel, ids: Any) -> None:
    logits = model(ids)
    assert logits.shape == (1, 3, 11)
    assert np.array_equal(logits.array, model([[1, 2, 3]]).array)


@pytest.mark.parametrize("ids", [[[1, 11]], [[-1, 2]]])
def test_ids_out_of_range(model: LanguageModel, ids: Any) -> None:
    with pytest.raises(IndexError, match="0 to 10"):
        model(ids)


def test_ids_of_another_kind(model: LanguageModel) -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) but \[B, T\] is wanted"):
        model([1, 2, 3])
    with pytest.raises(TypeError, match="integers"):
        model([[1.0, 2.0]])


def test_loss_is_a_sum_and_a_count(model: LanguageModel) -> None:
    ids, labels = draw(3, 6), draw(3, 6)[::-1].copy()
    labels[0, :2] = labels[2, 5] = -100
    total, count = model.loss((ids, labels))
    assert type(count) is int
    assert count == 15
    assert total.shape == ()
    z = model(ids).detach().numpy().astype(np.float64)
    log_probability = z - np.log(np.exp(z).sum(-1, keepdims=True))
    terms = [log_probability[b, t, labels[b, t]] for b in range(3) for t in range(6) if labels[b, t] >= 0]
    assert total.item() == pytest.approx(-sum(terms), rel=1e-5)


def test_labels_that_do_not_count_give_no_gradient(model: LanguageModel) -> None:
    ids = draw(2, 4)
    total, count = model.loss((ids, np.full((2, 4), -100)))
    assert (total.item(), count) == (0, 0)
    total.backward()
    assert all(p.grad is None or abs(p.grad.array).max() == 0 for p in model.parameters())


def test_parts_of_a_batch_add_up_to_the_whole(model: LanguageModel) -> None:
    model.to(tg.float64)
    ids, labels = draw(4, 5), draw(4, 5)
    labels[:1, 1:] = -100
    total, count = model.loss((ids, labels))
    (total / count).backward()
    whole = [p.grad.array.copy() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    for part in (slice(0, 1), slice(1, 4)):
        (model.loss((ids[part], labels[part]))[0] / count).backward()
    assert count == 16
    for g, p in zip(whole, model.parameters(), strict=True):
        assert p.grad is not None
        assert np.allclose(p.grad.array, g, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"]
)
def test_copies_compute_the_same(model: LanguageModel, twin_of: Any) -> None:
    ids = draw(2, 5)
    assert np.array_equal(twin_of(model)(ids).array, model(ids).array)


def test_the_state_goes_into_another_model(model: LanguageModel) -> None:
    twin = copy.deepcopy(model)
    for p in twin.parameters():
        nn.init.ones_(p)
    twin.load_state_dict(model.state_dict())
    assert np.array_equal(twin(draw(2, 5)).array, model(draw(2, 5)).array)


def test_a_model_learns_a_rule(model: LanguageModel) -> None:
    adamw = optim.AdamW(optim.decay_groups(model, 0.0), lr=0.03)
    ids = draw(8, 8)
    for _ in range(120):
        total, count = model.loss((ids, (ids * 3 + 1) % 11))
        adamw.zero_grad()
        (total / count).backward()
        adamw.step()
    assert total.item() / count < 0.15


# Bigram


def test_bigram_is_a_table() -> None:
    model = Bigram(BigramConfig(5))
    assert model.num_parameters() == 25
    assert model.config.block_size == 1
    total, count = model.loss((draw(2, 3, high=5), draw(2, 3, high=5)))
    assert total.item() / count == pytest.approx(math.log(5), rel=1e-6)
    nn.init.normal_(model.table.weight)
    row = model([[3]])[0, 0].detach()
    one_hot = tg.tensor([[0.0, 0.0, 0.0, 1.0, 0.0]])
    assert row.tolist() == (one_hot @ model.table.weight)[0].tolist() == model.table.weight[3].tolist()


def test_bigram_rows_become_the_frequencies_of_what_follows() -> None:
    """A B A C: A is followed by B once and by C once, B by A."""
    model = Bigram(BigramConfig(3))
    adamw = optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
    for _ in range(300):
        total, count = model.loss(([[0, 1, 0]], [[1, 0, 2]]))
        adamw.zero_grad()
        (total / count).backward()
        adamw.step()
    after = F.softmax(model([[0, 1]]), dim=-1)[0].detach().numpy()
    assert np.allclose(after, np.array([[0, 0.5, 0.5], [1, 0, 0]]), atol=0.01)
    assert total.item() == pytest.approx(2 * math.log(2), abs=0.05)


# GPT


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_number_of_parameters(tied: bool, bias: bool) -> None:
    V, T, D, layers = 11, 8, 16, 2
    block = 12 * D * D + 2 * D + (11 * D if bias else 0)
    expected = V * D * (1 if tied else 2) + T * D + layers * block + D * (2 if bias else 1)
    assert small(tied=tied, bias=bias).num_parameters() == expected


def test_the_shape_of_the_cpu_run_has_its_known_size() -> None:
    assert GPT(GPTConfig(vocab_size=65)).num_parameters() == 804_096


def test_tying_is_one_parameter_with_both_gradients() -> None:
    model = small().to(tg.float64)
    apart = small(tied=False).to(tg.float64)
    apart.load_state_dict(model.state_dict())
    assert model.head.weight is model.token.weight
    assert apart.head.weight is not apart.token.weight
    batch = draw(2, 8), draw(2, 8)
    for m in (model, apart):
        m.loss(batch)[0].backward()
    both = apart.token.weight.grad.array + apart.head.weight.grad.array
    assert np.allclose(model.token.weight.grad.array, both, rtol=0, atol=1e-12)
    assert model.state_dict().keys() == apart.state_dict().keys()


def test_first_values_are_those_of_gpt2() -> None:
    model = GPT(GPTConfig(vocab_size=97, block_size=64, layers=3, heads=2, width=96, bias=True, tied=False))
    for name, p in model.named_parameters():
        if name.endswith(("output.weight", "down.weight")):
            assert p.array.std() == pytest.approx(0.02 / math.sqrt(6), rel=0.05)
        elif p.ndim == 2:
            assert p.array.std() == pytest.approx(0.02, rel=0.05)
        else:
            assert set(p.tolist()) == {0.0 if name.endswith("bias") else 1.0}
    total, count = model.loss((draw(2, 64, high=97), draw(2, 64, high=97)))
    assert total.item() / count == pytest.approx(math.log(97), abs=0.1)


def test_equal_seeds_give_equal_models() -> None:
    def values() -> bytes:
        tg.manual_seed(5)
        return b"".join(p.array.tobytes() for p in small().parameters())

    assert values() == values()


@pytest.mark.parametrize("j", range(8))
def test_no_position_sees_a_later_one(j: int) -> None:
    model = small(bias=True)
    ids = draw(2, 8)
    other = ids.copy()
    other[:, j] = (other[:, j] + 1) % 11
    before, after = model(ids).array, model(other).array
    assert np.array_equal(before[:, :j], after[:, :j])
    assert (before[:, j:] != after[:, j:]).any(axis=-1).all()


def test_a_window_over_the_block_size_names_both() -> None:
    with pytest.raises(ValueError, match=r"9 ids in a row.*block_size 8"):
        small()(draw(1, 9))


def test_dropout_is_for_training_only() -> None:
    model = small(dropout=0.5)
    ids = draw(2, 8)
    assert not np.array_equal(model(ids).array, model(ids).array)
    model.eval()
    assert np.array_equal(model(ids).array, model(ids).array)
    plain = small()
    plain.load_state_dict(model.state_dict())
    assert np.array_equal(model(ids).array, plain(ids).array)
    tg.manual_seed(1)
    first = model.train()(ids).array
    tg.manual_seed(1)
    assert np.array_equal(first, model(ids).array)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 10, "heads": 4}, "width 10 is not a multiple of heads 4.*take width 8"),
        ({"width": 2, "heads": 4}, "take width 4"),
        ({"layers": 0}, "layers must be at least 1, not 0"),
        ({"vocab_size": 0}, "vocab_size must be at least 1"),
        ({"dropout": 1.0}, "dropout must lie"),
        ({"activation": "gleu"}, "activation is one of gelu, gelu-tanh, relu, silu, swiglu, not 'gleu'"),
        ({"norm": "batch"}, "norm is one of layer, rms"),
        ({"positions": "none"}, "positions is one of learned, sinusoidal, rotary"),
        ({"positions": "rotary", "heads": 16}, "leaves 1 of them"),
        ({"positions": "sinusoidal", "heads": 5, "width": 15}, "leaves 15 of them"),
        ({"key_heads": 3}, "a multiple of key_heads"),
        ({"hidden": -1}, "hidden -1"),
        ({"eps": 0.0}, "must be above 0"),
        ({"eps": float("nan")}, "must be above 0"),
        ({"rotary_base": float("nan")}, "must be above 0"),
    ],
)
def test_shapes_that_cannot_be_built(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(SMALL, **changes)
    with pytest.raises(ValueError, match="vocab_size"):
        BigramConfig(0)
    with pytest.raises(ValueError, match="eps must be 0 or more, and finite"):
        BERTConfig(11, eps=float("nan"))


def test_definitions_compute_the_same() -> None:
    model = small(bias=True).to(tg.float64)
    batch = draw(2, 8), draw(2, 8)
    model.loss(batch)[0].backward()
    fused = [p.grad.array for p in model.parameters()]
    model.zero_grad()
    with tg.definitions():
        model.loss(batch)[0].backward()
    for g, p in zip(fused, model.parameters(), strict=True):
        assert np.allclose(g, p.grad.array, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_documents_packed_into_a_row_are_what_they_are_alone(positions: str) -> None:
    """Positions restart and no key of another document is read: a row of 5 and 3 tokens equals two rows."""
    model = small(positions=positions).to(tg.float64)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    ids = draw(2, 8)
    places = [0, 1, 2, 3, 4, 0, 1, 2]
    documents = np.array([[0] * 5 + [1] * 3] * 2)
    packed = model(ids, places, documents).array
    assert np.allclose(packed[:, :5], model(ids[:, :5]).array, rtol=0, atol=1e-12)
    assert np.allclose(packed[:, 5:], model(ids[:, 5:]).array, rtol=0, atol=1e-12)
    assert abs(packed - model(ids).array).max() > 1e-3
    labels = draw(2, 8)
    alone = model.loss((ids[:, :5], labels[:, :5]))[0].item() + model.loss((ids[:, 5:], labels[:, 5:]))[0].item()
    assert model.loss((ids, labels, np.array([places] * 2), documents))[0].item() == pytest.approx(alone, abs=1e-10)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_a_padded_prompt_is_what_it_is_alone(positions: str) -> None:
    """Padding on either side: positions count real tokens, and padding is a document of its own."""
    model = small(positions=positions).to(tg.float64)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    alone = model([[2, 5, 1]]).array[0]
    ids, real = np.array([[0, 0, 2, 5, 1], [2, 5, 1, 0, 0]]), np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    places = np.maximum(real.cumsum(axis=1) - 1, 0)
    logits = model(ids, places, real.astype(int)).array
    assert np.allclose(logits[real], np.concatenate([alone, alone]), rtol=0, atol=1e-12)
    assert np.isfinite(logits).all()
    if positions != "rotary":  # which knows distances only
        assert abs(model(ids, None, real.astype(int)).array[0, 2:] - alone).max() > 1e-3
    assert abs(model(ids, places).array[0, 2:] - alone).max() > 1e-3


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_positions_that_are_not_learned_have_no_table(positions: str) -> None:
    assert small(positions=positions).num_parameters() == small().num_parameters() - 8 * 16


def test_with_zero_init_the_first_prediction_is_even() -> None:
    model = small(zero_init=True, tied=False)
    assert abs(model(draw(2, 8)).array).max() == 0
    total, count = model.loss((draw(2, 8), draw(2, 8)))
    assert total.item() / count == pytest.approx(math.log(11), abs=1e-6)
    total.backward()
    assert abs(model.head.weight.grad.array).max() > 0
    assert abs(small(zero_init=True)(draw(2, 8)).array).max() > 0  # a tied head is the table of tokens, which is not 0


def test_the_operations_of_the_cpu_run() -> None:
    """6 for each weight of a product, and 12·T·D for each of 4 layers' attention."""
    model = GPT(GPTConfig(vocab_size=65))
    products = 4 * 12 * 128**2 + 65 * 128
    assert model.flops_per_token(64, training=True) == 6 * products + 4 * 12 * 64 * 128
    assert model.flops_per_token(64) * 3 == model.flops_per_token(64, training=True)
    assert Bigram(BigramConfig(5)).flops_per_token(1) == 0


# Positions


def test_turned_queries_and_keys_know_their_distance_alone() -> None:
    random = np.random.default_rng(0)
    q, k = (tg.tensor(random.normal(size=(1, 1, 1, 8))) for _ in range(2))

    def score(m: int, n: int) -> float:
        return (rotate(q, rotation([m], 8)) * rotate(k, rotation([n], 8))).sum().item()

    assert score(5, 2) == pytest.approx(score(3, 0), abs=1e-12) == pytest.approx(score(1003, 1000), abs=1e-10)
    assert abs(score(5, 2) - score(2, 5)) > 1e-3
    assert np.allclose((rotate(q, rotation([9], 8)) ** 2).sum().item(), (q**2).sum().item())


def test_waves_of_a_shift_are_turned_alike() -> None:
    rows = sinusoidal(np.arange(20), 6).numpy().reshape(20, 3, 2)
    as_numbers = rows[..., 1] + 1j * rows[..., 0]  # cos + i·sin
    assert np.allclose(as_numbers[7:] / as_numbers[:-7], as_numbers[7], atol=1e-12)
    with pytest.raises(ValueError, match="width 5 is odd"):
        sinusoidal([0], 5)


# Attention and block


def test_grouped_keys_are_heads_that_share_theirs() -> None:
    grouped = Attention(8, 4, key_heads=2).to(tg.float64)
    full = Attention(8, 4).to(tg.float64)
    W, b = (grouped.state_dict()[name].array for name in ("qkv.weight", "qkv.bias"))
    rows = [*range(8), 8, 9, 8, 9, 10, 11, 10, 11, 12, 13, 12, 13, 14, 15, 14, 15]
    full.load_state_dict({**grouped.state_dict(), "qkv.weight": W[rows], "qkv.bias": b[rows]})
    x = tg.tensor(np.random.default_rng(0).normal(size=(2, 5, 8)))
    assert np.allclose(grouped(x, causal=True).array, full(x, causal=True).array, rtol=0, atol=1e-12)
    assert np.allclose(grouped(x, x).array, full(x).array, rtol=0, atol=1e-12)  # two products instead of one
    with pytest.raises(ValueError, match="heads 4 is not a multiple of key_heads 3"):
        Attention(12, 4, key_heads=3)


def test_normalised_scores_stay_within_bounds() -> None:
    """Twice as long queries and keys leave the weights as they are, so that the result is just twice as long."""
    x = tg.randn(1, 5, 8) * 4
    for normalised in (True, False):
        layer = Attention(8, 2, bias=False, normalised=normalised)
        assert np.allclose(layer(x * 2).array, layer(x).array * 2, rtol=1e-4, atol=1e-3) is normalised


def test_memory_goes_where_it_is_read() -> None:
    with pytest.raises(ValueError, match="cross=True"):
        Block(4, 2)(tg.randn(1, 3, 4), memory=tg.randn(1, 2, 4))
    with pytest.raises(ValueError, match="cross=True"):
        Block(4, 2, cross=True)(tg.randn(1, 3, 4))
    with pytest.raises(ValueError, match="norm is one of layer, rms"):
        Block(4, 2, norm="batch")
    with pytest.raises(ValueError, match="activation is one of gelu, "):
        FeedForward(4, 8, activation="tanh")


def written_out(layer: Any, x: Any, memory: Any, visible: Any) -> np.ndarray:
    """Attention head by head and query by query, in the lecture's words."""
    D, d = layer.width, layer.width // layer.heads
    W, b = layer.qkv.weight.array, layer.qkv.bias.array
    q, k, v = (s @ W[i * D : (i + 1) * D].T + b[i * D : (i + 1) * D] for i, s in enumerate((x, memory, memory)))
    o = np.zeros_like(q)
    for b_, h, i in np.ndindex(len(x), layer.heads, x.shape[1]):
        part = slice(h * d, (h + 1) * d)
        seen = np.flatnonzero(visible[b_, h, i])
        if len(seen):
            scores = k[b_, seen, part] @ q[b_, i, part] / math.sqrt(d)
            weights = np.exp(scores - scores.max())
            o[b_, i, part] = weights / weights.sum() @ v[b_, seen, part]
    return o @ layer.output.weight.array.T + layer.output.bias.array


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("mask", ["all", "causal", "padding", "random"])
def test_attention_is_what_its_formula_says(cross: bool, mask: str) -> None:
    random = np.random.default_rng(0)
    layer = Attention(width=6, heads=3).to(tg.float64)
    x = random.normal(size=(2, 3, 6))
    memory = random.normal(size=(2, 5, 6)) if cross else x
    B, H, q, k = 2, 3, 3, memory.shape[1]
    full = np.ones((B, H, q, k), bool)
    visible: dict[str, np.ndarray] = {
        "all": full,
        "causal": full & np.tri(q, k, k - q, dtype=bool),
        "padding": full & (np.arange(k) < np.array([2, k])[:, None])[:, None, None, :],
        "random": random.random(full.shape) < 0.5,
    }
    given: dict[str, Any] = {"visible": tg.tensor(visible[mask])} if mask in ("padding", "random") else {}
    result = layer(tg.tensor(x), tg.tensor(memory) if cross else None, causal=mask == "causal", **given)
    assert np.allclose(result.array, written_out(layer, x, memory, visible[mask]), rtol=0, atol=1e-12)


def test_cross_attention_reaches_both_streams_and_all_weights() -> None:
    layer = Attention(width=6, heads=2)
    x, memory = tg.randn(1, 2, 6, requires_grad=True), tg.randn(1, 4, 6, requires_grad=True)
    (layer(x, memory) ** 2).sum().backward()
    for t in (x, memory, *layer.parameters()):
        assert t.grad is not None
        assert abs(t.grad.array).max() > 0


def test_a_query_that_sees_nothing_gets_zero() -> None:
    layer = Attention(width=4, heads=2, bias=False)
    visible = np.ones((1, 1, 3, 3), bool)
    visible[0, 0, 1] = False
    y = layer(tg.randn(1, 3, 4), visible=tg.tensor(visible))
    assert y[0, 1].tolist() == [0, 0, 0, 0]
    assert np.isfinite(y.array).all()


def test_rows_stay_apart_outside_attention() -> None:
    part = FeedForward(4, 16)
    x = np.random.default_rng(0).normal(size=(1, 5, 4)).astype(np.float32)
    other = x.copy()
    other[0, 2] += 1
    changed = (part(tg.tensor(x)).array != part(tg.tensor(other)).array).any(-1)
    assert changed.tolist() == [[False, False, True, False, False]]


def test_a_block_adds_to_the_stream() -> None:
    block = Block(4, 2)
    for p in (*block.attention.output.parameters(), *block.feed_forward.down.parameters()):
        nn.init.zeros_(p)
    x = tg.randn(2, 3, 4)
    assert np.array_equal(block(x).array, x.array)


def test_dropped_attention_weights_are_scaled_up() -> None:
    layer = Attention(width=4, heads=1, dropout=0.5)
    assert not np.array_equal(layer(tg.ones(4, 3, 4)).array, layer.eval()(tg.ones(4, 3, 4)).array)
    with pytest.raises(ValueError, match="width 5 is not a multiple of heads 2"):
        Attention(5, 2)
