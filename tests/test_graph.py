"""The record of a trace, the names and axes in it, and the picture made of it."""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models import GPT, GPTConfig
from tinygrad_edu import nn
from tinygrad_edu.data import Batch
from tinygrad_edu.graph import Graph, trace
from tinygrad_edu.graph.picture import Card
from tinygrad_edu.graph.trace import run
from tinygrad_edu.nn import functional as F
from tools.draw import graph_of, graph_of_file

GOLDEN = Path(__file__).parent / "golden"


def head() -> Graph:
    return graph_of_file(f"{GOLDEN / 'heads.py'}:head")


def whole(graph: Graph) -> list[Card]:
    """The cards of all steps, none folded."""
    return graph.picture(open="*", max_nodes=None).cards()


def headers(graph: Graph) -> list[str]:
    return [card.header for card in whole(graph)]


def rows(graph: Graph, kind: str = "branch") -> list[str]:
    return [row.formula for card in whole(graph) for row in card.rows if row.kind == kind]


class TestRecord:
    def test_every_branch_has_the_shape_of_its_input(self) -> None:
        for graph in (head(), graph_of("bigram"), graph_of("gpt")):
            for branch in graph.record.branches:
                assert branch.shape == graph.record.values[branch.value].shape
                assert graph.record.values[branch.gradient].shape == branch.shape

    @pytest.mark.parametrize("tied", [True, False])
    def test_gradients_are_those_of_backward_and_nothing_else_changes(self, tied: bool) -> None:
        tg.manual_seed(1)
        config = GPTConfig(vocab_size=11, block_size=7, layers=1, heads=3, width=12, bias=True, tied=tied)
        model = GPT(config).to(dtype=tg.float64)
        batch = Batch(np.arange(10).reshape(2, 5), np.arange(10).reshape(2, 5) + 1)
        before = model.loss(batch)[0].item()
        _, gradients, (total, count) = run(model.loss, (batch,))
        assert count == 10
        assert total.item() == pytest.approx(before, rel=1e-12)
        assert all(p.grad is None for p in model.parameters())
        assert model.loss(batch)[0].item() == before
        model.loss(batch)[0].backward()
        arrived = {id(a.holder): a.gradient.array for a in gradients}
        assert len(arrived) == len(list(model.parameters()))
        for parameter in model.parameters():
            assert parameter.grad is not None
            np.testing.assert_allclose(arrived[id(parameter)], parameter.grad.array, rtol=1e-10, atol=1e-13)

    def test_the_result_can_still_be_differentiated(self) -> None:
        x = tg.ones(3, requires_grad=True)
        kept = []
        trace(lambda: kept.append((x * x).sum()))
        kept[0].backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0, 2.0]

    def test_backward_inside_the_function_is_refused(self) -> None:
        x = tg.ones(3, requires_grad=True)
        with pytest.raises(ValueError, match="the function runs backward itself"):
            trace(lambda: (x * x).sum().backward())

    def test_an_error_leaves_the_thread_as_it_was(self) -> None:
        before = sys.gettrace()
        with pytest.raises(ZeroDivisionError):
            trace(lambda: 1 / 0)
        assert sys.gettrace() is before
        assert (tg.ones(1) + 1).item() == 2

    def test_sums_are_those_of_the_pass(self) -> None:
        for graph in (head(), graph_of("gpt")):
            sums = sum(formula.count(" + ") for formula in rows(graph, "sum"))
            assert sums == len(graph.record.sums) > 0

    def test_modules(self) -> None:
        record = graph_of("gpt").record
        paths = [call.path for call in record.calls]
        assert paths[:4] == ["", "token", "position", "dropout"]
        assert "blocks.1.feed_forward.down" in paths
        ops = {record.calls[a.call].path: a.op for a in record.forward if a.call is not None}
        assert ops["blocks.0.attention.qkv"] == "split" or ops["blocks.0.attention.qkv"] == "linear"

    def test_what_is_saved(self) -> None:
        record = trace(lambda x: x.exp().sum(), tg.ones(4, requires_grad=True)).record
        exp = record.forward[0]
        assert [(s.name, s.bytes, s.value) for s in exp.saved] == [("out", 16, exp.outputs[0])]
        assert record.branches[-1].reads == ("out",)

    def test_the_json_is_the_record(self) -> None:
        graph = graph_of("bigram")
        found = json.loads(graph.json())
        assert [a["op"] for a in found["forward"]] == [a.op for a in graph.record.forward]
        assert found["forward"][0]["line"]["text"]


