"""Keys and values that are kept: the same logits as reading everything again, for every model, batch and length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.gpt import GPT, GPTConfig
from tinygrad_edu import nn
from tinygrad_edu.generation import Cache, generate, stream
from tinygrad_edu.generation.reader import Reader

KINDS: dict[str, dict[str, Any]] = {
    "learned": {},
    "sinusoidal": {"positions": "sinusoidal", "norm_first": False},
    "rotary": {"positions": "rotary", "key_heads": 2, "normalised": True, "norm": "rms", "activation": "swiglu"},
}


def gpt(kind: str = "learned", **options: Any) -> GPT:
    tg.manual_seed(0)
    shape = {"vocab_size": 11, "block_size": 16, "layers": 3, "heads": 4, "width": 32, **KINDS[kind], **options}
    model = GPT(GPTConfig(**shape)).to(tg.float64)
    with tg.no_grad():
        for p in model.parameters():
            p.mul_(4.0)  # so that logits differ and attention is no plain mean
    return model.eval()


def drawn_ids(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 11, shape)


@pytest.mark.parametrize("cuts", [[12], [5, 6, 7, 10, 12], list(range(1, 13))], ids=["whole", "parts", "one by one"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_whole_text(kind: str, cuts: list[int]) -> None:
    model, ids = gpt(kind), drawn_ids(3, 12)
    with tg.no_grad():
        cache, whole = model.new_cache(), model(ids).numpy()
        parts = [model(ids[:, a:b], cache=cache).numpy() for a, b in zip([0, *cuts], cuts, strict=False)]
    assert cache.length == 12
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_row_is_read_as_it_is_alone(kind: str) -> None:
    model, ids = gpt(kind), drawn_ids(2, 10)
    reader = Reader(model, [ids[0], ids[1, :4]], pad=9)
    alone = [Reader(model, [ids[0]], pad=0), Reader(model, [ids[1, :4]], pad=0)]
    for step in range(14):  # past block_size, where the window begins to slide
        together = reader.logits()
        for row, one in enumerate(alone):
            np.testing.assert_allclose(together[row], one.logits()[0], rtol=0, atol=1e-12)
            one.append(np.array([step % 11]))
        reader.append(np.array([step % 11, step % 11]))


class Again(nn.Module):
    """A model that keeps nothing and reads the text again for every token."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, ids: Any) -> Any:
        return self.model(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_generation_equals_reading_the_last_ids_again(kind: str) -> None:
    model = gpt(kind)
    out = generate(model, drawn_ids(2, 3), 30, temperature=3.0, seed=1)
    assert out.tolist() == generate(Again(model), drawn_ids(2, 3), 30, temperature=3.0, seed=1).tolist()
    assert len(set(out.ravel().tolist())) > 3


def test_prompts_of_different_lengths() -> None:
    model = gpt("rotary")
    prompts = [[1, 2, 3, 4, 5], [6], [7, 8]]
    together = generate(model, prompts, 20, temperature=0)
    assert [row.tolist() for row in together] == [generate(model, p, 20, temperature=0).tolist() for p in prompts]
    same = generate(model, [[1, 2], [3, 4]], 3)
    assert same.shape == (2, 5)
    with pytest.raises(ValueError, match="prompt is empty"):
        generate(model, [[1, 2], []], 3)


def test_each_id_is_read_once() -> None:
    model, read = gpt(), []
    model.register_forward_pre_hook(lambda _, args: read.append(args[0].shape))
    generate(model, [[1, 2, 3]], 15)
    assert read == [(1, 3), *[(1, 1)] * 13, (1, 16)]  # the 17th id does not fit any more


def test_weights_that_change_in_between_are_noticed() -> None:
    model = gpt()
    tokens = stream(model, [1, 2, 3], 10, temperature=0)
    out = [next(tokens), next(tokens)]
    with tg.no_grad():
        model.token.weight.copy_(tg.flip(model.token.weight, [0]))
    out.append(next(tokens))
    with tg.no_grad():
        assert out[2] == model([[1, 2, 3, *out[:2]]]).numpy()[0, -1].argmax()


def test_sequences_are_chosen() -> None:
    model, ids = gpt(), drawn_ids(3, 6)
    with tg.no_grad():
        cache = model.new_cache()
        model(ids, segments=np.ones((3, 6), int), cache=cache)
        cache.choose(np.array([2, 0]))
        found = model([[5], [6]], segments=[[1], [1]], cache=cache).numpy()
        whole = model(np.concatenate([ids[[2, 0]], [[5], [6]]], axis=1)).numpy()
    np.testing.assert_allclose(found[:, -1], whole[:, -1], rtol=0, atol=1e-12)


def test_what_a_cache_refuses() -> None:
    model = gpt()
    with pytest.raises(RuntimeError, match="no_grad"):
        model([[1]], cache=model.new_cache())
    with tg.no_grad():
        cache = model.new_cache()
        model(drawn_ids(1, 15), cache=cache)
        with pytest.raises(ValueError, match="17 ids in a row"):
            model([[1, 2]], cache=cache)
        with pytest.raises(ValueError, match="keeps 1 sequences, and keys of 2"):
            model([[1], [2]], cache=cache)
        with pytest.raises(ValueError, match="have no segments"):
            model([[1]], segments=[[1]], cache=cache)
        small = Cache(layers=1, capacity=2)
        with pytest.raises(ValueError, match="room for 2"):
            small[0].extend(tg.ones(1, 1, 3, 4), tg.ones(1, 1, 3, 4))
