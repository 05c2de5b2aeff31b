"""A drawing as text and as file: its labels, the engine that lays it out, the command line."""

import hashlib
import html
import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tinygrad_edu as tg
from tests.hash_seeds import printed
from tinygrad_edu import nn
from tinygrad_edu.graph import Graph, LayoutError, engine, png, trace
from tinygrad_edu.graph.text import width
from tools import draw
from tools.cli import run
from tools.draw import graph_of, graph_of_file

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
SVG = "{http://www.w3.org/2000/svg}"


def head() -> Graph:
    return graph_of_file(f"{GOLDEN / 'heads.py'}:head")


def block(name: str) -> Graph:
    return graph_of_file(f"{GOLDEN / 'blocks.py'}:{name}")


# By name: how the graph is made, and at which levels it is kept beside level 2.
GOLDEN_GRAPHS: dict[str, tuple[Callable[[], Graph], tuple[int, ...]]] = {
    "bigram": (lambda: graph_of("bigram"), (1, 3)),
    "gpt": (lambda: graph_of("gpt"), (1, 3)),
    "gpt12": (lambda: graph_of("gpt", {"L": 12}), (1,)),
    "bert": (lambda: graph_of("bert"), (1,)),
    "seq2seq": (lambda: graph_of("seq2seq"), (1,)),
    "ocr": (lambda: graph_of("ocr"), (1,)),
    "encoder": (lambda: block("encoder"), (1, 3)),
    "cross": (lambda: block("cross"), (1, 3)),
    "head": (head, (3,)),
}


def texts(graph: Graph) -> list[str]:
    """Every line of text on a drawing."""
    return ["".join(t.itertext()) for t in ET.fromstring(graph.svg()).iter(f"{SVG}text")]


