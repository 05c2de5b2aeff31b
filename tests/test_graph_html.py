"""The page of a graph as text: complete in itself, safe with any name, small, and true to the record."""

import base64
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tomllib
import zlib
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models import MODELS
from tinygrad_edu.data import Batch
from tinygrad_edu.graph import Graph, LayoutError, engine, trace
from tinygrad_edu.graph.html.chinese import CHINESE
from tinygrad_edu.graph.html.drawing import Looks, marked, naming
from tinygrad_edu.graph.html.facts import in_order, ledger_facts
from tinygrad_edu.graph.html.sheets import sheets_of
from tinygrad_edu.graph.words import speaking
from tools.draw import graph_of, graph_of_file

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tinygrad_edu" / "graph" / "html"
HEAD = f"{ROOT / 'tests' / 'golden' / 'heads.py'}:head"
HOSTILE = (
    "<script>window.hit = 1</script>",
    "</script><script>window.hit = 1</script>",
    "]]><img src=x onerror='window.hit = 1'>",
    '" onfocus="window.hit = 1" autofocus="',
    "{{script}} {|} $(ls) \\N \\1",
    "<!-- two\nlines -->",
    "control \x00\x1b[0m \x85 \u2028",
    "half \ud800 pair",
    "注意力 🙂",
)


