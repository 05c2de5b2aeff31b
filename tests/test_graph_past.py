"""loss.graph(): what an existing tensor came from, drawn from the tape alone; named(): what a value is called."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.graph import Graph, trace
from tinygrad_edu.nn import functional as F


def rows(graph: Graph) -> list[str]:
    return [row.formula for card in graph.picture().cards() for row in card.rows if row.kind == "branch"]


def headers(graph: Graph, role: str = "step") -> list[str]:
    return [card.header for card in graph.picture().cards() if card.role == role]


def gradient(x: Any) -> Any:
    return None if x.grad is None else x.grad.array


class Head:
    """A head computed outside of any trace."""

    def __init__(self) -> None:
        draw = tg.Generator(0)
        self.x = tg.randn(2, 5, 12, generator=draw, requires_grad=True)
        self.W = [tg.randn(12, 4, generator=draw, requires_grad=True) for _ in range(3)]
        self.hidden = tg.triu(tg.ones(5, 5), 1).bool()

    def graph(self, given: bool = True) -> Graph:
        x, (Wq, Wk, Wv), hidden = self.x, self.W, self.hidden
        q, k, v = x @ Wq, x @ Wk, x @ Wv
        scores = (q @ k.mT / 2).masked_fill(hidden, -float("inf"))
        att = scores.softmax(-1)
        o = att @ v
        loss = (o * o).sum()
        self.loss = loss
        return loss.graph(x) if given else loss.graph()


class TestPast:
    def test_names_steps_and_verdicts(self) -> None:
        graph = Head().graph()
        assert headers(graph)[:3] == ["q = x·Wq", "k = x·Wk", "v = x·Wv"]
        assert headers(graph)[4] == "scores = −∞ where hidden, else div"
        assert {"dWq = xᵀ·dq", "dx_v = dv·Wvᵀ", "dv = attᵀ·do", "do_mul(1) = dmul ⊙ o"} <= set(rows(graph))
        ledger = graph.ledger()
        assert "o = att·v: Q, K, V share one source, x: self-attention" in ledger
        assert "causal: k ≤ q, 15 of 25 visible" in ledger
        assert "> drawn from the tape alone, which keeps no lines of code" in ledger
        assert graph.svg().startswith("<svg")

    def test_nothing_changes(self) -> None:
        head = Head()
        seen: list[Any] = []
        handle = head.x.register_hook(seen.append)
        graph = head.graph()
        assert seen == []
        assert gradient(head.x) is None
        again = head.loss.graph(head.x)
        assert again.ledger().partition("\n")[2].count("\n") == graph.ledger().partition("\n")[2].count("\n")
        head.loss.backward()
        assert len(seen) == 1
        handle.remove()
        expected = Head()
        expected.graph()
        expected.loss.backward()
        np.testing.assert_array_equal(gradient(head.x), gradient(expected.x))

    def test_a_graph_that_was_freed_is_drawn_without_gradients(self) -> None:
        x = tg.ones(3, requires_grad=True)
        loss = (2 * x).sum()
        loss.backward()
        graph = loss.graph(x)
        assert [card.role for card in graph.picture().cards()] == ["leaf", "step", "step", "result"]
        assert rows(graph) == []
        assert any("an earlier backward pass freed what the ops had saved" in r for r in graph.picture().remarks)

    def test_a_value_that_was_changed_since(self) -> None:
        x = tg.ones(3, requires_grad=True)
        y = x * 2
        loss = (y * y).sum()
        with tg.no_grad():
            y += 1
        graph = loss.graph()
        assert rows(graph) == []
        assert any("was changed in place since" in remark for remark in graph.picture().remarks)

    def test_what_was_not_kept_is_unknown_and_said_so(self) -> None:
        x, y = tg.ones(2, 3, requires_grad=True), tg.ones(3)
        graph = (x + y).sum().graph()
        assert headers(graph)[0] == "add = x + ?"
        assert "? stands for a value that needs no gradient and was not kept (1 of them)" in graph.picture().remarks

    @pytest.mark.parametrize("what", ["leaf", "detached", "no_grad"])
    def test_a_tensor_without_history_is_one_box(self, what: str) -> None:
        x = tg.ones(2, requires_grad=True)
        with tg.no_grad():
            computed = 2 * x
        tensor = {"leaf": x, "detached": (2 * x).detach(), "no_grad": computed}[what]
        (card,) = tensor.graph().picture().cards()
        assert (card.role, card.lines[1]) == ("leaf", "returned as it is")
        assert ("no gradient history" in " ".join(tensor.graph().picture().remarks)) is (what != "leaf")

    def test_parameters_by_path_and_by_class(self) -> None:
        net, x = nn.Linear(3, 2), tg.ones(4, 3, requires_grad=True)
        loss = net(x).sum()
        assert headers(loss.graph(net))[0] == "linear = x·Wᵀ + b"
        graph = loss.graph()
        leaves = {card.header: card.words for card in graph.picture().cards() if card.role == "leaf"}
        assert leaves == {"x": "input"}
        read = [graph.record.values[i].kind for i in graph.record.forward[0].inputs if i is not None]
        assert read == ["input", "parameter", "parameter"]

    def test_attention_is_opened(self) -> None:
        q = tg.randn(1, 3, 4, requires_grad=True)
        graph = F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().graph(q)
        assert headers(graph)[:3] == [
            "scores₁ = q·qᵀ / √4",
            "scores₂ = −∞ where mask, else scores₁",
            "weights = softmax(scores₂)",
        ]

    def test_deep_graphs(self) -> None:
        y = x = tg.ones((), requires_grad=True)
        for _ in range(5000):
            y = y + 1
        assert len(y.graph().record.forward) == 5000
        y = x
        for _ in range(60):
            y = y + y
        assert len(y.graph().record.branches) == 120

    def test_a_graph_kept_by_retain_graph(self, tmp_path: Path) -> None:
        x = tg.ones(3, requires_grad=True)
        loss = (x * x).sum()
        loss.backward(retain_graph=True)
        loss.graph().save(tmp_path / "g.md")
        assert "dx_mul(1), dx_mul(2)" in (tmp_path / "g.md").read_text(encoding="utf-8")


class TestNamed:
    def test_a_given_name_wins_and_names_its_axes(self) -> None:
        def f(x: Any) -> Any:
            q = (x * 2).named("Q", "B T d")
            return q.exp()

        graph = trace(f, tg.ones(2, 5, 4, requires_grad=True))
        assert headers(graph) == ["Q = x · 2", "exp = exp Q"]
        assert {wire.shapes[0] for wire in graph.picture().wires} == {"[B T d] 2×5×4"}

    def test_names_of_sides_stay_where_they_were_given(self) -> None:
        W = [tg.randn(12, 4, requires_grad=True) for _ in range(3)]

        def f(x: Any) -> Any:
            q, k = (x @ W[0]).named("Q", "B q d"), (x @ W[1]).named("K", "B k d")
            return (q @ k.mT / 2).softmax(-1) @ (x @ W[2])

        graph = trace(f, tg.randn(2, 5, 12), axes={"x": "B T D"})
        shapes = {wire.name: wire.shapes[0] for wire in graph.picture().wires}
        assert shapes["x"] == "[B T D] 2×5×12"
        assert shapes["Q"] == "[B q d] 2×5×4"
        assert shapes["K"] == "[B k d] 2×5×4"

    def test_a_given_name_goes_before_a_parameters_path(self) -> None:
        net = nn.Linear(3, 2)
        graph = trace(lambda x: x @ net.weight.named("M", "o i").mT, tg.ones(4, 3))
        assert headers(graph) == ["matmul = x·Mᵀ"]

    def test_a_local_name_goes_before_a_path_and_a_loops_does_not(self) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a, self.b = nn.Parameter(tg.ones(3)), nn.Parameter(tg.ones(3))

            def forward(self, x: Any) -> Any:
                scale = self.a
                total = x * scale
                for p in self.parameters():
                    total = total + p * 2
                return total

        graph = trace(Net(), tg.ones(3))
        assert headers(graph)[0] == "total₁ = x ⊙ scale"
        assert "mul₂ = b · 2" in headers(graph)
        assert not any(" p " in header for header in headers(graph))

    def test_outside_of_a_trace_it_is_the_tensor_itself(self) -> None:
        x = tg.ones(3)
        assert x.named("X", "a b c d") is x

    def test_a_wrong_number_of_axes(self) -> None:
        with pytest.raises(ValueError, match=r"axes name 2 axes of named\('X'\) \('a b'\), but its shape is \(3,\)"):
            trace(lambda x: x.named("X", "a b") * 1, tg.ones(3))