class TestText:
    LABELS = (
        "<unk>",
        "a<b>c",
        "<b>not bold</b>",
        "C:\\new\\table",
        'say "hi"',
        "\\",
        "\\N",
        "a&lt;b",
        "&#65;",
        "x & y",
        "]",
    )
    ODD = ("<script>alert(1)</script>", "注意力 🙂", "{|} $(ls) 'q'")

    def test_hostile_labels_are_shown_as_they_are(self) -> None:
        labels = [*self.LABELS, *self.ODD]
        graph = trace(lambda x: {label: x + i for i, label in enumerate(labels)}, tg.ones(2))
        found = texts(graph)
        assert [label for label in labels if found.count(label) != 1] == []
        assert "script" not in {element.tag.rpartition("}")[2] for element in ET.fromstring(graph.svg()).iter()}

    def test_lines_and_control_characters(self) -> None:
        graph = trace(lambda x: {"two\nlines": x + 1, "\x1b[0m\x00": x + 2, "\ud800": x + 3}, tg.ones(2))
        assert {"two", "lines", "\ufffd[0m\ufffd", "\ufffd"} <= set(texts(graph))

    def test_module_names(self) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.parts = {"layer:0 <lambda>": nn.Linear(2, 2), "\\N": nn.Linear(2, 2)}

            def forward(self, x: Any) -> Any:
                for part in self.parts.values():
                    x = part(x)
                return x

        graph = trace(Net(), tg.ones(1, 2))
        assert "parts.layer:0 <lambda> · Linear" in texts(graph)
        groups = [g.get("class", "") for g in ET.fromstring(graph.svg()).iter(f"{SVG}g")]
        assert sum(c.startswith("node ") and "wire" not in c for c in groups) == 4
        assert sum(c.startswith("edge ") for c in groups) == 6

    def test_no_text_is_wider_than_its_cell(self) -> None:
        cell = re.compile(r'WIDTH="(\d+)"[^>]*><FONT FACE="(\w+)" POINT-SIZE="(\d+)"[^>]*>(<B>)?([^<]*)<')
        found = cell.findall(graph_of("gpt").dot(open="*"))
        assert len(found) > 400
        for wide, font, size, bold, text in found:
            assert width(html.unescape(text), int(size), bool(bold), font == "Courier") <= int(wide)

    @pytest.mark.skipif(png.find_browser() is None, reason="needs Chromium")
    @pytest.mark.parametrize("fonts", ["as given", "DejaVu Sans"])
    def test_no_text_runs_past_its_cell_in_a_browser(self, fonts: str, tmp_path: Path) -> None:
        svg = graph_of("gpt").svg()
        if fonts != "as given":
            svg = svg.replace("{font-family:Helvetica,", f'{{font-family:"{fonts}",').replace(
                '{font-family:"Courier New",', f'{{font-family:"{fonts} Mono",'
            )
        script = """<script>const past = [];
        for (const g of document.querySelectorAll('g.node')) {
          const boxes = [...g.querySelectorAll('polygon')].map(p => p.getBBox());
          for (const t of g.querySelectorAll('text')) {
            const b = t.getBBox(), y = b.y + b.height / 2;
            const around = boxes.filter(p => p.x <= b.x + 1 && p.x + p.width > b.x && p.y <= y && p.y + p.height >= y);
            around.sort((p, q) => p.width * p.height - q.width * q.height);
            if (around.length && b.x + b.width > around[0].x + around[0].width + 1) past.push(t.textContent);
          }
        }
        document.body.innerHTML = '<pre>' + JSON.stringify(past).replaceAll('<', '&lt;') + '</pre>';</script>"""
        page = tmp_path / "page.html"
        page.write_text(f"<!doctype html><meta charset=utf-8><body>{svg}{script}", encoding="utf-8")
        options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --dump-dom"
        command = [str(png.find_browser()), *options.split(), f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
        dom = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout
        assert html.unescape(re.findall(r"<pre>(.*?)</pre>", dom, re.DOTALL)[0]) == "[]"


class TestFiles:
    @pytest.mark.parametrize("name", GOLDEN_GRAPHS)
    def test_golden(self, name: str) -> None:
        """After a wanted change run this with UPDATE_GOLDEN=1 in the environment and look at the difference."""
        make, levels = GOLDEN_GRAPHS[name]
        graph = make()
        texts = {f"{name}.md": graph.ledger(), f"{name}.dot": graph.dot()}
        texts |= {f"{name}.{level}.dot": graph.dot(level) for level in levels}
        for file, found in texts.items():
            path = GOLDEN / file
            if os.environ.get("UPDATE_GOLDEN"):
                path.write_text(found, encoding="utf-8")
            assert found == path.read_text(encoding="utf-8"), file

    @pytest.mark.parametrize("name", GOLDEN_GRAPHS)
    def test_the_check_of_these_passes(self, name: str) -> None:
        ledger = GOLDEN_GRAPHS[name][0]().ledger()
        failed = [line for line in ledger.splitlines() if "FAIL" in line]
        assert failed == [] or (name == "head" and len(failed) == 1 and "lengths only" in failed[0])  # no axis is named

    def test_every_golden_file_is_looked_at(self) -> None:
        known = {f"{name}{part}" for name in GOLDEN_GRAPHS for part in (".md", ".dot")}
        known |= {f"{name}.{level}.dot" for name, (_, levels) in GOLDEN_GRAPHS.items() for level in levels}
        assert {path.name for path in GOLDEN.iterdir() if path.suffix in (".md", ".dot")} == known

    def test_the_same_bytes_under_every_hash_seed(self) -> None:
        program = (
            "import hashlib; from tools.draw import graph_of; g = graph_of('gpt')\n"
            "print(*(hashlib.sha256(x().encode()).hexdigest() for x in (g.dot, g.svg, g.json, g.ledger)))"
        )
        found = printed(program)
        graph = graph_of("gpt")
        views = (graph.dot, graph.svg, graph.json, graph.ledger)
        assert found == {" ".join(hashlib.sha256(x().encode()).hexdigest() for x in views) + "\n"}

    def test_the_svg_stands_alone(self) -> None:
        svg = graph_of("gpt").svg()
        root = ET.fromstring(svg)
        assert root.get("role") == "img"
        assert [child.tag.removeprefix(SVG) for child in root[:3]] == ["title", "desc", "style"]
        assert "dW_qkv = dqkvᵀ·attention_norm" in (root[1].text or "")
        assert "<!--" not in svg
        assert "<script" not in svg
        assert set(re.findall(r"\w+://[^\s\"<]+", svg)) == {"http://www.w3.org/2000/svg"}
        assert "prefers-color-scheme:dark" in svg
        halves = re.findall(r'<g id="e\d+[ab]"', svg)
        assert len(halves) == 2 * len(graph_of("gpt").picture().wires)

    def test_saving(self, tmp_path: Path) -> None:
        graph = head()
        path = tmp_path / "new folder" / "my graph $(touch PWNED) & 'é 1'.svg"
        graph.save(path)
        assert [p.name for p in tmp_path.rglob("*")] == ["new folder", path.name]
        assert path.read_text(encoding="utf-8") == graph.svg() == graph._repr_svg_()
        for name, content in (("g.dot", graph.dot()), ("g.json", graph.json()), ("g.MD", graph.ledger())):
            assert graph.save(tmp_path / name) == [tmp_path / name]
            assert (tmp_path / name).read_text(encoding="utf-8") == content

    @pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
    def test_what_a_name_leads_to_is_written(self, tmp_path: Path) -> None:
        graph = head()
        (tmp_path / "real.svg").write_text("old")
        (tmp_path / "real.svg").chmod(0o640)
        (tmp_path / "g.svg").symlink_to("real.svg")
        graph.save(tmp_path / "g.svg")
        assert (tmp_path / "g.svg").is_symlink()
        assert (tmp_path / "real.svg").stat().st_mode & 0o777 == 0o640
        assert (tmp_path / "real.svg").read_text(encoding="utf-8") == graph.svg()
        os.mkfifo(tmp_path / "pipe.dot")
        (tmp_path / "full.md").symlink_to("/dev/full")
        (tmp_path / "folder.json").mkdir()
        for name, message in (("pipe.dot", "nobody reads"), ("full.md", "No space"), ("folder.json", "directory")):
            with pytest.raises(OSError, match=message) as caught:
                graph.save(tmp_path / name)
            assert caught.value.filename == str(tmp_path / name)
        with pytest.raises(NotADirectoryError):
            graph.save(tmp_path / "real.svg" / "g.svg")

    @pytest.mark.parametrize("browser", [True, False])
    def test_png(self, browser: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if browser and png.find_browser() is None:
            pytest.skip("needs Chromium")
        if not browser:
            monkeypatch.setenv("PATH", str(tmp_path))
        head().save(tmp_path / "g.png", level=1)
        found = (tmp_path / "g.png").read_bytes()
        assert found.startswith(b"\x89PNG")
        wide, high = (int.from_bytes(found[i : i + 4], "big") for i in (16, 20))
        assert wide > 400
        assert high > 800

    def test_a_picture_that_comes_out_in_part_is_drawn_smaller(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A browser leaves the rest of a large one white and says nothing."""
        asked: list[float] = []

        def shot(browser: str, svg: str, wide: int, high: int, sharper: float) -> bytes:
            asked.append(sharper)
            picture = np.full((high, wide, 3), 255, np.uint8)
            picture[5 : high // 2 if sharper > 1 else -5 : 3, 5:-5] = 0
            content = io.BytesIO()
            Image.fromarray(picture).save(content, "PNG")
            return content.getvalue()

        monkeypatch.setattr(png, "_screenshot", shot)
        monkeypatch.setattr(png, "find_browser", lambda: "browser")
        svg = '<svg viewBox="0 0 150 75">'
        assert png.png(svg, "") == shot("", "", 200, 100, 2.0)  # so small a one always comes out whole
        monkeypatch.setattr(png, "_CERTAIN", 0)
        assert png.png(svg, "") == shot("", "", 200, 100, 1.0)
        assert asked == [2.0, 2.0, 2.0, 1.0, 1.0]
        monkeypatch.setattr(png, "_LONGEST", 300)
        png.png(svg, "")
        assert asked[5:] == [1.5, 1.0]

    @pytest.mark.parametrize("mode", ["RGB", "RGBA"])
    def test_what_is_missing_from_a_picture_is_seen(self, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(png, "_CERTAIN", 0)

        def whole(rows: slice, columns: slice) -> bool:
            picture = np.full((600, 400, 3), 255, np.uint8)
            picture[rows, columns] = 0
            content = io.BytesIO()
            Image.fromarray(picture).convert(mode).save(content, "PNG")
            assert not png.is_whole(content.getvalue()[:-9])
            return png.is_whole(content.getvalue())

        assert whole(slice(20, 580, 7), slice(20, 380))
        assert not whole(slice(0, 0), slice(0, 0))
        assert not whole(slice(20, 400), slice(20, 380))
        assert not whole(slice(20, 580), slice(20, 270))

    def test_what_cannot_be_saved(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"g\.gif: a graph is saved as one of \.svg, \.html, \.png, \.dot"):
            head().save(tmp_path / "g.gif")
        (tmp_path / "file").write_text("old")
        with pytest.raises(OSError, match="file"):
            head().save(tmp_path / "file" / "g.dot")
        assert (tmp_path / "file").read_text() == "old"

    def test_a_file_that_cannot_be_replaced_is_named_and_stays(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(source: Any, target: Any) -> None:
            raise PermissionError(13, "Permission denied", str(target))

        (tmp_path / "g.svg").write_text("old")
        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(PermissionError, match=r"g\.svg"):
            head().save(tmp_path / "g.svg")
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"g.svg": "old"}

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_without_write_permission(self, tmp_path: Path) -> None:
        (tmp_path / "g.dot").write_text("old")
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError, match=r"g\.dot"):
            head().save(tmp_path / "g.dot")
        assert (tmp_path / "g.dot").read_text() == "old"


class TestEngine:
    def test_where_dot_comes_from(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        from graphviz.backend import dot_command

        monkeypatch.delenv(engine.VARIABLE, raising=False)
        assert Path(engine.find_dot()).stem == "graphviz-pure"
        engine.run_dot("digraph {}")
        assert Path(engine.find_dot()) == dot_command.DOT_BINARY
        own = tmp_path / "my dot"
        own.write_text("#!/bin/sh\necho '<svg/>'\n")
        own.chmod(0o755)
        monkeypatch.setenv(engine.VARIABLE, str(own))
        assert engine.find_dot() == str(own)
        assert engine.run_dot("digraph {}") == "<svg/>\n"
        monkeypatch.setenv(engine.VARIABLE, "/nowhere/dot")
        with pytest.raises(LayoutError, match="TINYGRAD_EDU_DOT is '/nowhere/dot', which is no program"):
            engine.find_dot()

    def test_without_dot_the_text_is_written_and_the_missing_program_named(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv(engine.VARIABLE, raising=False)
        monkeypatch.setattr(engine, "_folders", list)
        monkeypatch.setenv("PATH", str(tmp_path))
        graph = head()
        with pytest.warns(UserWarning, match=r"`dot` is missing.*pip install graphviz-pure.*g\.dot as DOT text"):
            assert graph.save(tmp_path / "g.svg") == [tmp_path / "g.dot", tmp_path / "g.md"]
        assert {p.name for p in tmp_path.iterdir()} == {"g.dot", "g.md"}
        assert (tmp_path / "g.dot").read_text(encoding="utf-8") == graph.dot()
        assert (tmp_path / "g.md").read_text(encoding="utf-8") == graph.ledger()
        with pytest.raises(LayoutError, match=r"and in g\.md as a table"):
            graph.save(tmp_path / "g.svg", strict=True)
        assert graph._repr_svg_() is None
        assert run("draw", draw.main, ["bigram", "--out", str(tmp_path / "b.svg")]) == 2
        assert len(capfd.readouterr().err.splitlines()) == 1
        assert not (tmp_path / "b.svg").exists()

    def test_failures_say_what_happened(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(LayoutError, match="syntax error"):
            engine.run_dot("digraph {")
        monkeypatch.setattr(engine, "TIMEOUT", 0.0)
        with pytest.raises(LayoutError, match=r"took more than 0 s \(\d+ cards and wires\); draw a smaller part"):
            engine.run_dot(head().dot())


class TestTool:
    def test_models_and_files(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        for target in ("bigram", f"{GOLDEN / 'heads.py'}:head"):
            assert run("draw", draw.main, [target, "--out", str(tmp_path / "g.svg")]) == 0
            assert ET.fromstring((tmp_path / "g.svg").read_text(encoding="utf-8")).tag == f"{SVG}svg"
        assert capfd.readouterr().err == ""

    def test_draw_model_returns_what_it_wrote(self, tmp_path: Path) -> None:
        state = tg.random.default_generator.get_state()
        assert draw.draw_model("bigram", tmp_path / "g.svg") == (tmp_path / "g.svg").read_bytes()
        assert tg.random.default_generator.get_state() == state

    @pytest.mark.parametrize(
        ("source", "target", "message"),
        [
            ("", "gtp", "unknown model 'gtp'; did you mean 'gpt'?, or give path/to/file.py:function"),
            ("", "nowhere.py:f", "nowhere.py: no such file; give path/to/file.py:function"),
            (
                "def f(): return 3",
                "{file}:f",
                "{file}:f returned int; it must return (model or function, its inputs), tensors, or a Graph",
            ),
            ("def f(): return 3", "{file}:g", "unknown function in {file} 'g'; known are f"),
            ("def f(: 3", "{file}:f", "{file}:f: SyntaxError: invalid syntax"),
            ("def f(): return (lambda: 1 / 0), ()", "{file}:f", "{file}:f: ZeroDivisionError: division by zero"),
        ],
    )
    def test_mistakes(
        self, source: str, target: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "mine.py"
        file.write_text(source)
        assert run("draw", draw.main, [target.format(file=file), "--out", str(tmp_path / "g.svg")]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith("draw: " + message.format(file=file))
        assert not (tmp_path / "g.svg").exists()

    def test_endings(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert run("draw", draw.main, ["bigram", "--out", str(tmp_path / "g.gif")]) == 2
        assert "g.gif: a graph is saved as one of .svg, .html, .png, .dot, .md, .json" in capfd.readouterr().err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["gpt", "--view", "miror"], "unknown view 'miror'; did you mean 'mirror'?"),
            (["gpt", "--lang", "de"], "unknown language 'de'; known are en, zh"),
            (["gpt", "--level", "7"], "level: 7 is not one of 0, 1, 2, 3"),
            (["gpt", "--level", "two"], "argument --level: invalid int value: 'two'"),
            (["gpt", "--open", "block.3"], "open: no module is called 'block.3'"),
            (["gpt", "--size", "B2"], "size: 'B2' is no size; give letters with lengths of 1 or more, such as B=2,T=5"),
            (["gpt", "--size", "B=0"], "size: 'B=0' is no size"),
            (["gpt", "--size", "Q=2"], "unknown size 'Q'; gpt has B, T, V, P, L, H, D, F"),
            (["bigram", "--size", "H=2"], "unknown size 'H'; bigram has B, T, V"),
            (["gpt", "--size", "D=13"], "GPTConfig: width 13 is not a multiple of heads 3"),
            (["gpt", "--view", "ledger"], "g.svg: the ledger is a table in Markdown; end the name in .md"),
            (["gpt", "--levle", "1"], "unknown option '--levle'; did you mean '--level'?"),
        ],
    )
    def test_mistakes_in_options(
        self, options: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert run("draw", draw.main, [*options, "--out", str(tmp_path / "g.svg")]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith("draw: " + message)
        assert list(tmp_path.iterdir()) == []

    def test_options(self, tmp_path: Path) -> None:
        def drawn(*options: str) -> str:
            path = tmp_path / "my folder" / "it's a $(graph).dot"
            assert run("draw", draw.main, ["gpt", *options, "--out", str(path)]) == 0
            assert [p.name for p in tmp_path.rglob("*.*")] == [path.name]
            return path.read_text(encoding="utf-8")

        usual = drawn()
        assert drawn("--level", "2", "--view", "twin", "--lang", "en") == usual
        assert drawn("--level", "1") == graph_of("gpt").dot(level=1)
        assert drawn("--level", "1", "--open", "blocks.1") == graph_of("gpt").dot(level=1, open="blocks.1")
        assert "前向向下" in drawn("--lang", "zh")
        sized = drawn("--size", "B=3, T=9,D=10,H=2")
        assert "3×9×10" in sized
        assert "2×5×12" in usual
        assert "level 2 has" in drawn("--max-nodes", "12")
        assert drawn("--view", "mirror", "--module", "blocks.0.attention") != usual

    def test_the_ledger(self, tmp_path: Path) -> None:
        assert run("draw", draw.main, ["gpt", "--view", "ledger", "--out", str(tmp_path / "g.md")]) == 0
        assert (tmp_path / "g.md").read_text(encoding="utf-8") == graph_of("gpt").ledger()
        assert graph_of("gpt").ledger().endswith("\ncheck: passed\n")
        assert "scores are scaled by 1/√4, as declared" in graph_of("gpt").ledger()

    def test_functions_in_files(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "mine own.py"
        file.write_text(
            "import tinygrad_edu as tg\n"
            "from tinygrad_edu.graph import trace\n"
            "def attention(T=4, D=6):\n"
            "    x = tg.randn(2, T, D)\n"
            "    Wq, Wk, Wv = (tg.randn(D, 3, requires_grad=True) for _ in range(3))\n"
            "    q, k, v = x @ Wq, x @ Wk, x @ Wv\n"
            "    att = (q @ k.mT / 3**0.5).softmax(-1)\n"
            "    return att @ v\n"
            "def drawn():\n"
            "    return trace(lambda x: x * 2, tg.ones(3), title='mine')\n"
        )
        graph = graph_of_file(f"{file}:attention", {"T": 5})
        headers = [card.header for card in graph.picture().cards() if card.role == "step"]
        assert [h for h in headers if h[:3] in ("q =", "k =", "v =")] == ["q = x·Wq", "k = x·Wk", "v = x·Wv"]
        assert "2×5×3" in graph.ledger()
        assert "self-attention" in graph.ledger()
        assert graph_of_file(f"{file}:drawn").record.title == "mine"
        assert run("draw", draw.main, [f"{file}:attention", "--size", "H=2", "--out", str(tmp_path / "g.svg")]) == 2
        assert f"size H: {file}:attention takes T, D" in capfd.readouterr().err

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("raise SystemExit(0)", "SystemExit: 0"),
            ("import sys\ndef f(): sys.exit('over')", "SystemExit: over"),
            ("class Own(BaseException): pass\ndef f(): raise Own", "Own"),
            ("async def f(): return 1", "returned coroutine"),
            ("import sys\nsys.path.clear()\ndef f(): return 1", "returned int"),
        ],
    )
    @pytest.mark.filterwarnings("error")
    def test_files_that_end_the_program(
        self, text: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "path", sys.path.copy())
        (tmp_path / "own.py").write_text(text)
        assert run("draw", draw.main, [f"{tmp_path / 'own.py'}:f", "--out", str(tmp_path / "g.svg")]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert said in line
        assert not (tmp_path / "g.svg").exists()

    def test_without_dot(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv(engine.VARIABLE, raising=False)
        monkeypatch.setattr(engine, "_folders", list)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert run("draw", draw.main, ["bigram", "--out", str(tmp_path / "b.svg")]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert "pip install graphviz-pure" in line
        assert sorted(p.name for p in tmp_path.iterdir()) == ["b.dot", "b.md"]

    def test_the_difference_between_two(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        heads = f"{GOLDEN / 'heads.py'}:head"
        path = tmp_path / "d.md"
        assert run("draw", draw.main, ["diff", heads, heads, "--out", str(path)]) == 0
        assert "steps and inputs are equal" in path.read_text(encoding="utf-8")
        assert run("draw", draw.main, ["diff", "bigram", "gpt", "--lang", "zh", "--out", str(tmp_path / "d.svg")]) == 0
        said = capfd.readouterr()
        assert said.err == ""
        assert "W_table 的第 ids 行" in said.out
        assert ET.fromstring((tmp_path / "d.svg").read_text(encoding="utf-8")).tag == f"{SVG}svg"
        for wrong in (["diff", "bigram"], ["diff", "bigram", "gtp"], ["diff", "bigram", "gpt", "--out", "d.gif"]):
            assert run("draw", draw.main, wrong) == 2
            assert len(capfd.readouterr().err.splitlines()) == 1

    def test_the_difference_without_dot(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv(engine.VARIABLE, "/nowhere/dot")
        assert run("draw", draw.main, ["diff", "bigram", "gpt", "--out", str(tmp_path / "d.svg")]) == 2
        assert len(capfd.readouterr().err.splitlines()) == 1
        assert sorted(p.name for p in tmp_path.iterdir()) == ["d.dot", "d.md"]
