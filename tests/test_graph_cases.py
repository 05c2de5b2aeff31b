"""Odd programs that a trace must draw: several orders of derivatives, changes in place, results of any build, depth."""

import ast
import dataclasses
import importlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tinygrad_edu as tg
from models import GPT, GPTConfig
from models.transformer import Attention
from tests.hash_seeds import printed
from tinygrad_edu import nn
from tinygrad_edu.data import Batch
from tinygrad_edu.engine.tape import registry
from tinygrad_edu.graph import Graph, axis_rules, trace
from tinygrad_edu.graph.gradients import gradients
from tinygrad_edu.graph.naming import labels
from tinygrad_edu.graph.recorder import Recorder
from tinygrad_edu.graph.steps import named_steps
from tinygrad_edu.graph.trace import run
from tinygrad_edu.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent


def steps(graph: Graph) -> list[Any]:
    return [card for card in graph.picture(max_nodes=None).cards() if card.role == "step"]


def headers(graph: Graph) -> list[str]:
    return [card.header for card in steps(graph)]


def results(graph: Graph) -> list[str]:
    return [card.header for card in graph.picture().cards() if card.role == "result"]


class TestOrders:
    @staticmethod
    def penalty(x: Any, w: Any) -> Any:
        y = ((x * w) ** 3).sum()
        (g,) = tg.grad(y, [x], create_graph=True)
        return (g * g).sum()

    def test_gradients_of_gradients_have_an_order(self) -> None:
        graph = trace(self.penalty, tg.randn(3, requires_grad=True), tg.randn(3, requires_grad=True))
        orders = {application.op: application.order for application in graph.record.forward[:3]}
        assert set(orders.values()) == {0}
        assert {a.order for a in graph.record.forward[3:]} == {1}
        assert {b.order - graph.record.forward[b.application].order for b in graph.record.branches} == {1}
        assert {b.order for b in graph.record.branches} == {1, 2}
        derived = [card for card in steps(graph) if card.kind == "derived"]
        assert all(card.words.endswith(" · order 1") for card in derived)
        assert {row.order for card in derived for row in card.rows} == {2}
        assert graph.dot().count("#a21caf") > 10

    def test_they_are_called_after_what_they_are_gradients_of(self) -> None:
        graph = trace(self.penalty, tg.randn(3, requires_grad=True), tg.randn(3, requires_grad=True))
        assert "g = dmul ⊙ w" in headers(graph)
        assert "dw = dmul ⊙ x" in headers(graph)

    def test_the_values_are_those_of_an_untraced_run(self) -> None:
        x, w = tg.randn(3, requires_grad=True), tg.randn(3, requires_grad=True)
        _, arrived, result = run(self.penalty, (x, w))
        again = self.penalty(x, w)
        assert result.item() == again.item()
        for gradient, leaf in zip(tg.grad(again, [x, w]), (x, w), strict=True):
            (found,) = [a.gradient.array for a in arrived if a.holder is leaf]
            np.testing.assert_allclose(found, gradient.array, rtol=1e-6)

    def test_the_third_derivative(self) -> None:
        def third(x: Any) -> Any:
            y = (x**4).sum()
            for _ in range(2):
                (y,) = tg.grad(y.sum(), [x], create_graph=True)
            return y

        graph = trace(third, tg.randn(2, requires_grad=True))
        assert {a.order for a in graph.record.forward} == {0, 1, 2}
        assert max(b.order for b in graph.record.branches) == 3

    def test_a_fused_ops_gradient_is_of_order_1_as_well(self) -> None:
        def f(x: Any) -> Any:
            (g,) = tg.grad(F.softmax(x, dim=-1)[0], [x], create_graph=True)
            return (g * g).sum()

        orders = [a.order for a in trace(f, tg.randn(3, requires_grad=True)).record.forward]
        assert orders == sorted(orders)
        assert set(orders) == {0, 1}

    def test_attention_is_told_in_the_graph_of_its_second_derivative(self) -> None:
        W = [tg.randn(12, 4, requires_grad=True) for _ in range(3)]

        def f(x: Any) -> Any:
            q, k, v = (x @ w for w in W)
            o = (q @ k.mT / 2).softmax(-1) @ v
            (g,) = tg.grad(o.sum(), [W[0]], create_graph=True)
            return (g * g).sum()

        graph = trace(f, tg.randn(2, 5, 12))
        assert "self-attention" in graph.ledger()
        assert "full: all 25 of 25 visible" in graph.ledger()


