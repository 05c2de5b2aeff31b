"""Two graphs compared: a BERT against the GPT, and small changes one by one."""

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.graph import Graph, trace
from tinygrad_edu.graph.alignment import without_numbers
from tinygrad_edu.nn import functional as F
from tools.draw import graph_of

B, T, D, H, V = 2, 5, 12, 3, 11


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x: Any, hidden: Any) -> Any:
        B, T, D = x.shape
        q, k, v = (f(x).view(B, T, H, D // H).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(D // H)).masked_fill(hidden, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return self.output((weights @ v).transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, hidden: int = 4 * D) -> None:
        super().__init__()
        self.attention_norm, self.attention, self.norm = nn.LayerNorm(D), Attention(), nn.LayerNorm(D)
        self.up, self.down = nn.Linear(D, hidden), nn.Linear(hidden, D)

    def forward(self, x: Any, hidden: Any) -> Any:
        x = x + self.attention(self.attention_norm(x), hidden)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Gpt(nn.Module):
    """Causal: position q sees none after itself."""

    def __init__(self, layers: int = 2, hidden: int = 4 * D) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, V)

    def embed(self, ids: Any) -> Any:
        return self.token(ids) + self.position(tg.arange(T))

    def run(self, x: Any, hidden: Any) -> Any:
        for block in self.blocks:
            x = block(x, hidden)
        return self.norm(x)

    def forward(self, ids: Any) -> Any:
        return self.head(self.run(self.embed(ids), tg.tensor(~np.tri(T, dtype=bool))))


class Bert(Gpt):
    """Padding instead of the causal mask, a third embedding, a head for the first position."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__(layers)
        self.kind, self.head = nn.Embedding(2, D), nn.Linear(D, 2)

    def forward(self, ids: Any, kinds: Any, padding: Any) -> Any:  # type: ignore[override]
        x = self.embed(ids) + self.kind(kinds)
        return self.head(self.run(x, padding.reshape(B, 1, 1, T))[:, 0])


IDS = np.arange(B * T).reshape(B, T)
AXES = {"ids": "B T", "token.weight": "V D", "position.weight": "T D", "kinds": "B T", "*up.weight": "F D"}


def gpt(**options: Any) -> Graph:
    return trace(Gpt(**options), IDS, axes=AXES)


def bert(layers: int = 2) -> Graph:
    padding = np.zeros((B, T), dtype=bool)
    padding[:, 3:] = True
    return trace(Bert(layers), IDS, IDS % 2, padding, axes=AXES)


class TestBert:
    def test_what_a_reader_would_say(self) -> None:
        diff = gpt().diff(bert())
        changes = {(change.kind, change.node.card.header.partition(" = ")[0]): change for change in diff.changes}
        assert {name for kind, name in changes if kind == "removed"} == set()
        assert {"kind"} < {name for kind, name in changes if kind == "added"}
        masks = [c.text() for c in diff.changes if c.kind == "changed" and "mask: " in c.text()]
        assert masks == ["mask: causal: k ≤ q → padding: the same keys for every query"]
        head = next(change for (kind, name), change in changes.items() if kind == "changed" and name == "head")
        assert "parameters: " in head.text()
        assert sum(change.kind == "same" for change in diff.changes) >= 16

    def test_the_table(self) -> None:
        table = gpt().diff(bert()).markdown()
        rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| ")]
        assert rows[0] == ["what", "module", "step before", "step after", "difference"]
        assert all(len(row) == 5 for row in rows)
        assert {row[0] for row in rows[1:]} == {"added", "changed"}
        assert "blocks.*.attention" in {row[1] for row in rows}
        assert re.search(r"- \d+ steps and inputs are equal", table)

    def test_the_drawing_has_words_and_colours(self) -> None:
        diff = gpt().diff(bert())
        kinds = [card.kind for card in diff.picture().cards()]
        for kind in ("same", "added", "changed"):
            assert kinds.count(kind) == sum(change.kind == kind for change in diff.changes)
        assert ["[B T] 2×5, no gradient"] in [card.lines for card in diff.picture().cards() if card.header == "ids"]
        svg = ET.fromstring(diff.svg())
        texts = {"".join(t.itertext()) for t in svg.iter("{http://www.w3.org/2000/svg}text")}
        assert {"added", "changed", "equal"} <= texts
        assert {"mask: causal: k ≤ q", "→ padding: the same keys for every query"} <= {
            text.strip("\xa0 ") for text in texts
        }

    def test_the_other_way_round(self) -> None:
        diff = bert().diff(gpt())
        removed = [change.node.card.header for change in diff.changes if change.kind == "removed"]
        assert any(header.startswith("kind = ") for header in removed)
        picture = diff.picture()
        gone = [card for card in picture.cards() if card.kind == "removed"]
        assert len(gone) == len(removed)
        ids = {card.id for card in gone}
        assert any(wire.head in ids or wire.tail in ids for wire in picture.wires)
        assert diff.svg()


class TestBuiltIn:
    def test_a_bert_against_the_gpt(self) -> None:
        """Padding instead of causal, a third embedding, biases, another head, and the rest equal."""
        diff = graph_of("gpt").diff(graph_of("bert"))
        found: dict[str, list[str]] = {}
        for change in diff.changes:
            found.setdefault(change.kind, []).append(change.node.card.header.partition(" = ")[2])
        assert "removed" not in found
        assert [text for text in found["added"] if text] == [
            "embedding(segments)",
            "add + segment",
            "whether mask ≠ 0",
            "not visible",
            "x·W_denseᵀ + b_dense",
            "gelu(dense)",
            "layer_norm(activation)",
        ]
        assert any("mask: causal: k ≤ q → padding: the same keys" in change.text() for change in diff.changes)
        others = [c.text() for c in diff.changes if c.kind == "changed" and not c.text().startswith("parameters: ")]
        assert len(others) == 2
        assert all("causal" in text and "padding" in text for text in others)
        assert {"token + position", "q·kᵀ / √4", "weights·v", "gelu(up)", "x + down"} <= set(found["same"])


class TestChanges:
    def test_a_graph_equals_itself(self) -> None:
        diff = gpt().diff(gpt())
        assert {change.kind for change in diff.changes} == {"same"}
        assert not diff.blocks
        assert str(diff) == f"{len(diff.changes)} equal"

    def test_another_number_of_layers_is_one_line(self) -> None:
        diff = gpt(layers=2).diff(gpt(layers=5))
        assert diff.blocks == [("blocks.*", 2, 5), ("blocks.*.attention", 2, 5)][: len(diff.blocks)]
        assert str(diff).startswith("repeats of blocks.*: 2 → 5")
        assert {change.kind for change in diff.changes} == {"same"}

    def test_another_width_shows_both(self) -> None:
        diff = gpt().diff(gpt(hidden=20))
        changed = {c.node.card.header.partition(" = ")[0]: c.text() for c in diff.changes if c.kind == "changed"}
        assert {name.rstrip("₀₁₂₃") for name in changed} == {"up", "gelu", "down"}
        assert next(text for name, text in changed.items() if name.startswith("up")).startswith(
            "shape: 2×5×48 → 2×5×20"
        )

    def test_a_module_of_another_name(self) -> None:
        class One(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = Block()

            def forward(self, x: Any, hidden: Any) -> Any:
                return self.first(x, hidden) * 2

        class Other(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.second = Block()

            def forward(self, x: Any, hidden: Any) -> Any:
                return self.second(x, hidden) * 2

        given = tg.ones(B, T, D), tg.tensor(~np.tri(T, dtype=bool))
        diff = trace(One(), *given).diff(trace(Other(), *given))
        assert {change.kind for change in diff.changes} == {"same"}

    @pytest.mark.parametrize(
        ("path", "found"), [("blocks.3", "blocks.*"), ("a.10.b.2", "a.*.b.*"), ("conv2d.fc1", "conv2d.fc1"), ("", "")]
    )
    def test_layer_numbers(self, path: str, found: str) -> None:
        assert without_numbers(path) == found

    def test_files(self, tmp_path: Path) -> None:
        diff = gpt().diff(bert())
        for name in ("d.svg", "d.dot", "d.md"):
            diff.save(tmp_path / name)
        assert (tmp_path / "d.md").read_text(encoding="utf-8") == diff.markdown() == diff._repr_markdown_()
        with pytest.raises(ValueError, match=r"d\.html: a diff is saved as one of \.svg, \.dot, \.md"):
            diff.save(tmp_path / "d.html")
