"""What the four-step check of a ledger passes and fails."""

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.graph import Graph, trace


def check(graph: Graph) -> str:
    """The lines of the check, without the table."""
    return graph.ledger().partition("\n1. ")[2]


class Head(nn.Module):
    """A head whose mask is applied in one of several ways."""

    def __init__(self, mask: str) -> None:
        super().__init__()
        self.mask = mask
        self.q, self.k, self.v = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: Any, given: Any = None) -> Any:
        T = x.shape[1]
        q, k, v = self.q(x), self.k(x), self.v(x)
        lower = tg.tril(tg.ones(T, T))
        scores = q @ k.mT / 2
        if self.mask == "where":
            scores = tg.where(lower.bool(), scores, -float("inf"))
        if self.mask == "filled":
            scores = scores.masked_fill(lower == 0, -float("inf"))
        if self.mask == "added":
            scores = scores + tg.triu(tg.full((T, T), -float("inf")), 1)
        if self.mask == "given":
            scores = scores + given
        weights = scores.softmax(-1)
        if self.mask == "product after":
            weights = weights * lower
        if self.mask == "filled after":
            weights = weights.masked_fill(lower == 0, 0.0)
        return weights @ v


def masked(mask: str) -> Graph:
    given = (tg.triu(tg.full((5, 5), -float("inf")), 1),) if mask == "given" else ()
    return trace(Head(mask), tg.randn(2, 5, 6), *given)


class Partly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.unused = nn.Linear(3, 1), nn.Linear(9, 9)

    def forward(self, x: Any) -> Any:
        return self.a(x).sum()


class TestGradients:
    def test_parameters_that_nothing_reads_fail(self) -> None:
        graph = trace(Partly(), tg.ones(2, 3))
        assert "4. gradients: 3 branches, 0 sums where several meet\n" in check(graph)
        assert "   - FAIL: nothing reads unused.weight, unused.bias\n" in check(graph)
        assert "parameters that nothing reads: unused.weight, unused.bias" in graph.picture().remarks

    def test_frozen_parameters_may_stay_unread(self) -> None:
        model = Partly()
        model.unused.requires_grad_(False)
        assert "all that needs a gradient is reached" in check(trace(model, tg.ones(2, 3)))


class TestVisibility:
    @pytest.mark.parametrize("mask", ["where", "filled", "added", "given"])
    def test_a_mask_before_the_softmax(self, mask: str) -> None:
        graph = masked(mask)
        assert check(graph).count("causal: k ≤ q, 15 of 25 visible") == 1
        assert check(graph).count("visible") == 1
        (card,) = [card for card in graph.picture().cards() if card.kind == "visibility"]
        assert card.header.startswith("scores₂")
        words = {card.header.partition(" ")[0]: (card.kind, card.words) for card in graph.picture().cards()}
        assert words.get("equal", ("plain", "for token pairs")) == ("plain", "for token pairs")

    @pytest.mark.parametrize("mask", ["product after", "filled after"])
    def test_a_mask_after_the_softmax_fails(self, mask: str) -> None:
        (line,) = [line for line in check(masked(mask)).splitlines() if "after the softmax" in line]
        assert line.startswith("   - FAIL: line ")
        assert "weights₂ = " in line
        assert "10 of 25 hidden after the softmax: rows no longer sum to 1" in line
        (card,) = [card for card in masked(mask).picture().cards() if card.kind == "visibility"]
        assert (card.words, card.grid and card.grid.marked) == ("hides after the softmax", 10)
        assert "10 of 25 weights hidden after the softmax" in masked(mask).dot()

    def test_rows_made_to_sum_to_1_again(self) -> None:
        w = tg.randn(6, 6, requires_grad=True)

        def f(x: Any, lower: Any) -> Any:
            p = (x @ w @ x.mT).softmax(-1) * lower
            p = p / p.sum(-1, keepdim=True)
            return p @ x

        found = check(trace(f, tg.randn(5, 6), tg.tril(tg.ones(5, 5))))
        assert "10 of 25 hidden after the softmax, then rows are made to sum to 1 again" in found
        assert "causal: k ≤ q, 15 of 25 visible" in found
        assert "FAIL: 10" not in found

    def test_sequences_that_are_padded_to_different_lengths(self) -> None:
        def f(x: Any) -> Any:
            hidden = tg.tensor([[[False] * 3 + [True] * 2], [[False] * 4 + [True]]])
            return (x @ x.mT).masked_fill(hidden, -float("inf")).softmax(-1) @ x

        words = "padding: the same keys for every query, 15 of 25 visible in the first of several, which differ"
        assert words in check(trace(f, tg.randn(2, 5, 6, requires_grad=True)))

    def test_no_mask(self) -> None:
        assert "full: all 25 of 25 visible" in check(masked("none"))

    def test_every_step_has_its_line(self) -> None:
        lines = check(trace(nn.Linear(3, 1), tg.ones(2, 3))).splitlines()
        assert [line[:2] for line in lines[1:4]] == ["2.", "3.", "4."]
        assert lines[4:] == ["", "check: 1 of 4 lines failed"]