class TestInPlace:
    def test_off_the_tape_too_a_change_leads_on(self) -> None:
        def f(x: Any) -> Any:
            y = x * 2
            y += 1
            y.mul_(3)
            return y.exp()

        graph = trace(f, tg.ones(2))
        assert headers(graph) == ["y = (x · 2 + 1) · 3", "exp = exp y"]
        assert [card.header for card in graph.picture().cards() if card.role == "leaf"] == ["x"]

    def test_overwritten_memory_is_another_value(self) -> None:
        def f(x: Any) -> Any:
            y = x * 2
            y.fill_(7)
            return y.exp()

        graph = trace(f, tg.ones(2))
        assert [card.header for card in graph.picture().cards() if card.role == "leaf"] == ["x", "y"]
        assert headers(graph) == ["mul = x · 2", "exp = exp y"]

    def test_on_the_tape_every_change_has_its_gradient(self) -> None:
        def f(x: Any) -> Any:
            y = x * 2
            y[0] = x[1] * 3
            y *= x
            return y.sum()

        x = tg.tensor([1.0, 2.0], requires_grad=True)
        _, arrived, result = run(f, (x,))
        assert result.item() == 14
        assert arrived[0].gradient.array.tolist() == [6.0, 11.0]


@dataclasses.dataclass
class Found:
    loss: Any
    logits: Any
    cache: Any = None
    note: str = "text"


class TestResults:
    def test_of_any_build(self) -> None:
        def f(x: Any) -> Any:
            h = 2 * x
            return {"a": h + 1, "b": [3 * h, None, 7], "c": Found(h - 1, (h * 5,))}

        assert results(trace(f, tg.ones(2, requires_grad=True))) == ["a", "b[0]", "c.loss", "c.logits[0]"]

    @pytest.mark.parametrize("result", [None, 7, "text", {}, [None]])
    def test_without_a_tensor(self, result: Any) -> None:
        def f(x: Any) -> Any:
            _ = x * 2
            return result

        graph = trace(f, tg.ones(2, requires_grad=True))
        assert len(graph.record.forward) == 1
        assert graph.svg().startswith("<svg")
        assert "no backward pass" in graph.ledger()

    @pytest.mark.parametrize("build", ["tuple", "dict", "dataclass"])
    def test_backward_starts_at_the_loss_beside_other_results(self, build: str) -> None:
        def f(x: Any) -> Any:
            logits = x * 2
            loss = logits.sum()
            return {
                "tuple": (logits, loss),
                "dict": {"logits": logits, "loss": loss},
                "dataclass": Found(loss, logits),
            }[build]

        graph = trace(f, tg.ones(3, requires_grad=True))
        assert graph.record.loss
        seeds = {output.seed for output in graph.record.outputs}
        assert seeds == {"1", "0"}
        assert len(graph.record.branches) == 2
        assert set(results(graph)) == {"[0]" if build == "tuple" else "logits", "loss"}
        assert "backward does not start here" in graph.dot()

    def test_what_lay_before_the_trace_stays_connected(self) -> None:
        w = tg.ones(3, requires_grad=True)
        before = w * 2
        kept: list[Any] = []

        def f() -> Any:
            kept.append((before * before).sum())
            return kept[0]

        graph = trace(f)
        assert [card.words for card in graph.picture().cards() if card.role == "leaf"] == ["made before the trace"]
        kept[0].backward()
        assert w.grad is not None
        assert w.grad.tolist() == [8.0, 8.0, 8.0]

    def test_products_of_what_was_made_before(self) -> None:
        before = tg.ones(3, 3, requires_grad=True) * 2
        for f in (lambda x: x @ x, lambda x: x.softmax(-1) @ x, lambda x: (x * x).sum()):
            assert trace(f, before).picture().cards()


