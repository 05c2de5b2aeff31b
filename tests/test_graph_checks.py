"""What the four-step check of a ledger passes and fails."""

from typing import Any

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
        assert "4. gradients: 3 branches, 0 sums where several meet; FAIL: nothing reads" in check(graph)
        assert "FAIL: nothing reads unused.weight, unused.bias\n" in check(graph)
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

    @pytest.mark.parametrize("mask", ["product after", "filled after"])
    def test_a_mask_after_the_softmax_fails(self, mask: str) -> None:
        assert "FAIL: 10 of 25 hidden after the softmax: rows no longer sum to 1" in check(masked(mask))
        (card,) = [card for card in masked(mask).picture().cards() if card.kind == "visibility"]
        assert (card.words, card.grid and card.grid.marked) == ("hides after the softmax", 10)
        assert "10 of 25 weights hidden after the softmax" in masked(mask).dot()

    def test_no_mask(self) -> None:
        assert "full: all 25 of 25 visible" in check(masked("none"))

    def test_every_step_has_its_line(self) -> None:
        lines = check(trace(nn.Linear(3, 1), tg.ones(2, 3))).splitlines()
        assert [line[:2] for line in lines[1:]] == ["2.", "3.", "4."]


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