class TestShapes:
    def test_an_axis_that_is_only_a_length_is_not_named(self) -> None:
        def f(x: Any, W: Any) -> Any:
            return x @ W

        found = check(trace(f, tg.ones(2, 3), tg.ones(3, 8)))
        assert found.startswith("shapes: FAIL: 0 of 3 wires have a name for every axis; lengths only: x, W, matmul")
        names = {"x": "B D", "W": "D F"}
        assert check(trace(f, tg.ones(2, 3), tg.ones(3, 8), axes=names)).startswith("shapes: 3 of 3 wires")


class TestScaling:
    def test_a_scaled_part_is_no_mere_view(self) -> None:
        def f(x: Any) -> Any:
            z = x * 1
            z[1:] = x[:2] * 2
            z *= 3
            return z

        words = {card.header: card.words for card in trace(f, tg.ones(3, requires_grad=True)).picture().cards()}
        assert words["mul = x[:2] · 2"] == "mul"
        assert "shape only" not in words.values()

    def test_what_is_no_product_is_scaled_in_parentheses(self) -> None:
        def f(x: Any) -> Any:
            return tg.where(x > 0, x, 2.0) * 3

        headers = [card.header for card in trace(f, tg.ones(3, requires_grad=True)).picture().cards()]
        assert any("(x where " in header and ") · 3" in header for header in headers)