class TestNamesWithoutAnnotation:
    def test_modules_are_called_by_their_variables(self) -> None:
        key, value = nn.Linear(3, 2, bias=False), nn.Linear(3, 2)

        def f(x: Any) -> Any:
            query = nn.Linear(3, 2, bias=False)
            return key(x) + value(x) + query(x)

        names = [cell.name for card in steps(trace(f, tg.ones(4, 3))) for cell in card.cells]
        assert names == ["W_key", "W_value", "b_value", "W_query"]

    def test_pieces_by_their_whole_and_buffers_by_their_names(self) -> None:
        class Net(nn.Module):
            bias: Any

            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("bias", tg.arange(4).float())
                self.both = nn.Parameter(tg.ones(4))

            def forward(self, x: Any) -> Any:
                return self.both.split(2)[1] * x + self.bias[:2]

        found = headers(trace(Net(), tg.ones(2)))
        assert found[0] == "mul = both[1] ⊙ x"
        assert "bias[:2]" in found[1]

    def test_constants_full_of_one_number(self) -> None:
        graph = trace(lambda x: x * tg.ones(2) + tg.zeros(2) + tg.full((2,), 3.0), tg.ones(2, requires_grad=True))
        names = [cell.name for card in steps(graph) for cell in card.cells]
        assert names == ["ones", "zeros", "constant"]

    def test_weights_that_depend_on_no_token(self) -> None:
        """The average of all tokens so far, as lectures begin with it."""

        def f(x: Any) -> Any:
            wei = tg.tril(tg.ones(5, 5))
            wei = wei / wei.sum(1, keepdim=True)
            return wei @ x

        graph = trace(f, tg.randn(2, 5, 4, requires_grad=True))
        (card,) = [card for card in steps(graph) if card.kind == "mixes"]
        assert card.source == "from x, with weights that depend on no token"
        assert "".join(text for text, _ in card.einsum) == "q k, 2 k 4 -> 2 q 4"
        gates = trace(lambda x: x.softmax(-1) @ x.mT, tg.randn(2, 5, 4, requires_grad=True))
        assert not any(card.source for card in steps(gates) if "depend on no token" in card.source)


class TestForms:
    def test_short_titles(self) -> None:
        assert trace(lambda x, y: x + y, tg.ones(2), tg.ones(2)).record.title == "lambda x, y"

    def test_a_module_called_twice_and_a_square(self) -> None:
        net = nn.Linear(3, 3)
        graph = trace(lambda x: net(net(x)), tg.ones(2, 3))
        (card,) = [card for card in graph.picture().cards() if card.role == "leaf" and card.kind == "parameter"][:1]
        assert card.rows[0].formula.count(" + ") == 1
        square = trace(lambda x: (x * x).sum(), tg.ones(2, requires_grad=True))
        assert [row.formula for card in square.picture().cards() for row in card.rows if row.kind == "sum"] == [
            "dx = dx_mul(1) + dx_mul(2)"
        ]

    def test_constants_and_detached_tensors(self) -> None:
        def f(x: Any) -> Any:
            return x * tg.tensor(0.5) + x.detach()

        graph = trace(f, tg.ones(2, requires_grad=True))
        wires = {(wire.name, wire.gradient) for wire in graph.picture().wires}
        assert ("x", "dx") in wires
        assert ("x", None) in wires
        assert headers(graph)[0].endswith("0.5")

    def test_an_op_without_a_rule_for_an_input_fails_by_name(self) -> None:
        from tinygrad_edu.engine.tape import Op

        try:

            class Lopsided(Op):
                """{out} = {x} ⊙ {y}"""

                def forward(x: Any, y: Any) -> Any:
                    return x * y

                def dx(g: Any, y: Any) -> Any:
                    """d{x} = d{out} ⊙ {y}"""
                    return g * y

            graph = trace(lambda x, y: Lopsided(x, y).sum(), *(tg.ones(2, requires_grad=True) for _ in range(2)))
            found = [line for line in graph.ledger().splitlines() if "FAIL" in line and "rule" in line]
            assert found == ["   - FAIL: line 1, lopsided has no gradient rule for its input y"]
        finally:
            registry.pop("lopsided", None)

    def test_a_parameter_behind_a_detach_fails_by_name_and_line(self) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.up, self.cut = nn.Linear(3, 4), nn.Linear(4, 1)

            def forward(self, x: Any) -> Any:
                return self.cut(self.up(x).detach()).sum()

        lines = [line for line in trace(Net(), tg.ones(2, 3)).ledger().splitlines() if "no gradient reached" in line]
        assert lines == [
            "   - FAIL: no gradient reached up.weight, read in line 1",
            "   - FAIL: no gradient reached up.bias, read in line 1",
        ]