class TestNames:
    def test_local_variables_and_rebinding(self) -> None:
        def f(x: Any) -> Any:
            x = x * 2
            x = x.exp()
            y, z = x + 1, x.tanh()
            return y * z

        graph = trace(f, tg.ones(2, requires_grad=True))
        assert headers(graph)[:5] == ["x₁", "x₂ = x₁ · 2", "x₃ = exp x₂", "y = x₃ + 1", "z = tanh x₃"]

    def test_changes_in_place_are_values_of_their_own(self) -> None:
        def f(x: Any) -> Any:
            y = x * 2
            y += 1
            return y.exp()

        assert headers(trace(f, tg.ones(2, requires_grad=True)))[:4] == [
            "x",
            "y₁ = x · 2",
            "y₂ = y₁ + 1",
            "exp = exp y₂",
        ]

    def test_attention_is_opened_with_dropout_as_well(self) -> None:
        q = tg.ones(1, 3, 4, requires_grad=True)
        graph = trace(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5, is_causal=True), q)
        assert headers(graph)[1:5] == [
            "scores₁ = q·qᵀ / √4",
            "scores₂ = −∞ where mask, else scores₁",
            "weights₁ = softmax(scores₂)",
            "weights₂ = dropout(weights₁)",
        ]

    def test_the_callers_name_wins(self) -> None:
        def double(a: Any) -> Any:
            inner = a * 2
            return inner

        def f(x: Any) -> Any:
            q = double(x)
            return q.exp()

        assert "q = x · 2" in headers(trace(f, tg.ones(2)))

    def test_modules_name_what_they_return(self) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 3)

            def forward(self, x: Any) -> Any:
                return x + self.down(F.gelu(self.up(x)))

        graph = trace(Net(), tg.ones(2, 3))
        assert "up = x·W_upᵀ + b_up" in headers(graph)
        assert "add = x + down" in headers(graph)

    def test_two_tensors_of_one_name_stay_two(self) -> None:
        def exponential(x: Any) -> Any:
            h = x * 2
            return h.exp()

        def logarithm(x: Any) -> Any:
            h = x * 3
            return h.log()

        def f(x: Any) -> Any:
            return exponential(x), logarithm(x)

        graph = trace(f, tg.ones(2))
        assert [header for header in headers(graph) if header.startswith("h")] == ["h = x · 2", "h = x · 3"]
        assert [wire.name for wire in graph.picture().wires].count("h") == 2

    def test_unnamed_leaves(self) -> None:
        W, net = tg.ones(3, 4, requires_grad=True), SimpleNamespace(b=tg.ones(4, requires_grad=True))
        graph = trace(lambda x: (x @ W + net.b).sum(), tg.ones(2, 3, requires_grad=True))
        cells = [(cell.name, cell.shape) for card in graph.picture().cards() for cell in card.cells]
        assert cells == [("W", "3×4"), ("param", "4")]


