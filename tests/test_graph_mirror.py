"""The mirror: which ops the backward pass ran, beside the steps that they belong to; and one module drawn alone."""

import html
import re
import xml.etree.ElementTree as ET

import pytest

import tinygrad_edu as tg
from tests.hash_seeds import printed
from tests.test_graph import GOLDEN
from tinygrad_edu.graph import Graph, trace
from tinygrad_edu.graph.part import part
from tinygrad_edu.graph.text import width
from tinygrad_edu.graph.words import speaking
from tools.draw import graph_of, graph_of_file

ATTENTION = "blocks.0.attention"


def head() -> Graph:
    return graph_of_file(f"{GOLDEN / 'heads.py'}:head")


def edges(dot: str, letter: str) -> set[tuple[str, str]]:
    """(tail, head) of every wire, through the node of its label."""
    into = {label: tail for tail, label in re.findall(rf"^  (\w+) -> ({letter}\d+):w:n", dot, re.M)}
    return {(into[label], end) for label, end in re.findall(rf"^  ({letter}\d+):w:s -> (\w+)", dot, re.M)}


class TestMirror:
    @pytest.mark.parametrize("module", [None, ATTENTION, "blocks.1.feed_forward"])
    def test_every_wire_with_a_gradient_has_one_beside_it(self, module: str | None) -> None:
        graph = head() if module is None else graph_of("gpt")
        dot = graph.dot(view="mirror", module=module)
        picture = graph._full(False) if module is None else part(graph._full(False), module)
        assert edges(dot, "e") == {(wire.tail, wire.head) for wire in picture.wires}
        flowing = {(f"b{w.tail}", f"b{w.head}") for w in picture.wires if w.gradient is not None}
        assert edges(dot, "g") == flowing

    def test_each_card_stands_beside_its_backward(self) -> None:
        dot = graph_of("gpt").dot(view="mirror", module=ATTENTION)
        svg = ET.fromstring(graph_of("gpt").svg(view="mirror", module=ATTENTION))
        middle: dict[str, float] = {}
        left: dict[str, float] = {}
        for group in svg.iter("{http://www.w3.org/2000/svg}g"):
            points = [p.get("points", "") for p in group if p.tag.endswith("polygon")]
            if group.get("class", "").startswith("node") and points:
                pairs = [tuple(map(float, pair.split(","))) for pair in " ".join(points).split()]
                middle[group.get("id", "")] = (max(y for _, y in pairs) + min(y for _, y in pairs)) / 2
                left[group.get("id", "")] = min(x for x, _ in pairs)
        beside = re.findall(r"rank=same; ([snt]\w+); (b\w+);", dot)
        assert len(beside) == 8
        for forward, backward in beside:
            assert middle[forward] == pytest.approx(middle[backward], abs=1)
            assert left[forward] < left[backward]

    @pytest.mark.parametrize("name", ["head", "gpt", "bigram"])
    def test_the_rows_have_every_op_that_ran_once(self, name: str) -> None:
        graph = head() if name == "head" else graph_of(name)
        ran = [number for card in graph._full(False).cards() for row in card.rows for number in row.ran]
        assert sorted(ran) == [application.id for application in graph.record.backward]

    def test_the_ops_are_on_the_drawing(self) -> None:
        record = head().record
        svg = head().svg(view="mirror")
        assert "div, transpose, matmul" in svg
        assert "add × 2" in svg
        assert all(application.op in svg for application in record.backward)

    def test_what_was_saved_is_said_where_it_is_read(self) -> None:
        dot = head().dot(view="mirror")
        assert "reads what was saved: v, weights" in dot
        saved = sum(bool(card.reads) for card in head().picture().cards())
        assert dot.count("style=dotted") == saved == 7

    def test_a_module_at_every_op(self) -> None:
        svg = graph_of("gpt").svg(level=3, view="mirror", module="blocks.0.attention_norm")
        assert "backward of variance" in svg

    def test_too_many_steps_are_drawn_as_twin(self) -> None:
        graph = graph_of("gpt")
        said = "no mirror: it reads well up to 25 steps; name a module, for example one attention"
        assert said in graph.dot(view="mirror")
        assert graph.dot(view="mirror").count(" -> ") == graph.dot().count(" -> ")
        with tg.no_grad():
            none = trace(lambda x: x * 2, tg.ones(2))
        assert "no mirror: nothing goes back" in none.dot(view="mirror")

    def test_other_views_are_refused(self) -> None:
        with pytest.raises(ValueError, match="view: 'cube' is not one of twin, mirror"):
            head().svg(view="cube")


class TestPart:
    def test_a_module_between_what_it_reads_and_gives(self) -> None:
        picture = graph_of("gpt").picture(module="blocks.1.feed_forward")
        assert [card.role for card in picture.cards()].count("step") == 3
        (start,) = [card for card in picture.cards() if card.role == "leaf"]
        (end,) = [card for card in picture.cards() if card.role == "result"]
        assert start.header.startswith("feed_forward_norm")
        assert [row.kind for row in start.rows] == ["end"]
        assert [row.note for row in end.rows] == ["gradient enters here"]

    def test_what_a_module_reads_several_times(self) -> None:
        picture = graph_of("gpt").picture(module="blocks.0")
        (x,) = [card for card in picture.cards() if card.header.startswith("x") and card.role == "leaf"]
        assert x.rows[0].formula.count(" + ") == 1

    def test_a_module_that_is_not_there(self) -> None:
        with pytest.raises(ValueError, match=r"module: no module 'blocks\.7' is on the picture; take a path such as"):
            graph_of("gpt").picture(module="blocks.7")


class TestCells:
    CELL = re.compile(r'WIDTH="(\d+)"[^>]*><FONT FACE="(\w+)" POINT-SIZE="(\d+)"[^>]*>(<B>)?([^<]*)<')

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_text_fits_on_every_level_and_view(self, language: str) -> None:
        graph = graph_of("gpt")
        with speaking(language):
            drawings = [graph.dot(level) for level in (0, 1, 3)]
            drawings += [graph.dot(view="mirror", module=ATTENTION), graph.diff(graph_of("bigram")).dot()]
        for dot in drawings:
            found = self.CELL.findall(dot)
            assert len(found) > 20
            for wide, font, size, bold, text in found:
                assert width(html.unescape(text), int(size), bool(bold), font == "Courier") <= int(wide)

    def test_the_same_bytes_under_every_hash_seed(self) -> None:
        program = (
            "import hashlib; from tools.draw import graph_of; g = graph_of('gpt')\n"
            f"dots = [g.dot(1), g.dot(3, open='blocks.1'), g.dot(view='mirror', module={ATTENTION!r}),\n"
            "    g.diff(graph_of('bigram')).dot(), g.diff(graph_of('bigram')).markdown()]\n"
            "print(*(hashlib.sha256(dot.encode()).hexdigest() for dot in dots))"
        )
        found = printed(program)
        assert len(found) == 1