class TestDepth:
    @pytest.mark.parametrize(("length", "doubling"), [(4000, False), (2000, True)])
    def test_long_chains_in_words(self, length: int, doubling: bool) -> None:
        """Nothing walks recursively, and nothing takes a time that grows with the square of the length."""

        def chain(y: Any, n: int) -> Any:
            for _ in range(n):
                y = y + y if doubling else y * 1.0
            return y

        graph = trace(lambda x: chain(x, length), tg.zeros(2, requires_grad=True))
        assert len(graph.record.forward) == length
        assert graph.ledger().count("\n| ") == 1 + length
        assert graph.dot(level=0).startswith("digraph {")

    def test_the_time_grows_with_the_length(self) -> None:
        def chain(y: Any, n: int) -> Any:
            for _ in range(n):
                y = (y + y).exp() * 0.1
            return y

        def cpu(n: int) -> float:
            began = time.process_time()
            trace(lambda x: chain(x, n), tg.zeros(2, requires_grad=True)).ledger()
            return time.process_time() - began

        cpu(50)
        assert cpu(1600) < 40 * cpu(200)  # 8 times as long; the square would take 64 times as long


def small(**changes: Any) -> Any:
    tg.manual_seed(1)
    config = GPTConfig(vocab_size=11, block_size=7, layers=1, heads=3, width=12, bias=True, **changes)
    return GPT(config).to(dtype=tg.float64)


def batch() -> Batch:
    return Batch(np.arange(10).reshape(2, 5), np.arange(10).reshape(2, 5) + 1)


def attention_head() -> Any:
    W = [tg.randn(12, 4, dtype=tg.float64, requires_grad=True) for _ in range(3)]
    b = [tg.randn(4, dtype=tg.float64, requires_grad=True) for _ in range(3)]
    hidden = tg.triu(tg.ones(5, 5), 1).bool()

    def head(x: Any) -> Any:
        q, k, v = x @ W[0] + b[0], x @ W[1] + b[1], x @ W[2] + b[2]
        scores = (q @ k.mT / 2).masked_fill(hidden, -float("inf"))
        return scores.softmax(-1) @ v

    return head, tg.randn(2, 5, 12, dtype=tg.float64, requires_grad=True)


def crossing() -> Any:
    part = Attention(12, 3).to(dtype=tg.float64)
    x, mem = (tg.randn(2, n, 12, dtype=tg.float64, requires_grad=True) for n in (4, 5))
    return lambda x, mem: part(x, mem).tanh(), x, mem


def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """Every recorder that finishes from now on, with the arrays of its values."""
    kept: list[Recorder] = []
    finish = Recorder.finish

    def keep(self: Recorder) -> None:
        kept.append(self)
        finish(self)

    monkeypatch.setattr(Recorder, "finish", keep)
    return kept


