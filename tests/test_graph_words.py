"""Pictures and ledgers in two languages: every text has both, and both fit."""

import ast
import html
import re
from pathlib import Path
from typing import Any

import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.graph import Graph, speaking, trace
from tinygrad_edu.graph.chinese import CHINESE
from tinygrad_edu.graph.chinese_formulas import FORMULAS
from tinygrad_edu.graph.text import width
from tinygrad_edu.graph.words import say, word
from tools.draw import graph_of, graph_of_file

ROOT = Path(__file__).resolve().parent.parent
TEXTS = CHINESE | FORMULAS


def said() -> dict[str, str]:
    """Every text that the code of pictures says, and the file that says it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tinygrad_edu" / "graph").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if called in ("say", "failed", "Note") and isinstance(node, ast.Call) and node.args:
                texts = [part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
                found |= {text: path.name for text in texts if isinstance(text, str) and " " in text}
    return found


def graphs() -> dict[str, Graph]:
    wrong = nn.TransformerDecoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
    return {
        "gpt": graph_of("gpt"),
        "bigram": graph_of("bigram"),
        "head": graph_of_file(f"{ROOT / 'tests' / 'golden' / 'heads.py'}:head"),
        "crossing": trace(wrong, tg.randn(2, 4, 12), tg.randn(2, 5, 12), visibility="causal", scaled=True),
        "past": (tg.ones(3, requires_grad=True) * tg.ones(3) + tg.ones(3)).sum().graph(),
    }


class TestTable:
    def test_every_text_has_its_chinese(self) -> None:
        assert {text: file for text, file in said().items() if text not in TEXTS} == {}

    @pytest.mark.parametrize("text", TEXTS)
    def test_both_have_the_same_places(self, text: str) -> None:
        """What a translation takes in, the text has; a formula may leave out a remark, a sentence nothing."""
        places = [set(re.findall(r"\{(\w+)\}", t)) for t in (text, TEXTS[text])]
        assert places[1] <= places[0] if text in FORMULAS else places[0] == places[1]

    def test_a_language_is_spoken_in_its_block_only(self) -> None:
        with speaking("zh"):
            assert say("{seen} of {all} visible", seen=15, all=25) == "25 个中可见 15 个"
            with speaking("en"):
                assert word("no gradient") == "no gradient"
        assert word("no gradient") == "no gradient"
        with pytest.raises(ValueError, match="pictures speak en and zh, not 'fr'"), speaking("fr"):
            pass


class TestChinese:
    @pytest.mark.parametrize("name", ["gpt", "bigram", "head", "crossing", "past"])
    def test_no_english_is_left(self, name: str) -> None:
        """Names of the code, ops and functions stay; sentences do not."""
        graph = graphs()[name]
        with speaking("zh"):
            ledger, dot = graph.ledger(), graph.dot()
        english = re.compile(r"\b(?:of|the|over|where|else|with|along|from|and|gradient|visible|shown|copied)\b")
        assert [line for line in ledger.splitlines() if english.search(line.partition("trace(")[0])] == []
        texts = re.findall(r">([^<>]+)<", dot)
        assert len(texts) > 20
        assert [t for t in map(html.unescape, texts) if english.search(t.partition("trace(")[0])] == []

    def test_the_record_and_the_verdicts_are_the_same(self) -> None:
        graph = graphs()["crossing"]
        english = [(check.step, check.line, check.passed) for check in graph.picture(max_nodes=None).checks]
        with speaking("zh"):
            chinese = [(check.step, check.line, check.passed) for check in graph.picture(max_nodes=None).checks]
            assert "未通过：第" in graph.ledger()
        assert english == chinese
        assert not all(passed for *_, passed in english)

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_no_text_is_wider_than_its_cell(self, language: str) -> None:
        cell = re.compile(r'WIDTH="(\d+)"[^>]*><FONT FACE="(\w+)" POINT-SIZE="(\d+)"[^>]*>(<B>)?([^<]*)<')
        for graph in graphs().values():
            with speaking(language):
                found: list[Any] = cell.findall(graph.dot())
            assert found
            for wide, font, size, bold, text in found:
                assert width(html.unescape(text), int(size), bool(bold), font == "Courier") <= int(wide)
