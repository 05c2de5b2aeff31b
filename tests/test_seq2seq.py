"""Encoder-decoder: padding that nobody reads, answers written with a cache, beam search against all answers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.seq2seq import Seq2Seq, Seq2SeqConfig
from tinygrad_edu import nn
from tinygrad_edu.data import END_OF_TEXT, DataError, make_tokenizer
from tinygrad_edu.data.sides import SidesSource, sides
from tinygrad_edu.data.written import FIRST, TENS, UNITS, held_out, ordinal, words, written
from tinygrad_edu.generation import beam_search, generate
from tinygrad_edu.nn.functional import log_softmax
from tinygrad_edu.random import Generator


def seq2seq(**options: Any) -> Seq2Seq:
    tg.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": 7, "block_size": 9, "heads": 2, "width": 16, **options}
    model = Seq2Seq(Seq2SeqConfig(**shape)).to(tg.float64)
    with tg.no_grad():
        for p in model.parameters():
            p.mul_(5.0)
    return model.eval()


SOURCE = [[3, 1, 4, 1, 5], [2, 6, 5, 0, 0]]
MASK = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]


class TestModel:
    def test_padding_is_read_by_nobody(self) -> None:
        model = seq2seq()
        ids = [[1, 2, 3], [1, 4, 0]]
        together = model(ids, SOURCE, MASK).detach().numpy()
        alone = model(ids[1:], [SOURCE[1][:3]]).detach().numpy()
        np.testing.assert_allclose(together[1], alone[0], rtol=0, atol=1e-12)
        other = model(ids, [SOURCE[0], [2, 6, 5, 4, 4]], MASK).detach().numpy()
        np.testing.assert_array_equal(together, other)

    def test_an_answer_sees_nothing_of_what_follows_and_all_of_the_source(self) -> None:
        model = seq2seq()
        logits = model([[1, 2, 3, 4]], SOURCE[:1]).detach().numpy()
        np.testing.assert_allclose(model([[1, 2, 6, 6]], SOURCE[:1]).detach().numpy()[0, :2], logits[0, :2], atol=1e-12)
        for at in range(5):
            changed = [*SOURCE[0]]
            changed[at] = 6
            assert np.abs(model([[1, 2, 3, 4]], [changed]).detach().numpy() - logits).min(axis=-1).max() > 1e-4

    def test_every_parameter_learns(self) -> None:
        model = seq2seq()
        total, count = model.loss(
            sides([(np.array([3, 1, 4]), np.array([5])), (np.array([2]), np.array([6, 6]))], 1, 2)
        )
        assert count == 5
        total.backward()
        for name, p in model.named_parameters():
            assert p.grad is not None, name
            assert np.abs(p.grad.numpy()).max() > 0, name

    def test_what_it_refuses(self) -> None:
        model = seq2seq()
        with pytest.raises(ValueError, match="10 tokens of the source in a row"):
            model([[1]], [[1] * 10])
        with pytest.raises(ValueError, match="10 tokens of the source in a row"):
            model.answering([[1] * 10])
        with pytest.raises(ValueError, match="10 ids in a row"):
            model([[1] * 10], [[1]])
        with pytest.raises(ValueError, match="the mask has 2 positions, the source 3"):
            model([[1]], [[1, 2, 3]], [[1, 1]])
        with pytest.raises(ValueError, match="not a multiple of heads"):
            Seq2SeqConfig(vocab_size=3, width=10, heads=4)


class TestAnswers:
    def test_with_a_cache_as_without(self) -> None:
        model = seq2seq()
        answer = model.answering(SOURCE, MASK)
        drawn = generate(answer, [[1], [1]], 8, temperature=0)
        with tg.no_grad():
            for at in range(1, 9):
                logits = model(drawn[:, :at], SOURCE, MASK).numpy()[:, -1]
                assert drawn[:, at].tolist() == logits.argmax(axis=-1).tolist()
        cache = answer.new_cache()
        with tg.no_grad():
            parts = [answer(drawn[:, a : a + 1], cache=cache).numpy() for a in range(9)]
            whole = model(drawn, SOURCE, MASK).numpy()
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-12)

    def test_the_source_is_read_once(self) -> None:
        model, calls = seq2seq(), []
        model.encoder[0].register_forward_pre_hook(lambda *_: calls.append(1))
        generate(model.answering(SOURCE, MASK), [[1], [1]], 5)
        assert len(calls) == 1


class TestBeamSearch:
    def all_answers(self, model: Seq2Seq, tokens: int, stop: int, penalty: float) -> dict[tuple[int, ...], float]:
        """The score of every answer that has ended within `tokens`, or has not after all of them."""
        found: dict[tuple[int, ...], float] = {}
        V = model.config.vocab_size
        with tg.no_grad():
            for n in range(tokens + 1):
                for ids in itertools.product([i for i in range(V) if i != stop], repeat=n):
                    ln_p = log_softmax(model([[1, *ids]], [[3, 1, 4]])[0], dim=-1).numpy()
                    sure = sum(ln_p[t, i] for t, i in enumerate(ids))
                    if n < tokens:
                        found[ids] = (sure + ln_p[n, stop]) / ((6 + n) / 6) ** penalty
                    else:
                        found[ids] = sure / ((5 + n) / 6) ** penalty
        return found

    @pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
    def test_enough_beams_find_the_best_of_all(self, penalty: float) -> None:
        model = seq2seq(vocab_size=5)
        every = self.all_answers(model, 3, 2, penalty)
        best = sorted(every, key=lambda ids: -every[ids])
        found = beam_search(model.answering([[3, 1, 4]]), [1], 3, 64, stop=2, length_penalty=penalty)
        assert [tuple(f.ids.tolist()) for f in found[:10]] == best[:10]
        np.testing.assert_allclose([f.score for f in found[:10]], [every[ids] for ids in best[:10]], rtol=1e-10)

    def test_one_beam_is_greedy(self) -> None:
        model = seq2seq()
        greedy = generate(model.answering(SOURCE[:1]), [1], 6, temperature=0, stop=2)[1:].tolist()
        (found,) = beam_search(model.answering(SOURCE[:1]), [1], 6, 1, stop=2)
        assert found.ids.tolist() == [i for i in greedy if i != 2]

    def test_an_end_that_is_not_among_the_likeliest_is_no_answer(self) -> None:
        class Rule(nn.Module):
            config = Seq2SeqConfig(vocab_size=3)

            def forward(self, ids: Any) -> tg.Tensor:
                return tg.tensor(np.log([[[0.5, 0.2, 0.3]]] * len(ids)))  # token 2 ends a text

        (greedy,) = beam_search(Rule(), [0], 5, 1, stop=2)
        assert greedy.ids.tolist() == [0] * 5  # though [] would have the higher score, ln 0.3
        assert [] in [found.ids.tolist() for found in beam_search(Rule(), [0], 5, 2, stop=2)]

    def test_the_penalty_compares_lengths(self) -> None:
        class Rule(nn.Module):
            config = Seq2SeqConfig(vocab_size=3)

            def forward(self, ids: Any) -> tg.Tensor:
                logits = np.log([[0.3, 1e-30, 0.7]] * len(ids))  # token 2 ends a text
                if ids.shape[1] > 1:
                    logits[:] = np.log([0.99, 1e-30, 0.01]) if ids.shape[1] < 4 else np.log([1e-30, 1e-30, 1.0])
                return tg.tensor(logits[:, None])

        short, long = (beam_search(Rule(), [0], 5, 2, stop=2, length_penalty=p)[0] for p in (0.0, 9.0))
        assert short.ids.tolist() == []
        assert short.log_probability == pytest.approx(np.log(0.7))
        assert long.ids.tolist() == [0, 0, 0]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beams": 0}, "beams 0"),
            ({"tokens": 0}, "tokens 0"),
            ({"ids": []}, "ids"),
            ({"ids": [[1]]}, r"\(1, 1\)"),
        ],
    )
    def test_what_it_refuses(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            beam_search(**{"model": seq2seq(), "ids": [1], "tokens": 3, "beams": 2, "stop": 2, **options})


class TestWritten:
    def test_words_are_read_back(self) -> None:
        value = {word: number for number, word in enumerate(UNITS)}
        value |= {word: 10 * number for number, word in enumerate(TENS)}
        for number in [*range(1100), *range(1100, 1_000_000, 997), 999_999]:
            total = current = 0
            for word in words(number).replace("-", " ").split():
                if word == "hundred":
                    current *= 100
                elif word == "thousand":
                    total, current = current * 1000, 0
                elif word != "and":
                    current += value[word]
            assert total + current == number
        assert len({ordinal(n) for n in range(1, 100)}) == 99

    def test_what_is_measured_is_trained_on_nowhere(self) -> None:
        trained, measured = ({answer for _, answer in written(3000, part)} for part in (False, True))
        assert not trained & measured
        assert 0.08 < sum(map(held_out, range(100_000))) / 100_000 < 0.12
        assert 0.08 < sum(held_out(FIRST.toordinal() + i) for i in range(73_000)) / 73_000 < 0.12
        assert list(written(50, seed=1)) == list(written(50, seed=1)) != list(written(50, seed=2))

    def test_a_form_says_all_that_its_answer_says(self) -> None:
        answers: dict[str, str] = {}
        for asked, answer in written(20_000):
            assert answers.setdefault(asked, answer) == answer
        assert len({answer for answer in answers.values() if "-" in answer}) > 5000


class TestSource:
    def source(self, count: int = 10) -> SidesSource:
        pairs = [(f"{i}", f"{i * i}") for i in range(count)]
        tokenizer = make_tokenizer("char", ["0123456789"], 0, (END_OF_TEXT,))
        return SidesSource(pairs, [("3", "9"), ("44", "1")], tokenizer, 4)

    def test_each_pair_once_an_epoch(self) -> None:
        source, order = self.source(), Generator(3)
        rows = [tuple(row) for _ in range(4) for row in source.draw(5, order).source.tolist()]
        assert sorted(rows[:10]) == sorted(rows[10:])
        assert len(set(rows[:10])) == 10
        assert rows[:10] != rows[10:]

    def test_it_goes_on_where_it_stopped(self) -> None:
        source, order = self.source(), Generator(3)
        source.draw(7, order)
        other = self.source()
        other.load_state(source.state())
        assert source.state() == {"epoch": 0, "position": 7}
        assert [a.tolist() for a in source.draw(8, order)] == [a.tolist() for a in other.draw(8, Generator(3))]

    def test_every_label_is_measured_once(self) -> None:
        batches = list(self.source().held_out(1))
        assert sum((b.labels >= 0).sum() for b in batches) == 4
        assert self.source().tokens == sum(len(str(i * i)) + 1 for i in range(10))

    def test_what_it_refuses(self) -> None:
        tokenizer = make_tokenizer("char", ["0123456789"], 0, (END_OF_TEXT,))
        with pytest.raises(DataError, match="a side of 5 tokens"):
            SidesSource([("1", "1234")], [("1", "1")], tokenizer, 4)
        with pytest.raises(DataError, match="0 pairs to train on"):
            SidesSource([], [("1", "1")], tokenizer, 4)
        with pytest.raises(ValueError, match="begin and an end"):
            SidesSource([("1", "1")], [("1", "1")], tokenizer.bounded(False), 4)
        with pytest.raises(ValueError, match="among 10 examples"):
            self.source().load_state({"epoch": 0, "position": 10})
