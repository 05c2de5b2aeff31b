"""Sampling from logits and the generation loop."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.data import CharTokenizer
from tinygrad_edu.generation import generate, measuring, probabilities, sample, stream, write
from tinygrad_edu.generation.sampling import penalised
from tinygrad_edu.generation.text import until


def rounded(*args: Any, **kwargs: Any) -> Any:
    return probabilities(*args, **kwargs).round(4).tolist()


# probabilities


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [
        (0, [0, 1, 0]),
        (1e-8, [0, 1, 0]),
        (1e-300, [0, 1, 0]),
        (1, [0.0900, 0.6652, 0.2447]),
        (float("inf"), [0.3333, 0.3333, 0.3333]),
    ],
)
def test_temperature(temperature: float, expected: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rounded(np.array([1, 3, 2], np.float32), temperature) == expected


def test_what_is_ruled_out_stays_out_at_any_temperature() -> None:
    for temperature in (0, 1e-8, 1, float("inf")):
        assert rounded([0.0, -np.inf, 0.0], temperature)[1] == 0
    assert rounded([0.0, -np.inf, 0.0], float("inf")) == [0.5, 0, 0.5]


def test_temperature_zero_takes_the_first_of_equals() -> None:
    assert rounded([[1, 2, 2], [0, 0, 0]], 0) == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("temperature", [-1, float("nan"), float("-inf")])
def test_temperature_out_of_range(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature"):
        probabilities([1.0, 3.0, 2.0], temperature)


@pytest.mark.parametrize("top_k", [3, 50, None, 0])
def test_top_k_that_keeps_all(top_k: int | None) -> None:
    assert rounded([0, 1, 2], top_k=top_k) == [0.0900, 0.2447, 0.6652]


@pytest.mark.parametrize(("top_k", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)])
def test_top_k_out_of_range(top_k: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="top_k"):
        probabilities([0.0, 1.0, 2.0], top_k=top_k)


def test_top_k_removes_also_among_negative_logits() -> None:
    assert rounded([-4, -1, -6], top_k=1) == [0, 1, 0]


def test_top_k_keeps_exactly_k_of_equals() -> None:
    assert rounded([1, 1, 1, 0], top_k=2) == [0.5, 0.5, 0, 0]


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [
        (1, [0.1, 0.2, 0.3, 0.4]),
        (None, [0.1, 0.2, 0.3, 0.4]),
        (0.71, [0, 0.2222, 0.3333, 0.4444]),
        (0.69, [0, 0, 0.4286, 0.5714]),
        (0.4, [0, 0, 0, 1]),
        (1e-9, [0, 0, 0, 1]),
    ],
)
def test_top_p(top_p: float | None, expected: list[float]) -> None:
    assert rounded(np.log([0.1, 0.2, 0.3, 0.4]), top_p=top_p) == expected


@pytest.mark.parametrize("top_p", [0, -0.5, 1.1, float("nan")])
def test_top_p_out_of_range(top_p: float) -> None:
    with pytest.raises(ValueError, match="top_p"):
        probabilities([0.0, 1.0], top_p=top_p)


def test_top_p_is_taken_of_what_top_k_left() -> None:
    assert rounded(np.log([0.1, 0.2, 0.3, 0.4]), top_k=2, top_p=0.56) == [0, 0, 0, 1]


def test_padded_rows_of_the_vocabulary_are_never_likely() -> None:
    logits = [1.0, 2, 0, 0, 0, 9, 9, 9]
    e = np.e
    choices: list[dict[str, Any]] = [{}, {"top_k": 7}, {"top_p": 0.9999999}]
    for options in choices:
        p = probabilities(logits, vocab_size=5, **options)
        assert abs(p[1] - e**2 / (e + e**2 + 3)) < 1e-9
        assert p[5:].tolist() == [0, 0, 0]
    assert probabilities(logits, 0, vocab_size=5).argmax() == 1
    with pytest.raises(ValueError, match="vocab_size is 9"):
        probabilities(logits, vocab_size=9)


@pytest.mark.parametrize("logits", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_logits_of_a_diverged_model(logits: list[float]) -> None:
    for temperature in (0, 1):
        with pytest.raises(ValueError, match="diverged"):
            probabilities(logits, temperature)


@pytest.mark.parametrize("logits", [3.0, np.zeros((2, 0))])
def test_logits_without_a_vocabulary(logits: Any) -> None:
    with pytest.raises(ValueError, match="no vocabulary"):
        probabilities(logits)


# sample


def test_softmax_is_applied_once() -> None:
    p = probabilities(np.broadcast_to([2.0, 0.0], (20000, 2)))
    assert abs((sample(p, np.random.default_rng(0)) == 0).mean() - 0.8808) < 0.01


def test_an_impossible_id_is_never_drawn() -> None:
    class Edge:
        """A generator that draws the ends of its range."""

        def __init__(self, value: float) -> None:
            self.value = value

        def random(self, shape: Any) -> np.ndarray:
            return np.full(shape, self.value)

    for value, expected in ((0.0, 1), (np.nextafter(1, 0), 3), (1.0, 3)):
        assert sample([0, 0.1, 0, 0.9, 0], Edge(value)).item() == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [[2.0, 0.0], [1.5, -0.5], [np.nan, 1.0]])
def test_sample_refuses_what_is_no_distribution(rows: list[float]) -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        sample(rows, np.random.default_rng(0))


# the loop


@dataclass(frozen=True)
class Config:
    vocab_size: int
    block_size: int


class Toy(nn.Module):
    """Logits from any function of the ids it was shown; counts its calls and keeps what it saw."""

    def __init__(self, rule: Any, vocab_size: int = 7, block_size: int = 6) -> None:
        super().__init__()
        self.config = Config(vocab_size, block_size)
        self.rule = rule
        self.seen: list[list[list[int]]] = []
        self.dropout = nn.Dropout(0.5)

    def forward(self, ids: np.ndarray) -> tg.Tensor:
        assert not self.dropout.training
        assert not tg.is_grad_enabled()
        self.seen.append(ids.tolist())
        B, T = ids.shape
        logits = np.zeros((B, T, self.config.vocab_size), np.float32)
        logits[np.arange(B), -1, self.rule(ids, len(self.seen) - 1)] = 50
        return tg.Tensor(logits)


def after_last(ids: np.ndarray, _: int) -> np.ndarray:
    return (ids[:, -1] + 1) % 7


def test_generation_reads_the_last_block_size_tokens() -> None:
    model = Toy(lambda ids, _: ids.sum(axis=1) % 7)
    out = generate(model, [1, 2, 3, 4, 5], 4)
    assert [len(seen[0]) for seen in model.seen] == [5, 6, 6, 6]
    for step, seen in enumerate(model.seen):
        assert seen[0] == out[: 5 + step][-6:].tolist()
    assert len(generate(Toy(after_last), np.arange(7).repeat(2) % 7, 2)) == 16


def test_one_token_is_enough_and_none_is_not() -> None:
    assert generate(Toy(after_last), [3], 3).tolist() == [3, 4, 5, 6]
    prompts: list[Any] = [[], np.zeros((2, 0), int)]
    for prompt in prompts:
        with pytest.raises(ValueError, match="prompt is empty"):
            generate(Toy(after_last), prompt, 3)


def test_no_tokens_gives_the_prompt_without_asking_the_model() -> None:
    model = Toy(after_last)
    assert generate(model, [3, 4], 0).tolist() == [3, 4]
    assert generate(model, [[3, 4], [5, 6]], 0).tolist() == [[3, 4], [5, 6]]
    assert list(stream(model, [3, 4], 0)) == []
    assert model.seen == []


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": -1},
        {"tokens": 1.5},
        {"temperature": -1},
        {"top_k": -1},
        {"top_p": 0},
        {"repetition_penalty": float("inf")},
    ],
)
def test_wrong_options_are_refused_before_the_model_runs(options: dict[str, Any]) -> None:
    model = Toy(after_last)
    for function in (generate, stream):
        with pytest.raises((ValueError, TypeError), match=next(iter(options))):
            function(model, [1], **{"tokens": 3, **options})
    assert model.seen == []


@pytest.mark.parametrize("ids", [[0.5], [[[1]]]])
def test_a_prompt_is_ids(ids: Any) -> None:
    with pytest.raises(ValueError, match="token ids"):
        generate(Toy(after_last), ids, 1)


def test_rows_that_end_at_different_times() -> None:
    emitted = np.array([[9, 4, 4, 4, 4], [4, 5, 9, 4, 4]])
    model = Toy(lambda _, step: emitted[:, step], vocab_size=10)
    out = generate(model, [[1], [2]], 5, stop=9, pad=0)
    assert out.tolist() == [[1, 9, 0, 0], [2, 4, 5, 9]]
    assert len(model.seen) == 3


def test_seed_decides() -> None:
    model = Toy(after_last)
    model.rule = lambda ids, _: 0
    flat: dict[str, Any] = {"temperature": float("inf")}
    draws = [generate(model, [0], 30, seed=seed, **flat).tolist() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert list(stream(model, [0], 30, seed=1, **flat)) == draws[0][1:]
    assert len(set(draws[0])) > 3


def test_streaming_leaves_no_mode_behind() -> None:
    model = Toy(after_last)
    frozen = model.dropout.eval()
    tokens = stream(model, [1], 3)
    assert next(tokens) == 2
    assert model.training
    assert not frozen.training
    assert tg.is_grad_enabled()


def test_measuring_puts_every_mode_back_after_an_error() -> None:
    model = Toy(after_last)
    with pytest.raises(ValueError, match="sum to 1"), measuring(model):
        sample([2.0], np.random.default_rng(int(model.training)))
    assert model.training
    assert model.dropout.training
    assert tg.is_grad_enabled()


def blas_threads() -> list[int]:
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


class TestThreadsOfProducts:
    def watched(self, side: int) -> Toy:
        """A model with one weight [side, side] that notes the thread counts of its products."""

        def rule(ids: np.ndarray, call: int) -> Any:
            self.inside.append(blas_threads())
            if call == 2:
                raise ZeroDivisionError
            return 0

        self.inside: list[list[int]] = []
        model = Toy(rule)
        model.weight = nn.Parameter(tg.zeros(side, side))
        return model

    def test_small_products_are_made_by_one_thread(self) -> None:
        before = blas_threads()
        generate(self.watched(8), [1], 2)
        assert self.inside == [[1] * len(before)] * 2
        assert blas_threads() == before

    def test_large_products_have_them_all(self) -> None:
        before = blas_threads()
        generate(self.watched(4096), [1, 2, 3], 2)
        assert self.inside == [before] * 2

    def test_they_come_back_after_an_error(self) -> None:
        before = blas_threads()
        with pytest.raises(ZeroDivisionError):
            generate(self.watched(8), [1], 3)
        assert len(self.inside) == 3
        assert blas_threads() == before

    def test_whoever_reads_a_stream_has_them_all_in_between(self) -> None:
        before = blas_threads()
        for _ in stream(self.watched(8), [1], 2):
            assert blas_threads() == before
        assert self.inside == [[1] * len(before)] * 2


@pytest.mark.parametrize(
    ("min_p", "expected"), [(None, [0.5, 0.3, 0.2]), (0.0, [0.5, 0.3, 0.2]), (0.5, [0.625, 0.375, 0]), (1.0, [1, 0, 0])]
)
def test_min_p(min_p: float | None, expected: list[float]) -> None:
    found = probabilities(np.log([0.5, 0.3, 0.2]), min_p=min_p)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_token_in_the_text_becomes_less_likely() -> None:
    logits = [[2.0, -1.0, 3.0], [2.0, -1.0, 3.0]]
    found = penalised(logits, [[2, 2], [0, 1]], 2.0, [[True, True], [False, True]])
    assert found.tolist() == [[2.0, -1.0, 1.5], [2.0, -2.0, 3.0]]
    model = Toy(lambda ids, _: 3)
    assert generate(model, [1], 3, temperature=0).tolist() == [1, 3, 3, 3]
    assert generate(model, [1], 3, temperature=0, repetition_penalty=1e9).tolist() == [1, 3, 3, 3]  # 50 / 1e9 is most
    for penalty in (5e-324, 1e-320, 1e308):  # the quotient or the product would be infinite
        assert generate(model, [1], 3, repetition_penalty=penalty).shape == (4,)
    assert penalised([2.0, -np.inf, -3.0], [0, 1, 2], 1e308)[1] == -np.inf
    with pytest.raises(ValueError, match="repetition_penalty is 0"):
        generate(model, [1], 3, repetition_penalty=0)
    with pytest.raises(ValueError, match=r"min_p is 1\.5"):
        generate(model, [1], 3, min_p=1.5)


def test_several_tokens_to_stop_at() -> None:
    assert generate(Toy(after_last), [1], 9, stop=[5, 3]).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("pieces", "stop", "expected"),
    [
        (["ab", "cd"], [], "abcd"),
        (["ab", "cd"], ["bc"], "a"),
        (["a", "b", "a", "b", "c", "d"], ["abc"], "ab"),
        (["aab"], ["ab", "aa"], ""),
        (["ab", "x"], ["abc"], "abx"),
        (["ab"], ["abc"], "ab"),
        (["", "a", ""], ["b"], "a"),
    ],
)
def test_text_ends_before_the_first_text_to_stop_at(pieces: list[str], stop: list[str], expected: str) -> None:
    assert "".join(until(pieces, stop)) == expected


def test_text_is_given_out_as_soon_as_it_can_be_no_beginning_of_a_stop() -> None:
    given = until(iter(["x", "a", "b", "y", "a"]), ["abc"])
    assert list(given) == ["x", "aby", "a"]


def test_a_prompt_is_written_on() -> None:
    tokenizer = CharTokenizer.of("abcdefg")
    model = Toy(after_last)
    assert "".join(write(model, tokenizer, "ab", 4)) == "cdef"
    assert "".join(write(model, tokenizer, "ab", 9, stop=["fg", "e"])) == "cd"
    assert "".join(write(model, tokenizer, "", 2)) == "bc"
    with pytest.raises(ValueError, match="empty text"):
        write(model, tokenizer, "ab", 4, stop=[""])
    with pytest.raises(ValueError, match="not among the 7 characters"):
        write(model, tokenizer, "xyz", 4)