class Letters(nn.Module):
    """Attention as a user of einsum writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(tg.randn(6, 2, 3)) for _ in range(3))
        self.wo = nn.Parameter(tg.randn(2, 3, 6))

    def forward(self, x: Any) -> Any:
        q, k, v = (tg.einsum("btd,dhk->bhtk", x, w) for w in (self.wq, self.wk, self.wv))
        scores = tg.einsum("bhtk,bhsk->bhts", q, k) / 3**0.5
        weights = scores.softmax(-1)
        o = tg.einsum("bhts,bhsk->bthk", weights, v)
        return tg.einsum("bthk,hkd->btd", o, self.wo)


class TestEinsum:
    def test_axes_kinds_and_formulas(self) -> None:
        graph = trace(Letters(), tg.randn(2, 5, 6))
        cards = {card.header.partition(" ")[0]: card for card in graph.picture().cards() if card.role == "step"}
        assert "".join(text for text, _ in cards["q"].einsum) == "b t d, d h k -> b h t k"
        assert "".join(text for text, _ in cards["scores"].einsum) == "b h t k, b h s k -> b h t s"
        assert [cards[name].kind for name in ("q", "scores", "weights", "o")] == ["plain", "pairs", "pairs", "mixes"]
        assert [cards[name].contracts for name in ("q", "scores", "o")] == ["d", "k", "s"]
        assert cards["scores"].header == "scores = (Σ q·k over k) / √3"
        assert [(row.formula, row.note) for row in cards["o"].rows] == [
            ("dweights = Σ do·v over k", "contract k"),
            ("dv = Σ do·weights over t", "contract t"),
        ]
        wq = next(row for row in cards["q"].rows if row.formula.startswith("dwq"))
        assert (wq.formula, wq.note) == ("dwq = Σ dq·x over b t", "sum over b t")

    def test_checks_and_totals(self) -> None:
        graph = trace(Letters(), tg.randn(2, 5, 6))
        assert "FAIL" not in check(graph)
        assert "Q, K, V share one source, x: self-attention" in check(graph)
        assert "full: all 25 of 25 visible" in check(graph)
        assert f"multiply-adds forward: {4 * 2 * 5 * 6 * 6 + 2 * 2 * 5 * 5 * 6:,}" in graph.ledger()

    def test_values_may_stand_first(self) -> None:
        W = tg.randn(6, 4, requires_grad=True)

        def f(x: Any) -> Any:
            q, k = x @ W, x @ W
            weights = tg.einsum("bsd,btd->bts", k, q).softmax(-1)
            return tg.einsum("bsd,bts->btd", x, weights)

        graph = trace(f, tg.randn(2, 5, 6))
        assert "Q, K, V share one source, x: self-attention" in check(graph)

    def test_other_forms(self) -> None:
        def f(x: Any, y: Any) -> Any:
            return (
                tg.einsum("ij->ji", x),
                tg.einsum("ij->i", x),
                tg.einsum("i,j->ij", y, y),
                tg.einsum("i,i,i", y, y, y),
                tg.einsum("i,i->i", y, y),
            )

        headers = [c.header for c in trace(f, tg.ones(2, 3), tg.ones(4)).picture().cards() if c.role == "step"]
        texts = [header.partition(" = ")[2] for header in headers]
        assert texts[-4:] == ["Σ x over j", "y·y", "Σ y·y·y over i", "y ⊙ y"]


class TestSources:
    def test_a_decoder_layer_reads_two_streams(self) -> None:
        class Outer(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.TransformerDecoderLayer(6, 2, 8, dropout=0.0, batch_first=True)

            def forward(self, t: Any, mem: Any) -> Any:
                return self.layer(t, mem)

        found = check(trace(Outer(), tg.randn(2, 5, 6), tg.randn(2, 7, 6)))
        assert "Q, K, V share one source, t: self-attention" in found
        assert "Q from t, K and V from mem: cross-attention" in found

    def test_a_whole_transformer(self) -> None:
        model = nn.Transformer(6, 2, 2, 2, 8, dropout=0.0, batch_first=True)
        found = check(trace(model, tg.randn(2, 7, 6), tg.randn(2, 5, 6)))
        assert found.count("self-attention") == 4
        assert found.count("Q from tgt, K and V from src: cross-attention") == 2

    @pytest.mark.parametrize("mask", ["where", "filled", "added", "given", "none"])
    def test_masks_do_not_hide_the_source(self, mask: str) -> None:
        assert "Q, K, V share one source, x: self-attention" in check(masked(mask))


class TestRoles:
    def test_one_projection_for_queries_and_keys(self) -> None:
        linear = nn.Linear(6, 4)

        def f(x: Any) -> Any:
            q = linear(x)
            return (q @ q.mT).softmax(-1) @ q

        axes = ["".join(text for text, _ in card.einsum) for card in trace(f, tg.randn(2, 5, 6)).picture().cards()]
        assert [text for text in axes if text] == [
            "2 5 6, 4 6 -> 2 5 4",
            "2 q 4, 2 4 k -> 2 q k",
            "2 q k, 2 k 4 -> 2 q 4",
        ]


def test_a_square_reads_well() -> None:
    rows = [
        row.formula
        for card in trace(lambda x: x**2, tg.ones(3, requires_grad=True)).picture().cards()
        for row in card.rows
    ]
    assert "dx = 2 · dpow ⊙ x" in rows


KEEP = tg.tril(tg.ones(5, 5))
DISTANCE = tg.tensor([[-0.5 * abs(q - k) for k in range(5)] for q in range(5)])


def assigned(scores: Any, low: float) -> Any:
    scores = scores.clone()
    scores[..., KEEP == 0] = low
    return scores


# causal masks that write a finite number
FINITE = {
    "filled": lambda s, low: s.masked_fill(KEEP == 0, low),
    "where": lambda s, low: tg.where(KEEP.bool(), s, low),
    "where, a tensor": lambda s, low: tg.where(KEEP.bool(), s, tg.tensor(low)),
    "added": lambda s, low: s + (1 - KEEP) * low,
    "subtracted, as in GPT-2": lambda s, low: s * KEEP - (1 - KEEP) * -low,
    "assigned": assigned,
    "with a bias of distances": lambda s, low: s + (DISTANCE + (1 - KEEP) * low),
    "scaled afterwards": lambda s, low: s.masked_fill(KEEP == 0, low * 8) / 8,
}


def attended(
    mask: Any,
    low: float,
    shape: tuple[int, ...] = (5, 4),
    by_hand: bool = False,
    dtype: Any = None,
    **said: Any,
) -> Graph:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = mask(q @ k.mT / 2, low)
        if not by_hand:
            return scores.softmax(-1) @ v
        e = (scores - scores.amax(-1, keepdim=True)).exp()
        return (e / e.sum(-1, keepdim=True)) @ v

    tg.manual_seed(0)
    return trace(attention, *(tg.randn(*shape, dtype=dtype, requires_grad=True) for _ in range(3)), **said)


@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 5, 4)], ids=str)
@pytest.mark.parametrize("mask", FINITE.values(), ids=FINITE.keys())
class TestFiniteMasks:
    """A key is hidden where its weight is 0 in float64, almost hidden where a mask left it more."""

    @pytest.mark.parametrize("low", [-1e4, -65504.0, -1e5, -3.4e37])
    def test_a_weight_of_0_is_hidden(self, mask: Any, shape: tuple[int, ...], low: float) -> None:
        graph = attended(mask, low, shape, visibility="causal")
        (line,) = [line for line in check(graph).splitlines() if "visible" in line]
        assert line.endswith("causal: k ≤ q, 15 of 25 visible")
        assert "FAIL" not in line
        (card,) = [card for card in graph.picture().cards() if card.kind == "visibility"]
        assert card.grid is not None
        assert (card.grid.marked, card.grid.almost) == (10, 0)

    @pytest.mark.parametrize("low", [-20.0, -100.0, -700.0])
    def test_a_weight_above_0_is_almost_hidden(self, mask: Any, shape: tuple[int, ...], low: float) -> None:
        graph = attended(mask, low, shape)
        (line,) = [line for line in check(graph).splitlines() if "visible" in line]
        assert "causal: k ≤ q, 15 of 25 visible, 10 almost hidden with weights up to " in line
        assert "the mask is finite, and training can outgrow it" in line
        size = float(line.partition("weights up to ")[2].partition(":")[0])
        assert 0 < size < 1e3 * np.exp(low)
        (card,) = [card for card in graph.picture().cards() if card.kind == "visibility"]
        assert card.grid is not None
        assert (card.grid.marked, card.grid.almost) == (10, 10)
        assert "10 almost hidden" in graph.dot()
        assert "FAIL" in check(attended(mask, low, shape, visibility="causal"))

    @pytest.mark.filterwarnings("error")
    def test_float16(self, mask: Any, shape: tuple[int, ...]) -> None:
        for low in (-8000.0, -20.0):
            graph = attended(lambda s, low: mask(s.float(), low).half(), low, shape, dtype=tg.float16)
            (line,) = [line for line in check(graph).splitlines() if "visible" in line]
            assert "causal: k ≤ q, 15 of 25 visible" in line
            assert ("almost hidden" in line) == (low == -20.0)


APART = tg.tensor([[float(k - q) for k in range(5)] for q in range(5)])
PAST = APART.minimum(tg.tensor(0.0))
LATER = tg.where(KEEP.bool(), 0.0, -float("inf"))
DOCUMENTS = tg.where(tg.tensor([[(q < 3) == (k < 3) for k in range(5)] for q in range(5)]), 0.0, -float("inf"))
BESIDE = {
    "causal, after the bias": lambda s, slope: s + slope * PAST + LATER,
    "causal, before the bias": lambda s, slope: (s + LATER) + slope * PAST,
    "causal, in one with the bias": lambda s, slope: s + (slope * PAST + LATER),
    "causal, finite": lambda s, slope: (s + slope * PAST).masked_fill(KEEP == 0, -1e4),
    "causal, finite, in one with the bias": lambda s, slope: s + (slope * PAST + (1 - KEEP) * -1e4),
    "causal, of a bias of both sides": lambda s, slope: (s - slope * APART.abs()).masked_fill(KEEP == 0, -float("inf")),
    "documents": lambda s, slope: s + slope * PAST + LATER + DOCUMENTS,
    "none": lambda s, slope: s - slope * APART.abs(),
}


class TestBiasOfDistances:
    """A key whose weight is 0 for its distance alone, as with ALiBi, is far and not hidden."""

    @pytest.mark.parametrize("name", BESIDE)
    @pytest.mark.parametrize("slope", [0.1, 4.0, 8.0, 60.0, 300.0, 1000.0])
    @pytest.mark.parametrize("shape", [(5, 4), (2, 3, 5, 4)], ids=str)
    def test_it_is_no_mask(self, name: str, slope: float, shape: tuple[int, ...]) -> None:
        found = check(attended(BESIDE[name], slope, shape))
        (line,) = [line for line in found.splitlines() if "visible" in line]
        kind, seen = "causal: k ≤ q", [(q, k) for q in range(5) for k in range(q + 1)]
        if name == "documents":
            kind, seen = "causal in documents", [(q, k) for q, k in seen if (q < 3) == (k < 3)]
        if name == "none":
            kind, seen = "full: ", [(q, k) for q in range(5) for k in range(5)]
        assert f"): {kind}" in line
        assert f"{len(seen)} of 25 visible" in line
        assert "almost" not in line
        at_least = sum(slope * abs(q - k) > 800 for q, k in seen)  # scores differ by a few
        at_most = sum(slope * abs(q - k) > 700 for q, k in seen)
        assert ("a bias lowers scores with distance" in line) == (at_most > 0)
        if at_most:
            assert at_least <= int(line.partition("up to ")[2].split()[0]) <= at_most

    def test_heads_with_slopes_of_their_own(self) -> None:
        slopes = tg.tensor([1.0, 300.0, 1000.0]).view(3, 1, 1)
        graph = attended(lambda s, low: s + slopes * PAST + LATER, 0.0, (2, 3, 5, 4), visibility="causal")
        assert "causal: k ≤ q, 15 of 25 visible, up to 10 of them with the weight 0" in check(graph)
        assert "FAIL: declared" not in check(graph)
        assert "of them with the weight 0" in " ".join(graph.dot().split())

    def test_a_bias_that_is_not_in_proportion_to_the_distance(self) -> None:
        learned = tg.tensor(np.random.default_rng(0).normal(size=(3, 5, 5)).astype(np.float32))
        assert "causal: k ≤ q, 15 of 25 visible\n" in check(
            attended(lambda s, low: s + learned + LATER, 0.0, (2, 3, 5, 4))
        )
        assert "full: all 25 of 25 visible" in check(attended(lambda s, low: s + learned, 0.0, (2, 3, 5, 4)))

    def test_a_bias_of_both_sides_is_not_causal(self) -> None:
        graph = attended(BESIDE["none"], 1000.0, visibility="causal")
        (line,) = [line for line in check(graph).splitlines() if "visible" in line]
        assert "declared causal, but full: every key, 25 of 25 visible" in line
        assert "FAIL" in line

    def test_a_window_is_a_mask(self) -> None:
        for low in (-1e4, -20.0, -float("inf")):
            graph = attended(lambda s, low: s.masked_fill(APART.abs() > 1, low), low)
            assert "13 of 25 visible" in check(graph)


class TestHiddenByWeight:
    @pytest.mark.parametrize(("low", "words"), [(-1e4, "\n"), (-100.0, ", 10 almost hidden")])
    def test_a_softmax_by_hand(self, low: float, words: str) -> None:
        assert f"causal: k ≤ q, 15 of 25 visible{words}" in check(attended(FINITE["filled"], low, by_hand=True))

    def test_a_row_that_is_masked_whole_with_a_finite_number_sees_every_key(self) -> None:
        row = tg.tensor([[True] * 5] + [[False] * 5] * 4)
        found = check(attended(lambda s, low: s.masked_fill(row, low), -1e4))
        assert "20 of 25 visible, 5 almost hidden with weights up to 2.0e-01" in found

    def test_a_bias_of_distances_is_no_mask(self) -> None:
        assert "full: all 25 of 25 visible" in check(attended(lambda s, low: s + 8 * DISTANCE, 0.0))

    def test_scores_far_apart_hide_keys_without_a_mask(self) -> None:
        graph = attended(lambda s, low: s * 1e4, 0.0)
        assert "full" not in check(graph)
        assert "almost" not in check(graph)
        assert not [card for card in graph.picture().cards() if card.kind == "visibility"]

    def test_two_masks_of_different_make(self) -> None:
        found = check(attended(lambda s, low: FINITE["filled"](s, -np.inf) + tg.tensor([0, 0, 0, low, low]), -1e4))
        assert "causal and padding: k ≤ q, the same keys for every query, 12 of 25 visible" in found
