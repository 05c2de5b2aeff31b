"""The demo's page: whole, offline, true to its runs; and its answers to a user's mistakes."""

import dataclasses
import json
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlparse

import pytest

from tinygrad_edu.training import Metrics, TrainConfig
from tools import demo, draw, train
from tools.cli import run
from tools.page import Result, chart, page

VOID = {"meta", "link", "input", "br", "img"}

RESULT = Result(
    key="gpt",
    title="GPT",
    reads="the last 8 characters",
    parameters=1234,
    vocab_size=50,
    training=TrainConfig(steps=30),
    metrics=[
        Metrics(10, 3.5, None, 1e-3, 1000, 1.0),
        Metrics(20, math.nan, None, 1e-3, 3000, 2.0),
        Metrics(30, 2.25, 2.125, 1e-3, 4000, 4.0),
    ],
    prompt="<p>",
    before="<p> & $x",
    after="<p></pre><script>alert(1)</script>",
    graph=b"<svg/>",
)


class Reader(HTMLParser):
    """Which elements a page has, whether they close in order, and what they refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.addresses += [value or "" for name, value in attributes if name in {"href", "src"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(re.sub(r"<(th|td) class=n>", r"<\1>", text))
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_shows_what_the_models_wrote_as_text() -> None:
    reader = read(page([RESULT], 5.0, "cpu", "runs/demo"))
    assert "script" not in reader.seen


@pytest.mark.parametrize(
    "text", ["1,234", "2.125", "3.912", "2,000", "8.4 characters", "&lt;p&gt;</mark>&lt;/pre&gt;", "Seed 0."]
)
def test_the_page_shows(text: str) -> None:
    assert text in page([RESULT], 5.0, "cpu", "runs/demo")


def test_the_lengths_that_the_page_explains_are_those_of_the_pictures() -> None:
    text = " ".join(page([RESULT], 5.0, "cpu", "runs/demo").split())
    axes = {axis: draw.SIZES[axis] for axis in "BTDHFV"} | {"d": draw.SIZES["D"] // draw.SIZES["H"]}
    assert [
        f"{axis} = {length}" for axis, length in axes.items() if f"{axis} = {length} " not in text.replace(",", " ")
    ] == []


def test_a_run_that_was_never_measured_has_a_page() -> None:
    unmeasured = dataclasses.replace(RESULT, metrics=RESULT.metrics[:1])
    read(page([unmeasured], 5.0, "cpu", "runs/demo"))


def test_a_graph_that_could_not_be_laid_out_is_said_to_be_missing() -> None:
    assert "gpt.dot" in page([dataclasses.replace(RESULT, graph=b"")], 5.0, "cpu", "runs/demo")


def test_the_chart_has_a_line_for_the_smoothed_loss() -> None:
    smoothed = [dataclasses.replace(m, smoothed_loss=3.0) for m in RESULT.metrics]
    lines = ET.fromstring(chart([dataclasses.replace(RESULT, metrics=smoothed)])).findall("polyline")
    assert [len((line.get("points") or "").split()) for line in lines] == [2, 3]


def test_the_demo_trains_the_preset_that_its_page_speaks_of() -> None:
    assert "nano-modern" in train.PRESETS["gpt"]
    assert "<code>nano-modern</code>" in page([RESULT], 5.0, "cpu", "runs/demo")


def test_the_chart_is_well_formed_and_skips_losses_that_are_not_numbers() -> None:
    assert "nan" not in chart([RESULT])
    assert len(ET.fromstring(chart([RESULT])).findall("polyline")) == 1


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that a demo promises lies in its folder, and its last line says where to look."""
    assert demo.main(["--steps", "2", "--out", str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert Path(urlparse(last).path) == tmp_path / "index.html"
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    reader = read(text)
    for address in reader.addresses:
        assert address.startswith("data:image/svg+xml;") or (tmp_path / address).is_file()
    assert "samples.txt" in {path.name for path in tmp_path.iterdir()}
    assert {"bigram.html", "gpt.html"} <= set(reader.addresses)
    state = json.loads((tmp_path / "gpt" / "state.json").read_text(encoding="utf-8"))
    assert state["training"]["optimizer"] == "muon"
    assert (tmp_path / "gpt" / "loss.svg").is_file()


@pytest.mark.parametrize("name", ["bigram", "bigram.svg", "bigram.html"])
def test_a_link_in_the_folder_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / name).symlink_to(tmp_path / "outside")
    assert run("demo", demo.main, ["--steps", "1", "--out", str(tmp_path / "demo")]) == 2
    assert f"is not followed here; remove the link: '{tmp_path / 'demo' / name}'" in capsys.readouterr().err
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["--device", "tpu"], ["--steps", "0"], ["--stesp", "3"], ["--out", "{file}"], ["more"]]
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    arguments = [text.format(file=tmp_path / "file") for text in arguments]
    if "--out" not in arguments:
        arguments += ["--out", str(tmp_path / "out")]
    assert run("demo", demo.main, arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "out" / "index.html").exists()