class Elements(HTMLParser):
    """Every element of a page with its attributes, and what stands in its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.open: str | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.open = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = None

    def handle_data(self, data: str) -> None:
        if self.open == "script":
            self.scripts[-1] += data

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.found if (value := attributes.get(name)) is not None]


def unpacked(page: str) -> list[dict[str, Any]]:
    """The drawings that are packed, with what is known of them."""
    packed = Elements(page).values("data-packed")
    return [json.loads(zlib.decompress(base64.b64decode(text))) for text in packed]


def known(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Elements(page).scripts[-2])
    return found


def deep_gpt(layers: int = 12) -> Graph:
    kind: Any
    kind, config = MODELS["gpt"]
    model = kind(config(vocab_size=11, block_size=7, layers=layers, heads=3, width=12))
    ids = np.random.default_rng(0).integers(0, 11, (2, 6))
    return trace(model.loss, Batch(ids[:, :-1].copy(), ids[:, 1:].copy()))


def hostile() -> Graph:
    """Names of results and the title are whatever one can think of."""
    return trace(lambda x: {name: x * (i + 2.0) for i, name in enumerate(HOSTILE)}, tg.ones(2), title=HOSTILE[1])


@pytest.fixture(scope="module", params=["head", "gpt", "hostile"])
def page(request: pytest.FixtureRequest) -> str:
    return {"head": lambda: graph_of_file(HEAD), "gpt": lambda: graph_of("gpt"), "hostile": hostile}[
        request.param
    ]().html()


def test_a_page_asks_for_nothing_from_elsewhere(page: str) -> None:
    elements = Elements(page)
    assert not {tag for tag, _ in elements.found} & {"link", "img", "iframe", "object", "embed", "base", "a", "image"}
    assert not elements.values("src")
    assert not elements.values("href")
    assert not elements.values("xlink:href")
    assert not re.findall(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|WebAssembly|\beval\(", page)
    assert set(re.findall(r"https?://[\w./]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_its_policy_lets_only_its_own_script_run(page: str) -> None:
    elements = Elements(page)
    policy = next(value for value in elements.values("content") if "script-src" in value)
    assert policy.startswith("default-src 'none'")
    digest = base64.b64encode(hashlib.sha256(elements.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    kinds = [attributes.get("type") for tag, attributes in elements.found if tag == "script"]
    assert kinds in (["application/json", "module"], ["application/json", "application/json", "module"])
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on")]


def test_no_id_is_given_twice(page: str) -> None:
    ids = Elements(page).values("id")
    assert len(ids) == len(set(ids))
    for sheet in unpacked(page):
        assert not Elements(sheet["drawing"]).values("id")


def test_what_is_referred_to_by_id_is_there(page: str) -> None:
    elements = Elements(page)
    ids = set(elements.values("id"))
    for name in ("aria-controls", "aria-labelledby"):
        assert set(elements.values(name)) <= ids


def test_hostile_names_are_text_everywhere() -> None:
    found = hostile().html()
    elements = Elements(found)
    assert sum(tag == "script" for tag, _ in elements.found) == 3
    drawing = next(json.loads(script) for script in elements.scripts if '"cards"' in script)
    headers = [card["header"] for card in drawing["cards"].values() if card["role"] == "result"]
    assert [name[:12] for name in headers if "hit" in name] == [
        "<script>wind",
        "</script><sc",
        "]]><img src=",
        '" onfocus="w',
    ]
    assert "注意力 🙂" in headers
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", found)
    assert not any(re.search("[\u2028\u2029]", script) for script in elements.scripts)
    found.encode("utf-8")


def test_data_cannot_end_its_element(page: str) -> None:
    for script in Elements(page).scripts[:-1]:
        assert not set("<>&") & set(script)


def test_the_same_graph_gives_the_same_bytes() -> None:
    script = "from tools.draw import graph_of; print(__import__('zlib').crc32(graph_of('bigram').html().encode()))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != ""


def test_twelve_layers_stay_under_a_megabyte_with_every_level_in_them() -> None:
    found = deep_gpt().html()
    assert len(found.encode()) < 1_000_000
    assert [name for name in ("Model", "Modules", "Steps", "Ops") if f">{name}</button>" not in found] == []


def test_a_level_that_shows_nothing_new_has_no_tab() -> None:
    assert list(sheets_of(graph_of_file(HEAD)).tabs) == ["Model", "Steps", "Ops", "Mirror"]
    assert list(sheets_of(trace(lambda x: x, tg.ones(2))).tabs) == ["Steps"]
    assert list(sheets_of(deep_gpt(2)).tabs) == ["Model", "Modules", "Steps", "Ops", "Mirror"]


@pytest.fixture(scope="module", params=["head", "gpt", "bigram"])
def graph(request: pytest.FixtureRequest) -> Graph:
    return graph_of_file(HEAD) if request.param == "head" else graph_of(request.param)


class TestSheets:
    def test_what_opens_leads_somewhere_and_back(self, graph: Graph) -> None:
        sheets = sheets_of(graph)
        for number, sheet in enumerate(sheets.drawings):
            parts = set(re.findall(r'id="((?:n|cluster_n?)\d+)"', sheet.svg))
            assert set(sheet.opens) <= parts
            assert sheet.closes <= set(sheet.opens)
            for part, (to, target) in sheet.opens.items():
                assert to != number
                there = sheets.drawings[to]
                assert not target or f'id="{target}"' in there.svg
                if part in sheet.closes:
                    assert there.opens[target][0] == number or to == sheets.first

    def test_steps_are_all_gradients_in_the_order_in_which_they_ran(self, graph: Graph) -> None:
        sheets = sheets_of(graph)
        for sheet in sheets.drawings:
            cards = sheet.picture.cards()
            rows = [(card.rows[at], card) for card, at in in_order(cards)]
            assert sorted((id(row) for row, _ in rows)) == sorted(id(row) for card in cards for row in card.rows)
            moments = [row.after for row, _ in rows]
            assert moments == sorted(moments)
            seen: set[str] = set()
            for row, _ in rows:
                names, _, right = row.formula.partition(" = ")
                if row.kind == "sum" and "‖" not in right and sheet is sheets.drawings[sheets.listed]:
                    assert set(right.split(" + ")) <= seen
                seen |= set(names.split(", "))

    def test_every_gradient_is_marked_on_the_drawing(self, graph: Graph) -> None:
        for sheet in sheets_of(graph).drawings:
            drawing = marked(sheet.svg, sheet.picture, {}, Looks())
            told = [card for card in sheet.picture.cards() if (card.rows if sheet.mirrored else card.drawn)]
            drawn = {card.id: [*range(len(card.rows))] if sheet.mirrored else card.drawn for card in told}
            assert drawing.count('class="row"') == sum(map(len, drawn.values()))
            for card in told:
                start = drawing.index(f'data-id="{"b" if sheet.mirrored else ""}{card.id}"')
                body = drawing[start:].partition("data-id=")[2].partition("data-id=")[0]
                assert re.findall(r'data-row="(\d+)"', body) == list(map(str, drawn[card.id]))
                rows = re.findall(r'<g class="row".*?</g>', body)
                for at, found in zip(drawn[card.id], rows, strict=True):
                    plain = html.unescape(re.sub(r"<[^>]+>", " ", found))
                    assert card.rows[at].formula.split()[0] in plain.split()
            flowing = sum(wire.gradient is not None for wire in sheet.picture.wires)
            assert len(re.findall(r'class="grad[ "]', drawing)) == flowing

    def test_the_ledger_of_the_page_is_the_ledger(self, graph: Graph) -> None:
        found = ledger_facts(graph.ledger(), sheets_of(graph))
        lines = [line for line in graph.ledger().splitlines() if line.startswith("| ")]
        assert len(found["rows"]) == len(lines) - 1
        assert [row[0] for row in found["rows"]] == [str(i + 1) for i in range(len(lines) - 1)]
        cards = {card.id: card for card in sheets_of(graph).drawings[found["sheet"]].picture.cards()}
        assert [row[1] for row in found["rows"]] == [" ".join(cards[name].header.split()) for name in found["cards"]]


def test_cells_of_the_ledger_come_back_as_they_were() -> None:
    graph = trace(lambda x: x + 1.0, tg.ones(2))
    table = (
        "# t\n\n| op | contracts | keeps | backward |\n|---|---|---|---|\n"
        "| a \\| b \\\\ &lt;i> \\\\\\| c | - | - | - |\n\n- sum: 1\n"
    )
    assert ledger_facts(table, sheets_of(graph))["rows"] == [["a | b \\ <i> \\| c", "-", "-", "-"]]


def test_axes_are_told_by_their_size_and_their_role() -> None:
    axes = known(graph_of("gpt").html())["axes"]
    assert {name: axes[name]["size"] for name in "BTDHdFV"} == dict(
        zip("BTDHdFV", ["2", "5", "12", "3", "4", "48", "11"])
    )
    assert axes["D"]["meaning"] == "width of the model · axis 2 of token.weight"
    assert axes["P"]["meaning"] == "axis 1 of position.weight"
    assert axes["q"] == {"size": "5", "meaning": "positions that ask, the query side of T"}
    assert set(known(graph_of_file(HEAD).html())["axes"]) == {"q", "k"}


def test_names_of_axes_are_marked_where_they_name_an_axis_and_nowhere_else() -> None:
    sheets = sheets_of(graph_of_file(HEAD))
    sheet = sheets.drawings[sheets.first]
    drawing = marked(sheet.svg, sheet.picture, {"q", "k"}, Looks())
    assert ">k = x·Wk + bk<" in drawing
    assert re.search(r'<tspan data-axis="q">q</tspan>', drawing)


def test_a_page_is_saved_whole(tmp_path: Path) -> None:
    graph = graph_of_file(HEAD)
    graph.save(tmp_path / "my page é.html")
    assert (tmp_path / "my page é.html").read_text(encoding="utf-8") == graph.html()
    assert [path.name for path in tmp_path.iterdir()] == ["my page é.html"]


def test_a_page_begins_where_it_is_asked_to() -> None:
    graph, small = graph_of("gpt"), graph_of_file(HEAD)
    for drawn, arguments, tab in (
        (small, {}, "Steps"),
        (graph, {"level": 1}, "Modules"),
        (small, {"level": 3}, "Ops"),
        (small, {"view": "mirror"}, "Mirror"),
    ):
        (chosen,) = re.findall(r'aria-selected="true"[^>]*>(\w+)<', drawn.html(**arguments))
        assert chosen == tab
    opened = sheets_of(graph, 1, "blocks.1")
    assert "blocks.1.attention.qkv · Linear" in opened.drawings[opened.first].svg
    assert opened.drawings[opened.first].tab == opened.tabs["Modules"]
    first = sheets_of(small, 1)
    assert list(first.tabs)[first.first] == "Steps"
    for wrong in ({"level": 7}, {"view": "side"}, {"open": "no.such"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            graph.html(**wrong)


def test_what_cannot_be_laid_out_is_left_out_but_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of("gpt")
    draw = graph.svg

    def svg(level: int = 2, open: Any = (), *rest: Any, **more: Any) -> str:
        if level != 2 or open or more:
            raise LayoutError("took too long")
        return draw(level, open, *rest, **more)

    monkeypatch.setattr(graph, "svg", svg)
    assert list(sheets_of(graph).tabs) == ["Steps"]
    assert "Steps" in graph.html()
    monkeypatch.setenv(engine.VARIABLE, "no-such-program")
    with pytest.raises(LayoutError, match="no-such-program"):
        sheets_of(graph)


def test_a_notebook_shows_the_page_in_a_frame_of_its_own() -> None:
    graph = graph_of_file(HEAD)
    (tag, attributes), *rest = Elements(graph._repr_html_() or "").found
    assert (tag, rest) == ("iframe", [])
    assert attributes["srcdoc"] == graph.html()
    assert attributes["sandbox"] == "allow-scripts allow-downloads"


def test_without_dot_a_notebook_shows_text_and_a_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of_file(HEAD)
    monkeypatch.setenv(engine.VARIABLE, "no-such-program")
    assert graph._repr_html_() is None
    with pytest.warns(UserWarning, match="no-such-program"):
        graph.save(tmp_path / "a.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dot", "a.md"]
    with pytest.raises(LayoutError, match="no-such-program"):
        graph.html()


def test_a_page_speaks_chinese_throughout() -> None:
    written = set(re.findall(r"\[\[(.*?)\]\]", (SOURCE / "page.html").read_text(encoding="utf-8")))
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.glob("*.js"))
    written |= set(re.findall(r'\bsay\(\s*"([^"]+)"', scripts))
    for pair in re.findall(r'\bsay\([^;{"]*(?:"sum" )?\? "([^"]+)"\s*: "([^"]+)"', scripts):
        written |= {*pair}
    written |= {what for _, what in re.findall(r'\n  \["([^"]+)", "([^"]+)"', scripts)} - {""}
    assert len(written) > 60
    assert sorted(written - CHINESE.keys()) == []
    for english, chinese in CHINESE.items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese))
    with speaking("zh"):
        assert re.fullmatch("|".join(naming()), "收缩 D · 保留 B T V")
        found = graph_of_file(HEAD).html()
    assert '<html lang="zh">' in found
    assert ">步骤</button>" in found
    assert not [text for text in written if f"[[{text}]]" in found]


def test_what_the_page_is_made_of_is_in_the_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    parts = [path.name for path in SOURCE.iterdir() if path.suffix in (".js", ".css", ".html")]
    assert parts
    assert [n for n in parts if not any(fnmatch(n, p) for p in patterns["tinygrad_edu.graph.html"])] == []


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.js")), ids=lambda path: path.name)
def test_a_part_of_the_script_says_what_it_is_for(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"// [A-Z][^.]*\.", lines[0])
    assert len(lines) < 400
    assert max(map(len, lines)) <= 120
