"""Levels of a picture and repeats drawn once: what is on the drawing, and what stands for what."""

from typing import Any

import pytest

import tinygrad_edu as tg
from models import GPT, GPTConfig
from tests.test_graph import GOLDEN
from tinygrad_edu import nn
from tinygrad_edu.data import Batch
from tinygrad_edu.graph import Graph, trace
from tinygrad_edu.graph.dot import dot as dot_of
from tinygrad_edu.graph.opening import opened
from tinygrad_edu.graph.picture import Card, Cluster, Picture
from tinygrad_edu.nn import functional as F
from tools.draw import graph_of, graph_of_file


def gpt(layers: int) -> Graph:
    tg.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=11, block_size=7, layers=layers, heads=3, width=12))
    ids = tg.arange(10).reshape(2, 5).array
    return trace(model.loss, Batch(ids, ids + 1))


def clusters(picture: Picture) -> list[Cluster]:
    found, stack = [], list(picture.content)
    while stack:
        item = stack.pop(0)
        if isinstance(item, Cluster):
            found.append(item)
            stack = item.content + stack
    return found


def cards(graph: Graph, *roles: str, **options: Any) -> list[Card]:
    return [card for card in graph.picture(**options).cards() if not roles or card.role in roles]


class Tower(nn.Module):
    """Equal layers in a row, under names that differ."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        for i, layer in enumerate(layers):
            setattr(self, f"part{i * i}", layer)

    def forward(self, x: Any) -> Any:
        for layer in self.children():
            x = layer(x)
        return x


class Layer(nn.Module):
    def __init__(self, width: int = 4, scale: float = 2.0) -> None:
        super().__init__()
        self.up, self.down, self.scale = nn.Linear(width, 6), nn.Linear(6, width), scale

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(x))) * self.scale


class TestLevels:
    def test_the_model_between_its_inputs_and_its_loss(self) -> None:
        found = cards(graph_of("gpt"), level=0)
        assert [card.role for card in found] == ["leaf", "module", "leaf", "result"]
        assert found[1].header.startswith("total = GPT(ids")
        assert found[1].cells[0].name == "3,732 parameters in 15 tensors"
        assert {(w.tail, w.head) for w in graph_of("gpt").picture(level=0).wires} == {
            (found[0].id, found[1].id),
            (found[2].id, found[1].id),
            (found[1].id, found[3].id),
        }

    def test_modules_that_hold_no_other_are_one_card(self) -> None:
        found = cards(gpt(1), "module", level=1)
        assert [card.header for card in found] == [
            "output = Attention(attention_norm)",
            "down = FeedForward(feed_forward_norm)",
        ]
        attention = found[0]
        assert attention.kind == "mixes"
        assert attention.lines == ["causal: k ≤ q, 15 of 25 visible"]
        assert attention.source == "Q, K, V share one source, attention_norm: self-attention"
        assert [cell.name for cell in attention.cells] == ["W_qkv", "W_output"]
        assert [row.formula for row in attention.rows] == ["dW_qkv, dW_output", "dattention_norm"]

    def test_a_module_that_reads_one_value_several_times_sends_back_the_sum(self) -> None:
        class Head(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.q, self.k, self.v = (nn.Linear(6, 4) for _ in range(3))

            def forward(self, x: Any) -> Any:
                return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.head, self.out = Head(), nn.Linear(4, 6)

            def forward(self, x: Any) -> Any:
                return x + self.out(self.head(x))

        picture = trace(Net(), tg.ones(2, 5, 6, requires_grad=True)).picture(level=1)
        (head,) = [card for card in picture.cards() if card.role == "module"]
        assert [w.gradient for w in picture.wires if w.head == head.id] == ["dx_q + dx_k + dx_v"]

    def test_every_op_at_level_3(self) -> None:
        graph = gpt(1)
        full = opened(graph.record)
        assert len(cards(graph, "step", level=3)) == len(full.forward) > len(graph.record.forward)
        assert {a.op for a in full.forward if a.fused} == {"embedding"}  # whose definition is one op
        labels = [cluster.label for cluster in clusters(graph.picture(level=3))]
        assert "blocks.0.attention_norm · LayerNorm" in labels
        assert "blocks.0.attention.scaled_dot_product_attention · definition" in labels
        ops = {application.op for application in full.forward if application.arranges}
        arranging = [card for card in cards(graph, level=3) if card.op in ops]
        assert len(arranging) == sum(application.arranges for application in full.forward)
        assert all(card.thin != bool(card.cells) for card in arranging)
        plain = next(c for c in clusters(graph.picture(level=3)) if c.label.startswith("blocks.0.attention_norm"))
        assert [card.header for card in plain.content if isinstance(card, Card)][:2] == [
            "mean = Σ x₁ / n over D",
            "centred = x₁ − mean",
        ]

    def test_the_opened_record_holds_together(self) -> None:
        for graph in (gpt(1), graph_of("bigram"), graph_of_file(f"{GOLDEN / 'heads.py'}:head")):
            full = opened(graph.record)
            for application in full.forward:
                assert all(full.values[i].made_by == application.id for i in application.outputs)
                read = [full.values[i].made_by for i in application.inputs if i is not None]
                assert all(made_by is None or made_by < application.id for made_by in read)
            for branch in full.branches:
                assert full.forward[branch.application].inputs[branch.at] == branch.value
                assert branch.shape == full.values[branch.gradient].shape == full.values[branch.value].shape
            assert {b.value for b in graph.record.branches} <= {b.value for b in full.branches}

    def test_equal_runs_share_one_definition(self) -> None:
        assert len(gpt(6).record.definitions) == len(gpt(1).record.definitions)

    def test_other_levels_are_refused(self) -> None:
        with pytest.raises(ValueError, match="level: 4 is not one of 0, 1, 2, 3"):
            gpt(1).svg(level=4)


class TestFolding:
    @pytest.mark.parametrize("level", [1, 2, 3])
    def test_twelve_blocks_are_one(self, level: int) -> None:
        picture = gpt(12).picture(level=level)
        (block,) = [cluster for cluster in clusters(picture) if cluster.count > 1]
        assert block.label == "blocks.0 … blocks.11 · Block"
        assert block.notes[0] == "× 12, same shapes, separate weights: 1,752 parameters each, 21,024 in all"
        assert block.notes[1].endswith("of the next, the last gives x₂₅")
        out = [wire for wire in picture.wires if wire.name == "x₂₅"]
        assert {wire.gradient for wire in out} <= {"dx₂₅", "dx₂₅_centred", "dx₂₅_mean"}
        assert len(picture.cards()) == len(gpt(2).picture(level=level).cards())

    def test_names_do_not_matter_but_shapes_ops_and_numbers_do(self) -> None:
        x = tg.ones(2, 4, requires_grad=True)
        counts = {
            "equal": trace(Tower(*(Layer() for _ in range(4))), x),
            "scales": trace(Tower(Layer(), Layer(), Layer(scale=3.0), Layer(scale=3.0)), x),
            "op": trace(Tower(Layer(), nn.Sequential(nn.Linear(4, 4), nn.GELU()), Layer(), Layer()), x),
        }
        found = {name: [c.count for c in clusters(graph.picture())[1:]] for name, graph in counts.items()}
        assert found == {"equal": [4], "scales": [2, 2], "op": [1, 1, 2]}

    def test_wiring_matters(self) -> None:
        class Skips(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.ModuleList(Layer() for _ in range(4))

            def forward(self, x: Any) -> Any:
                first, *rest = self.layers
                start = y = first(x)
                for layer in rest[:-1]:
                    y = layer(y)
                return rest[-1](start) + y

        assert [c.count for c in clusters(trace(Skips(), tg.ones(2, 4, requires_grad=True)).picture())[1:]] == [3, 1]

    def test_one_module_called_again_keeps_its_weights(self) -> None:
        class Again(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = Layer()

            def forward(self, x: Any) -> Any:
                for _ in range(3):
                    x = self.layer(x)
                return x

        (block,) = clusters(trace(Again(), tg.ones(2, 4, requires_grad=True)).picture())[1:]
        assert block.label == "layer · Layer"
        assert block.notes[0] == "× 3, same shapes, the same weights"

    def test_blocks_side_by_side(self) -> None:
        class Side(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.ModuleList(Layer() for _ in range(3))

            def forward(self, x: Any) -> Any:
                return tg.cat([layer(x) for layer in self.layers], dim=-1)

        picture = trace(Side(), tg.ones(2, 4, requires_grad=True)).picture()
        (block,) = clusters(picture)[1:]
        assert block.count == 3
        inside = {card.id for card in block.content if isinstance(card, Card)}
        into = [wire for wire in picture.wires if wire.head in inside and wire.tail not in inside]
        out = [wire for wire in picture.wires if wire.tail in inside and wire.head not in inside]
        assert [wire.times for wire in into] == [3, 3]
        assert [(wire.times, wire.gradient) for wire in out] == [(3, "dadd₁ + dadd₂ + dadd₃")]

    def test_a_long_chain_of_bare_steps(self) -> None:
        def f(y: Any) -> Any:
            for _ in range(300):
                y = (y * 2).tanh()
            return y

        graph = trace(f, tg.ones(3, requires_grad=True))
        picture = graph.picture()
        assert [cluster.count for cluster in clusters(picture)] == [300]
        assert [card.role for card in picture.cards()] == ["leaf", "step", "step", "result"]

    @pytest.mark.parametrize("level", [1, 2])
    def test_one_block_is_opened_by_name(self, level: int) -> None:
        picture = gpt(12).picture(level=level, open="blocks.3")
        blocks = [c for c in clusters(picture) if c.label.startswith("blocks.") and c.label.endswith("Block")]
        assert [(c.label, c.count) for c in blocks] == [
            ("blocks.0 … blocks.2 · Block", 3),
            ("blocks.3 · Block", 1),
            ("blocks.4 … blocks.11 · Block", 8),
        ]
        shown = [card.header for card in picture.cards() if card.path.startswith("blocks.3")]
        assert "qkv₁₀ = attention_norm₁₀·W_qkvᵀ" in shown or any(h.startswith("qkv") for h in shown)

    def test_all_are_opened(self) -> None:
        graph = gpt(4)
        assert len(cards(graph, "step", open="*")) == 4 * 13 + 7
        assert {cluster.count for cluster in clusters(graph.picture(open="blocks.*"))} == {1}

    def test_what_is_not_there_cannot_be_opened(self) -> None:
        with pytest.raises(ValueError, match=r"open: no module is called 'block\.1'; did you mean 'blocks\.1'\?"):
            gpt(2).picture(open="block.1")


class TestLimits:
    def test_too_many_cards_give_way_to_the_level_above(self) -> None:
        graph = gpt(2)
        picture = graph.picture(max_nodes=20)
        assert len(picture.cards()) == len(graph.picture(level=1).cards())
        assert picture.remarks[-1].startswith("level 2 has 25 cards, more than 20: this is level 1; a module")
        assert picture.remarks[-1] in graph.svg(max_nodes=20)
        assert len(graph.picture(level=3, max_nodes=3).cards()) == len(graph.picture(level=0).cards())
        assert not graph.picture(max_nodes=None).remarks

    def test_a_graph_of_many_ops_without_a_module(self) -> None:
        def f(y: Any) -> Any:
            for i in range(6_000):
                y = y + 1 if i % 7 and i % 11 else y / (2 + i % 5)
            return y

        graph = trace(f, tg.zeros((), requires_grad=True))
        picture = graph.picture()
        assert [card.role for card in picture.cards()] == ["leaf", "module", "result"]
        assert "this is level 0" in picture.remarks[-1]
        assert graph.svg()


class TestStreams:
    def test_a_card_is_coloured_by_the_inputs_that_it_reads(self) -> None:
        layer = nn.TransformerDecoderLayer(6, 2, 8, dropout=0.0, batch_first=True)

        def f(x: Any, mem: Any) -> Any:
            return layer(x, mem)

        picture = trace(f, tg.randn(2, 5, 6), tg.randn(2, 7, 6)).picture()
        assert picture.streams == ["x", "mem"]
        mixing = [card for card in picture.cards() if card.kind == "mixes"]
        assert [card.streams for card in mixing] == [(0,), (0, 1)]
        after = next(card for card in picture.cards() if "norm3" in card.path)
        assert after.streams == (0,)  # what attention gives belongs to its queries
        assert "reads from:" in dot_of(picture)

    def test_labels_reach_the_loss_only(self) -> None:
        picture = graph_of("gpt").picture(open="*")
        both = [card.header.partition(" = ")[0] for card in picture.cards() if card.streams == (0, 1)]
        assert both == ["cross_entropy", "total"]

    def test_a_transformer_at_level_1_has_each_layer_once(self) -> None:
        model = nn.Transformer(6, 2, 3, 4, 8, dropout=0.0, batch_first=True)
        given = tg.randn(2, 7, 6, requires_grad=True), tg.randn(2, 5, 6, requires_grad=True)
        picture = trace(model, *given).picture(level=1)
        assert {cluster.label.rpartition(" · ")[2]: cluster.count for cluster in clusters(picture)} == {
            "Transformer": 1,
            "TransformerEncoder": 1,
            "TransformerEncoderLayer": 3,
            "TransformerDecoder": 1,
            "TransformerDecoderLayer": 4,
        }