class TestNumbers:
    @pytest.mark.parametrize("program", ["head", "gpt", "crossing", "penalty"])
    def test_every_gradient_row_against_differences(self, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each branch alone: ⟨gradient of the output, (f(x + εu) − f(x − εu)) / 2ε⟩ = ⟨the branch's gradient, u⟩."""
        tg.manual_seed(0)
        kept = recorders(monkeypatch)
        if program == "gpt":
            run(small().loss, (batch(),))
        elif program == "penalty":
            x, w = (tg.randn(3, dtype=tg.float64, requires_grad=True) for _ in range(2))
            run(TestOrders.penalty, (x, w))
        else:
            function, *inputs = attention_head() if program == "head" else crossing()
            run(function, tuple(inputs))
        recorder = kept[0]
        record, arrays = recorder.record, recorder.arrays
        total: dict[int, Any] = {o.value: np.ones(record.values[o.value].shape) for o in record.outputs if o.seed}
        for branch in record.branches:
            array = arrays[branch.gradient]
            total[branch.value] = total.get(branch.value, 0) + array
        draw = np.random.default_rng(0)
        numbers = {number: entry for entry in recorder.records for number in [recorder.applications[entry.number]]}
        for branch in record.branches:
            application = record.forward[branch.application]
            op, static = registry[application.op], numbers[application.id].static
            inputs = [
                None if i is None else record.values[i].number if record.values[i].kind == "number" else arrays[i]
                for i in application.inputs
            ]
            u = draw.standard_normal(branch.shape)

            def outputs(
                at: float, op: Any = op, inputs: Any = inputs, static: Any = static, n: int = branch.at, u: Any = u
            ) -> Any:
                moved = [x + at * u if i == n else x for i, x in enumerate(inputs)]
                found = op(*moved, **static)
                return found if isinstance(found, tuple) else (found,)

            pairs = zip(application.outputs, outputs(1e-6), outputs(-1e-6), strict=True)
            with np.errstate(invalid="ignore"):
                expected = sum(
                    float(np.nansum(total[number] * np.where(np.isfinite(b), (a - b) / 2e-6, 0)))
                    for number, a, b in pairs
                    if number in total
                )
            found = float((arrays[branch.gradient] * u).sum())
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-6), (application.op, branch.formula)

    def test_the_formulas_of_a_head_compute_what_arrived(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rows such as dq = dscores·k / √4, worked out as they stand."""
        tg.manual_seed(0)
        kept = recorders(monkeypatch)
        function, x = attention_head()
        graph = trace(function, x)
        recorder, record = kept[0], graph.record
        called: dict[str, Any] = {}
        sheet = named_steps(record)
        label = labels(sheet)
        back = gradients(sheet, label)
        for number, text in label.items():
            if number in recorder.arrays:
                called[text] = recorder.arrays[number]
        sums: dict[int, Any] = {}
        for use in [use for step in sheet.steps for use in step.uses]:
            if use.branch is not None:
                name = back.of(use)
                assert name is not None
                gradient = recorder.arrays[use.branch.gradient]
                shape = record.values[use.source].shape
                called[name] = gradient if gradient.shape == shape else np.swapaxes(gradient, -1, -2)
                sums[use.source] = sums.get(use.source, 0) + called[name]
        for use in sheet.results:
            called[str(back.of(use))] = np.ones(record.values[use.value].shape)
        checked = 0
        for card in graph.picture().cards():
            for row in card.rows:
                left, _, right = row.formula.partition(" = ")
                factor, _, root = right.partition(" / √")
                parts = factor.split("·")
                if row.kind != "branch" or len(parts) != 2:
                    continue
                a, b = (np.swapaxes(called[p.rstrip("ᵀ")], -1, -2) if p.endswith("ᵀ") else called[p] for p in parts)
                product = a @ b / (float(root) ** 0.5 if root else 1)
                target = called[left]
                if left[:2] == "dW":
                    product = product.sum(axis=0)
                if left in ("dq", "dk"):  # what arrives at the wire's end, before the division is undone
                    np.testing.assert_allclose(product.shape, target.shape)
                np.testing.assert_allclose(product, target, rtol=1e-9, err_msg=row.formula)
                checked += 1
        assert checked >= 8


class TestAxisRules:
    def test_every_op_is_thought_about_once(self) -> None:
        """An op that is new here: say in axis_rules which axes go where, or that only its lengths are known."""
        importlib.import_module("tinygrad_edu.autograd")  # which has ops of its own
        own = {name for name, op in registry.items() if op.__module__.startswith("tinygrad_edu.")}
        sets = [set(axis_rules.RULES), axis_rules.REDUCTIONS, axis_rules.ELEMENTWISE, axis_rules.SIZES_ONLY]
        assert sorted(own - set().union(*sets)) == []
        assert sorted(set().union(*sets) - own) == []
        assert sum(map(len, sets)) == len(set().union(*sets))

    @pytest.mark.parametrize(
        ("op", "wanted"),
        [
            (lambda x: x.sort(dim=-1)[0], "B T D"),
            (lambda x: x.topk(2, dim=-1)[0], "B T 2"),
            (lambda x: x.amax(dim=1), "B D"),
            (lambda x: x.max(dim=1)[0], "B D"),
            (lambda x: x.mean(dim=1, keepdim=True), "B 1 D"),
            (lambda x: x.cumsum(dim=1), "B T D"),
            (lambda x: x.flip(1), "B T D"),
            (lambda x: x.roll(1, 1), "B T D"),
            (lambda x: F.pad(x, (0, 0, 1, 0)), "B 6 D"),
            (lambda x: x[:, 0], "B D"),
            (lambda x: x[:, -1:], "B 1 D"),
            (lambda x: x[:, :, None], "B T 1 D"),
            (lambda x: x[..., 0], "B T"),
            (lambda x: x.transpose(1, 2), "B D T"),
            (lambda x: x.reshape(10, 12), "(B T) D"),
            (lambda x: x.reshape(2, 5, 3, 4), "B T 3 4"),
            (lambda x: x.flatten(), "(B T D)"),
            (lambda x: x.unsqueeze(0).expand(7, 2, 5, 12), "7 B T D"),
            (lambda x: tg.cat([x, x], dim=1), "B 10 D"),
            (lambda x: tg.stack([x, x]), "2 B T D"),
            (lambda x: x.softmax(-1), "B T D"),
            (lambda x: F.layer_norm(x, (12,)), "B T D"),
            (lambda x: x.diagonal(0, 1, 2), "B 5"),
            (lambda x: x.gather(1, tg.zeros(2, 1, 12).long()), "B 1 D"),
            (lambda x: tg.einsum("btd,bsd->bts", x, x), "B T T"),
            (lambda x: x.split(4, dim=-1)[0], "B T 4"),
            (lambda x: x.argmax(dim=-1), "B T"),
            (lambda x: x.norm(dim=-1), "B T"),
            (lambda x: tg.where(x > 0, x, 0.0), "B T D"),
        ],
    )
    def test_axes_go_where_the_op_takes_them(self, op: Any, wanted: str) -> None:
        graph = trace(lambda x: op(x) + 0, tg.randn(2, 5, 12, requires_grad=True), axes={"x": "B T D"})
        (card,) = [card for card in graph.picture().cards() if card.role == "result"]
        shape = card.lines[0].partition(",")[0]
        assert shape.partition("]")[0].lstrip("[") == wanted or shape == wanted.replace(" ", "×")

    def test_axes_declared_by_a_model(self) -> None:
        class Net(nn.Module):
            axes: ClassVar = {"x": "B D", "up.weight": "F D", "down.weight": "D F"}

            def __init__(self) -> None:
                super().__init__()
                self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 3)

            def forward(self, x: Any) -> Any:
                return x + self.down(self.up(x).relu())

        graph = trace(Net(), tg.ones(2, 3))
        assert {wire.shapes[0] for wire in graph.picture().wires} == {"[B D] 2×3", "[B F] 2×5"}
        inside = trace(nn.Sequential(Net()), tg.ones(2, 3))
        assert "[D F] 3×5" in inside.ledger()
        first = trace(Net(), tg.ones(2, 3), axes={"up.weight": "hidden D"})
        assert "[B hidden] 2×5" in {wire.shapes[0] for wire in first.picture().wires}


class TestRuns:
    def test_the_same_bytes_in_two_runs_under_two_hash_seeds(self, tmp_path: Path) -> None:
        program = """
import hashlib, sys
import tinygrad_edu as tg
from tinygrad_edu.graph import trace
tg.manual_seed(0)
x, W = tg.randn(2, 5, 12, requires_grad=True), tg.randn(12, 4, requires_grad=True)
def f(x):
    q = x @ W
    att = (q @ q.mT / 2).softmax(-1)
    (g,) = tg.grad((att @ q).sum(), [W], create_graph=True)
    return {"g": g, "q": q}
graph, loss = trace(f, x, visibility="full"), ((x @ W) ** 2).sum()
views = [graph.dot(), graph.svg(), graph.ledger(), graph.json(), loss.graph(x).dot(), loss.graph(x).ledger()]
print(*(hashlib.sha256(view.encode()).hexdigest() for view in views))
"""
        found = printed(program)
        assert len(found) == 1

    def test_two_tensors_of_one_name_are_two_boxes_without_addresses(self) -> None:
        def f(x: Any) -> Any:
            return [(x * i).named("h").exp() for i in (2, 3)]

        graph = trace(f, tg.ones(2, requires_grad=True))
        assert [header.partition(" ")[0] for header in headers(graph)].count("h₁") == 1
        assert "0x" not in graph.dot()
        titles = [t.text for t in ET.fromstring(graph.svg()).iter("{http://www.w3.org/2000/svg}title")]
        assert any(t and t.startswith("h₁ = x · 2") for t in titles)

    def test_importing_pictures_needs_no_graphviz(self) -> None:
        program = "import sys, tinygrad_edu.graph; print(sorted({'graphviz', 'graphviz_pure'} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True)
        assert ast.literal_eval(done.stdout) == []


class TestPicked:
    """Arrays and tensors in x[...] are inputs like others."""

    @pytest.mark.parametrize("given", [np.array([[1, 2], [3, 4]]), tg.tensor([[1, 2], [3, 4]])])
    def test_rows_of_a_table(self, given: Any) -> None:
        W = tg.randn(11, 4, requires_grad=True)
        graph = trace(lambda ids: W[ids].sum(), given, axes={"ids": "B T"})
        (ids,) = [card for card in graph.picture().cards() if card.role == "leaf"]
        assert (ids.header, ids.words) == ("ids", "input, int64")
        (wire,) = [wire for wire in graph.picture().wires if wire.name == "ids"]
        assert (wire.tail, wire.gradient, wire.shapes) == (ids.id, None, ["[B T] 2×2"])
        (rows, _) = [card for card in graph.picture().cards() if card.role == "step"]
        assert (rows.header, rows.words, rows.shape) == ("get_item = W[ids]", "picked by index", "[B T 4] 2×2×4")
        assert rows.rows[0].formula == "dW = dget_item added at ids, 0 elsewhere"

    def test_what_was_computed_leads_to_what_it_picks(self) -> None:
        x = tg.randn(3, 4, requires_grad=True)
        graph = trace(lambda x: x[x.argmax(0)], x)
        assert "get_item = x[argmax]" in headers(graph)
        assert ("argmax", None) in {(wire.name, wire.gradient) for wire in graph.picture().wires}

    @pytest.mark.parametrize(
        ("pick", "shape"),
        [
            (lambda x, m, i: x[:, i], "[A i C] 3×2×5"),
            (lambda x, m, i: x[i, :, i], "[i B] 2×4"),
            (lambda x, m, i: x[0, i], "[i C] 2×5"),
            (lambda x, m, i: x[..., i], "[A B i] 3×4×2"),
            (lambda x, m, i: x[None, i, 1:], "[1 i 3 C] 1×2×3×5"),
            (lambda x, m, i: x[[0, 2]], "[2 B C] 2×4×5"),
            (lambda x, m, i: x[m], "[8 C] 8×5"),
            (lambda x, m, i: x[:2, m[0]], "[2 4 C] 2×4×5"),
            (lambda x, m, i: x[i[0]], "[B C] 4×5"),
        ],
    )
    def test_axes(self, pick: Any, shape: str) -> None:
        given = tg.randn(3, 4, 5, requires_grad=True), tg.tensor([[True] * 4] * 2 + [[False] * 4]), tg.tensor([1, 2])
        graph = trace(pick, *given, axes={"x": "A B C", "i": "i"})
        assert [card.shape for card in steps(graph)][-1] == shape

    def test_order_of_elements_is_more_than_a_shape(self) -> None:
        """As many elements come out as went in, and still it is no mere view."""
        graph = trace(lambda x, order: x[order], tg.randn(3, requires_grad=True), tg.tensor([2, 0, 1]))
        assert headers(graph) == ["get_item = x[order]"]

    def test_written_at_an_index(self) -> None:
        def f(x: Any, at: Any) -> Any:
            y = x * 2
            y[at] = x[:2] * 3
            return y.sum()

        graph = trace(f, tg.randn(3, requires_grad=True), tg.tensor([2, 0]))
        assert "y₂ = y₁ with x[:2] · 3 at at" in headers(graph) or any("at at" in text for text in headers(graph))

    def test_without_a_trace_by_the_same_integers(self) -> None:
        W, ids = tg.randn(11, 4, requires_grad=True), tg.tensor([1, 2, 3])
        rows = W[ids]
        loss = rows.sum()
        assert "rows = W[ids]" in headers(loss.graph())


class TestLengths:
    """What the code calls the lengths that it gives to a reshape names axes that nothing else names."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c_attn, self.n_head = nn.Linear(12, 36), 3

        def forward(self, x: Any) -> Any:
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(C, dim=2)
            q, k, v = (part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for part in (q, k, v))
            att = F.softmax(q @ k.transpose(-2, -1) / 2, dim=-1)
            return (att @ v).transpose(1, 2).contiguous().view(B, T, C)

    def test_heads(self) -> None:
        graph = trace(self.Head(), tg.randn(2, 5, 12))
        assert "".join(text for text, _ in steps(graph)[1].einsum) == (
            "B n_head q C/n_head, B n_head C/n_head k -> B n_head q k"
        )
        assert "FAIL" not in graph.ledger()

    @pytest.mark.parametrize(
        ("reshaped", "shape"),
        [
            (lambda x, H, d: x.view(2, H, d), "[2 H d] 2×3×4"),
            (lambda x, H, d: x.reshape((2, H, -1)), "[2 H 4] 2×3×4"),
            (lambda x, H, d: x.view(*x.shape[:1], H, d), "[2 H d] 2×3×4"),
            (lambda x, H, d: x.view(H * 2, d), "[6 d] 6×4"),
            (lambda x, H, d: x.reshape(2, H, d).reshape(2, d, H), "2×4×3"),  # which of the two is not told by the line
            (lambda x, H, d: x.unsqueeze(0).flatten().view(2, H, d), "[2 H d] 2×3×4"),
        ],
    )
    def test_forms(self, reshaped: Any, shape: str) -> None:
        graph = trace(lambda x: reshaped(x, 3, 4).exp(), tg.randn(2, 12, requires_grad=True))
        assert steps(graph)[-1].shape == shape

    def test_names_that_are_there_stay(self) -> None:
        def f(x: Any) -> Any:
            wide, features = 3, 4
            return x.view(2, wide, features).named("x", "B H d").exp()

        assert steps(trace(f, tg.randn(2, 12, requires_grad=True)))[-1].shape == "[B H d] 2×3×4"

    def test_variables_have_declared_axes_as_inputs_have(self) -> None:
        W, other = tg.randn(4, 3, requires_grad=True), tg.randn(3, requires_grad=True)

        def f(x: Any) -> Any:
            return x @ W + other

        graph = trace(f, tg.ones(2, 4), axes={"x": "B D", "*": "D d"})
        assert "FAIL: 0" not in graph.ledger()
        assert steps(graph)[0].shape == "[B d] 2×3"


def test_backward_reads_arrays() -> None:
    """What a rule needs of shapes and numbers is no array that was kept."""
    graph = trace(lambda x: tg.cat([x, x * 2]).exp(), tg.randn(2, 3, requires_grad=True))
    assert [card.reads for card in steps(graph)] == [[], [], ["exp"]]


def test_an_array_that_is_made_a_tensor_inside_is_the_input_still() -> None:
    image = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = trace(lambda image: tg.tensor(image) * 2 + tg.tensor(image + 1), image)
    assert [(c.header, c.words) for c in graph.picture().cards() if c.role == "leaf"] == [("image", "input")]
    assert headers(graph) == ["mul = image · 2", "add = mul + constant"]
    blank = trace(lambda image: tg.tensor(image) + tg.zeros(2, 3), np.zeros((2, 3), np.float32))  # which of them?
    assert not any(card.role == "leaf" for card in blank.picture().cards())