class TestPicture:
    def test_all_fifteen_branches_of_a_head(self) -> None:
        assert Counter(rows(head())) == Counter(
            [f"d{w}{n} = {f}" for n in "qkv" for w, f in (("W", f"xᵀ·d{n}"), ("b", f"Σ d{n}"))]
            + [f"dx_{n} = d{n}·W{n}ᵀ" for n in "qkv"]
            + ["dq = dscores₁·k / √4", "dk = dscores₁ᵀ·q / √4", "dscores₁ = 0 where hidden, else dscores₂"]
            + ["dscores₂ = weights ⊙ (dweights − Σ dweights ⊙ weights)", "dweights = do·vᵀ", "dv = weightsᵀ·do"]
        )
        assert rows(head(), "sum") == ["dx = dx_q + dx_k + dx_v"]

    def test_what_each_branch_is_summed_over(self) -> None:
        notes = {row.formula.partition(" ")[0]: row.note for card in head().picture().cards() for row in card.rows}
        assert notes["dWq"] == "sum over 2 q"
        assert notes["dx_v"] == "contract 4"
        assert (notes["dq"], notes["dk"], notes["dweights"], notes["dv"]) == (
            "contract k",
            "contract q",
            "contract 4",
            "contract q",
        )

    def test_kinds_and_source_do_not_depend_on_lengths(self) -> None:
        equal = graph_of_file(f"{GOLDEN / 'heads.py'}:equal")
        for graph in (head(), equal):
            kinds = {card.header.partition(" ")[0]: card.kind for card in graph.picture().cards()}
            assert kinds["scores₁"] == kinds["weights"] == "pairs"
            assert kinds["scores₂"] == "visibility"
            assert kinds["o"] in ("mixes", "output")
            moving = [card for card in graph.picture().cards() if card.kind == "mixes"]
            assert [card.source for card in moving] == ["Q, K, V share one source, x: self-attention"]

    def test_axes_named_by_the_code_reach_everything(self) -> None:
        graph = graph_of("gpt")
        assert all(wire.shapes[0].startswith("[") or wire.name == "total" for wire in graph.picture().wires)
        by_header = {card.header: card for card in graph.picture().cards()}
        o = by_header["o = weights·v"]
        assert (o.contracts, o.keeps) == ("k", "B H q d")
        assert by_header["output = o·W_outputᵀ"].cells[0].shape == "[D (H d)] 12×12"

    def test_axes_given_by_the_caller(self) -> None:
        graph = trace(lambda x: x @ x.mT, tg.ones(2, 3), axes={"x": "T D"})
        assert graph.picture().cards()[0].lines == ["[T D] 2×3, no gradient"]
        with pytest.raises(ValueError, match=r"axes name 3 axes of x \('B T D'\), but its shape is \(2, 3\)"):
            trace(lambda x: x * 1, tg.ones(2, 3), axes={"x": "B T D"})

    def test_every_kind_of_op_keeps_its_axes(self) -> None:
        def f(x: Any) -> Any:
            B, T, D = x.shape
            a = x[:, :3].permute(2, 0, 1)
            b = tg.einsum("btd,bsd->bts", x, x)
            c, d = x.reshape(B * T, 2, D // 2).unbind(1)
            e = tg.cat([x, x], dim=1).sum(dim=-1, keepdim=True)
            return a, b, c, d, e

        shapes = {c.header: c.lines[0] for c in trace(f, tg.ones(2, 5, 6)).picture().cards() if c.role == "result"}
        assert {text.partition(",")[0] for text in shapes.values()} == {
            "[D B 3] 6×2×3",
            "[B T T] 2×5×5",
            "[(B T) 3] 10×3",
            "[B 10 1] 2×10×1",
        }

    def test_equal_lengths_are_remarked(self) -> None:
        graph = trace(lambda x: x * 2, tg.ones(3, 3), axes={"x": "T D"})
        assert graph.picture().remarks[-1] == "equal lengths: D = T = 3"

    def test_mask_and_weights_come_from_values(self) -> None:
        grids = {card.grid.what: card.grid for card in head().picture().cards() if card.grid}
        assert grids["hidden"].pattern == "causal: k ≤ q"
        assert 25 - grids["hidden"].marked == 15
        assert all(abs(sum(row) - 1) < 1e-3 for row in grids["weights"].numbers)

    def test_a_tied_weight_sums_over_both_uses(self) -> None:
        graph = graph_of("gpt")
        (card,) = [card for card in graph.picture().cards() if card.header == "W_token"]
        (row,) = card.rows
        assert re.fullmatch(r"dW_token = dW_token_token \+ dW_token_(head|logits)", row.formula)

    def test_one_value_twice_in_one_op(self) -> None:
        graph = trace(lambda x: (x * x).sum(), tg.ones(2, requires_grad=True))
        assert rows(graph)[:2] == ["dx_mul(1) = dmul ⊙ x", "dx_mul(2) = dmul ⊙ x"]
        assert len([wire for wire in graph.picture().wires if wire.name == "x"]) == 2

    def test_a_module_called_twice(self) -> None:
        net = nn.Linear(3, 3)
        paths = [card.path for card in trace(lambda x: net(net(x)), tg.ones(2, 3)).picture().cards()]
        assert "net · Linear" in paths
        assert "net · Linear · run 2" in paths

    def test_several_outputs(self) -> None:
        def f(x: Any) -> Any:
            h = 2 * x
            return {"a": h + 1, "b": [3 * h, None, 7]}

        graph = trace(f, tg.ones(2, requires_grad=True))
        assert headers(graph) == ["x", "h = 2 · x", "add = h + 1", "mul = 3 · h", "a", "b[0]"]

    def test_nothing_to_differentiate(self) -> None:
        x = tg.ones(2, requires_grad=True)

        def without(x: Any) -> Any:
            with tg.no_grad():
                return 2 * x

        assert [card.role for card in trace(lambda x: x, x).picture().cards()] == ["leaf"]
        for f in (lambda x: 2 * x.detach(), without):
            picture = trace(f, x).picture()
            assert picture.remarks == ["no gradient history: nothing that leads to the result needs a gradient"]
            assert [card.role for card in picture.cards()] == ["leaf", "step", "result"]
        z = (2 * x).sum()
        z.backward()
        assert [card.header for card in trace(lambda: z).picture().cards()] == ["z"]
        assert trace(lambda: z * z).svg()

    @pytest.mark.parametrize(("length", "doubling"), [(5000, False), (50_000, False), (60, True)])
    def test_long_chains(self, length: int, doubling: bool) -> None:
        def f(y: Any) -> Any:
            for _ in range(length):
                y = y + y if doubling else y + 1
            return y

        graph = trace(f, tg.ones(requires_grad=True))
        assert len(graph.record.forward) == length
        if length <= 5000:
            assert Counter(card.role for card in whole(graph)) == {"leaf": 1, "step": length, "result": 1}
            assert graph.dot(open="*", max_nodes=None).count(" [id=") >= 2 * length
