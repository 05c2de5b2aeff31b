"""The page of a graph in a real browser: everything that it promises, by mouse and by keyboard alone."""

import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tinygrad_edu as tg
from tests.browser import Browser
from tests.test_graph_html import HOSTILE, hostile
from tinygrad_edu import nn
from tinygrad_edu.graph import trace
from tinygrad_edu.graph.png import find_browser
from tinygrad_edu.graph.words import speaking
from tools.draw import graph_of, graph_of_file

# What a user writes: no names are given, no modules are used.
USERS = """
import numpy as np
import tinygrad_edu as tg
from tinygrad_edu.nn import functional as F

def head():
    B, T, D, d = 2, 5, 6, 4
    draw = np.random.default_rng(0)
    wq, wk, wv = (tg.Tensor(draw.standard_normal((D, d)), requires_grad=True) for _ in range(3))
    x = tg.Tensor(draw.standard_normal((B, T, D)), requires_grad=True)
    hidden = tg.Tensor(~np.tri(T, dtype=bool))

    def attend(x):
        q = x @ wq
        k = x @ wk
        v = x @ wv
        scores = (q @ k.transpose(-2, -1)) / d ** 0.5
        att = F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return att @ v

    return attend, (x,)
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium is installed (apt install chromium)")
    found = Browser(program)
    yield found
    found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "mine.py").write_text(USERS)
    graphs = {"user's": graph_of_file(f"{folder / 'mine.py'}:head"), "gpt": graph_of("gpt"), "hostile": hostile()}
    for name, graph in graphs.items():
        graph.save(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in graphs}


@pytest.fixture(params=["user's", "gpt"])
def page(request: pytest.FixtureRequest, browser: Browser, pages: dict[str, Path]) -> Iterator[Browser]:
    """Each of both pages, freshly opened; whatever is done with it, nothing complains and nothing is asked for."""
    browser.open(pages[request.param])
    yield browser
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "blob:"))] == []
    assert len(browser.requests) - sum(url.startswith("blob:") for url in browser.requests) == 1


SVG = "document.querySelector('.sheet:not([hidden]) svg')"


def text(page: Browser, selector: str) -> str:
    """The text of an element that is there and can be seen, "" of one that is hidden."""
    return str(
        page.run(f"(e => e.checkVisibility() ? e.textContent : '')(document.querySelector({json.dumps(selector)}))")
    )


def count(page: Browser, selector: str) -> int:
    return int(page.run(f"{SVG}.querySelectorAll({json.dumps(selector)}).length"))


def box(page: Browser, selector: str) -> dict[str, float]:
    found: dict[str, float] = page.run(f"{SVG}.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
    return found


def view(page: Browser) -> list[float]:
    found: list[float] = page.run(f"(b => [b.x, b.y, b.width, b.height])({SVG}.viewBox.baseVal)")
    return found


def point(page: Browser, x: float, y: float) -> list[float]:
    """Which point of the drawing is at a point of the window."""
    script = f"(p => [p.x, p.y])(new DOMPoint({x}, {y}).matrixTransform({SVG}.getScreenCTM().inverse()))"
    found: list[float] = page.run(script)
    return found


def in_sight(page: Browser, selector: str) -> bool:
    part, desk = box(page, selector), page.run("document.querySelector('main').getBoundingClientRect().toJSON()")
    inside = desk["left"] - 1 <= part["left"] and part["right"] <= desk["right"] + 1
    return bool(inside and desk["top"] - 1 <= part["top"] and part["bottom"] <= desk["bottom"] + 1)


def shown_rows(page: Browser) -> int:
    """How many gradient rows of the drawing can be read."""
    seen = "row => getComputedStyle(row.querySelector('text')).visibility == 'visible'"
    return int(page.run(f"[...{SVG}.querySelectorAll('.row')].filter({seen}).length"))


class TestLevels:
    def test_tabs_by_mouse_by_arrow_and_by_number(self, page: Browser) -> None:
        names = page.run("[...document.querySelectorAll('[role=tab]')].map(t => t.textContent)")
        *levels, last = names
        assert levels in (["Model", "Steps", "Ops"], ["Model", "Modules", "Steps", "Ops"])
        assert last == "Mirror"
        assert text(page, "[role=tab][aria-selected=true]") == "Steps"
        cards = []
        for i, name in enumerate(names):
            page.key(str(i + 1))
            assert text(page, "[role=tab][aria-selected=true]") == name
            assert page.run("document.querySelectorAll('.sheet:not([hidden])').length") == 1
            cards.append(count(page, ".node[tabindex]"))
        assert cards[:-1] == sorted(set(cards[:-1]))
        page.click("[role=tab]")
        page.key("ArrowRight")
        assert text(page, "[role=tab][aria-selected=true]") == names[1]
        page.key("End")
        assert text(page, "[role=tab][aria-selected=true]") == names[-1]
        assert page.run("document.activeElement.textContent") == names[-1]

    @pytest.mark.parametrize("by", ["mouse", "keyboard"])
    def test_what_is_folded_opens_and_closes(self, page: Browser, by: str) -> None:
        page.key("1")
        assert count(page, "[data-fold=closed]") == 1
        before = count(page, ".node[tabindex]")
        if by == "mouse":
            page.click(".sheet:not([hidden]) [data-fold=closed] text")
        else:
            page.run(f"{SVG}.querySelector('[data-fold=closed]').focus()")
            page.key("Enter")
        assert count(page, ".node[tabindex]") > before
        assert text(page, "[role=tab][aria-selected=true]") != "Model"


def test_a_block_opens_in_place_and_closes_again(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["gpt"])
    browser.key("2")
    before = count(browser, ".node[tabindex]")
    assert count(browser, ".cluster[data-fold=closed]") == 1
    browser.click(".sheet:not([hidden]) .cluster[data-fold=closed] .sign")
    opened = count(browser, ".node[tabindex]")
    assert opened > before
    assert browser.run("document.activeElement.dataset.fold") == "open"
    assert browser.run("document.activeElement.querySelector('.sign').getAttribute('aria-expanded')") == "true"
    assert text(browser, "[role=tab][aria-selected=true]") == "Modules"
    browser.key("Enter")
    assert count(browser, ".node[tabindex]") == before
    assert browser.run("document.activeElement.dataset.fold") == "closed"
    assert browser.errors == []


def test_the_mirror_steps_through_the_cards_of_the_backward_pass(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["user's"])
    browser.run("[...document.querySelectorAll('[role=tab]')].at(-1).click()")
    browser.settle()
    rows = count(browser, ".row")
    assert rows == count(browser, ".backward .row") > 10
    browser.key("ArrowRight", "ArrowRight")
    assert text(browser, "#step-count") == f"2 of {rows}"
    assert text(browser, "#step .formula").startswith("datt")
    assert browser.run(f"{SVG}.querySelector('.row.now').closest('.node').matches('.backward')")
    assert count(browser, ".edge.now") == 2
    browser.key("q")
    assert shown_rows(browser) == 0
    gradients = f"[...{SVG}.querySelectorAll('.grad')].filter(g => getComputedStyle(g).visibility == 'visible').length"
    assert browser.run(gradients) == 0
    browser.key("r")
    assert shown_rows(browser) == rows
    assert browser.errors == []


class TestView:
    def test_the_wheel_zooms_at_the_cursor(self, page: Browser) -> None:
        x, y = 433.0, 322.0
        for turn in (-300, -300, 400, 250):
            before, size = point(page, x, y), view(page)[2]
            page.mouse("mouseWheel", x, y, deltaX=0, deltaY=turn)
            page.settle()
            assert point(page, x, y) == pytest.approx(before, abs=0.2)
            assert (view(page)[2] < size) == (turn < 0)

    def test_keys_and_buttons_zoom_and_fit(self, page: Browser) -> None:
        size = view(page)[2]
        page.key("+")
        assert view(page)[2] < size
        page.key("-", "-")
        assert view(page)[2] > size
        page.click("#zoom-in")
        page.click("#zoom-out")
        page.key("f")
        whole = box(page, "rect, polygon")
        desk = page.run("document.querySelector('main').getBoundingClientRect().toJSON()")
        assert whole["top"] >= desk["top"] - 1
        assert whole["bottom"] <= desk["bottom"] + 1
        assert whole["left"] >= desk["left"] - 1
        assert whole["right"] <= desk["right"] + 1

    def test_dragging_moves_what_is_under_the_mouse(self, page: Browser) -> None:
        before = point(page, 30, 500)
        page.drag((30, 500), (140, -90))
        assert point(page, 170, 410) == pytest.approx(before, abs=0.5)

    def test_a_drag_over_text_selects_it(self, page: Browser) -> None:
        before = view(page)
        page.run(f"{SVG}.querySelector('.node.plain text').id = 'words'")
        part = box(page, "#words")
        page.drag((part["left"] + 1, part["top"] + part["height"] / 2), (part["width"] - 3, 0))
        assert len(str(page.run("getSelection().toString()"))) > 3
        assert view(page) == before

    def test_two_fingers_zoom_between_them(self, page: Browser) -> None:
        page.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        try:
            size, centre = view(page)[2], point(page, 400, 400)

            def touch(kind: str, far: float) -> None:
                points = [{"x": 400 - far, "y": 400, "id": 0}, {"x": 400 + far, "y": 400, "id": 1}]
                page.send("Input.dispatchTouchEvent", type=kind, touchPoints=points if kind != "touchEnd" else [])

            touch("touchStart", 50)
            for far in (60, 80, 100):
                touch("touchMove", far)
            touch("touchEnd", 0)
            page.settle()
            assert view(page)[2] == pytest.approx(size / 2, rel=0.05)
            assert point(page, 400, 400) == pytest.approx(centre, abs=2)
        finally:
            page.send("Emulation.setTouchEmulationEnabled", enabled=False)


class TestFind:
    def test_names_ops_and_shapes_are_found_one_after_the_other(self, page: Browser) -> None:
        page.key("/")
        page.write("SOFTMAX")
        found = int(text(page, "#found").split(" of ")[1])
        assert text(page, "#found") == f"1 of {found}"
        assert count(page, ".hit") == found
        assert in_sight(page, ".at")
        assert "softmax" in page.run(f"{SVG}.querySelector('.at').textContent")
        page.run("document.querySelector('#find').select()")
        page.write("2x5x")
        many = int(text(page, "#found").split(" of ")[1])
        assert many > 2
        first = page.run(f"{SVG}.querySelector('.at').dataset.id")
        page.key("Enter")
        assert text(page, "#found") == f"2 of {many}"
        assert page.run(f"{SVG}.querySelector('.at').dataset.id") != first
        page.key("Enter", shift=True)
        assert page.run(f"{SVG}.querySelector('.at').dataset.id") == first
        page.click("#find-back")
        assert text(page, "#found") == f"{many} of {many}"
        page.click("#find")
        page.key("Escape")
        assert count(page, ".hit, .at") == 0
        assert page.run("document.querySelector('#find').value") == ""

    def test_what_is_not_there_is_said(self, page: Browser) -> None:
        page.key("/")
        page.write("no such thing")
        assert text(page, "#found") == "none"


class TestSteps:
    def test_arrows_walk_through_the_backward_pass_in_its_order(self, page: Browser) -> None:
        facts = page.run("JSON.parse(document.querySelector('.sheet:not([hidden]) script').textContent)")
        for i, step in enumerate(facts["steps"][:12]):
            page.key("ArrowRight")
            assert text(page, "#step-count") == f"{i + 1} of {len(facts['steps'])}"
            row = facts["cards"][step["card"]]["rows"][step["row"]]
            assert text(page, "#step .formula") == row["formula"]
            assert step["shape"] in text(page, "#step")
            assert row["note"] in text(page, "#step")
            assert count(page, ".row.now") == 1
            assert page.run(f"{SVG}.querySelector('.row.now').closest('.node').dataset.id") == step["card"]
            assert in_sight(page, ".row.now")
            for wire in step["wires"]:
                assert count(page, f".edge.now.{wire}") == 2
            assert count(page, ".wire.now") == len(step["wires"])
        page.key("ArrowLeft")
        assert text(page, "#step-count") == f"11 of {len(facts['steps'])}"
        page.key("End")
        assert text(page, "#step-count") == f"{len(facts['steps'])} of {len(facts['steps'])}"
        assert page.run("document.querySelector('#step-on').disabled")
        page.key("ArrowRight", "Home")
        assert text(page, "#step-count") == f"{len(facts['steps'])} gradients"
        assert count(page, ".now") == 0
        page.click("#step-on")
        assert text(page, "#step-count").startswith("1 of")

    def test_every_level_is_walked_through_to_the_end(self, page: Browser) -> None:
        for tab in range(1, int(page.run("document.querySelectorAll('[role=tab]').length")) + 1):
            page.key(str(tab))
            page.key("End")
            last = int(text(page, "#step-count").split(" of ")[1])
            formula = ""
            for i in range(last, max(0, last - 6), -1):
                assert text(page, "#step-count") == f"{i} of {last}"
                assert count(page, ".node.now") >= 1
                assert text(page, "#step .formula") not in ("", formula)
                formula = text(page, "#step .formula")
                page.key("ArrowLeft")


class TestQuiz:
    def test_gradients_are_hidden_and_come_back_one_by_one_or_all_at_once(self, page: Browser) -> None:
        rows = count(page, ".row")
        assert shown_rows(page) == rows > 10
        page.key("q")
        assert shown_rows(page) == 0
        assert count(page, ".cover") == rows + count(page, ".grad")
        assert text(page, "#quiz-count") == f"0 of {rows} revealed"
        page.run(f"{SVG}.querySelector('.row + .cover').id = 'one'")
        page.run("document.querySelector('#one').focus()")
        page.key("Enter")
        assert shown_rows(page) == 1
        page.run(f"{SVG}.querySelector('.row + .cover').focus()")
        page.key(" ")
        assert shown_rows(page) == 2
        page.key("f")
        page.click(".sheet:not([hidden]) .row + .cover")
        assert shown_rows(page) == 3
        assert text(page, "#quiz-count") == f"3 of {rows} revealed"
        page.click("#quiz-all")
        assert shown_rows(page) == rows
        assert count(page, ".cover") == 0
        page.click("#quiz")
        page.click("#quiz")
        assert shown_rows(page) == 0
        page.key("r")
        assert shown_rows(page) == rows

    def test_a_step_is_asked_before_it_is_told(self, page: Browser) -> None:
        page.key("q", "ArrowRight", "ArrowRight")
        assert text(page, "#step .formula") == "?"
        page.key(" ")
        assert " = " in text(page, "#step .formula")
        assert shown_rows(page) == 1
        assert page.run(f"getComputedStyle({SVG}.querySelector('.wire.now .grad')).visibility") == "visible"

    def test_nothing_that_is_seen_gives_it_away(self, page: Browser) -> None:
        facts = page.run("JSON.parse(document.querySelector('.sheet:not([hidden]) script').textContent)")
        step = next(step for step in facts["steps"] if step["kind"] == "branch")
        page.key("q", "l")
        page.run(
            f"{SVG}.querySelector('[data-id={step['card']}]').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
        )
        page.settle()
        formula = facts["cards"][step["card"]]["rows"][step["row"]]["formula"]
        assert formula not in page.run("document.querySelector('aside').innerText")
        colours = page.run("[...document.querySelectorAll('#ledger td.back')].map(c => getComputedStyle(c).color)")
        assert set(colours) == {"rgba(0, 0, 0, 0)"}
        page.key("/")
        page.write(formula.partition(" = ")[0])
        assert text(page, "#found") == "none"

    def test_a_level_opened_during_the_quiz_asks_as_well(self, page: Browser) -> None:
        page.key("q", "1")
        assert count(page, ".row") > 0
        assert shown_rows(page) == 0
        page.key("q")
        assert shown_rows(page) == count(page, ".row")


class TestAxes:
    def test_an_axis_lights_up_wherever_it_stands_and_tells_what_it_is(self, page: Browser) -> None:
        total = page.run("document.querySelectorAll('[data-axis=q]').length")
        assert total > 5
        page.key("/")
        page.write("softmax")
        page.run(f"{SVG}.querySelector('.at [data-axis=q]').id = 'axis-q'")
        page.move("#axis-q")
        assert page.run("document.querySelectorAll('.lit').length") == total
        assert page.run("[...document.querySelectorAll('.lit')].every(e => e.dataset.axis === 'q')")
        assert text(page, "#axis").startswith("q, length 5: positions that ask, the query side")
        page.mouse("mouseMoved", 5, 5)
        page.settle()
        assert page.run("document.querySelectorAll('.lit').length") == 0

    def test_by_keyboard(self, page: Browser) -> None:
        page.run("document.querySelector('#axis-list [data-axis=k]').focus()")
        page.settle()
        assert text(page, "#axis").startswith("k, length 5")
        assert page.run("document.querySelectorAll('.lit').length") > 5
        page.key("Enter")
        page.key("Tab")
        assert page.run("document.querySelectorAll('.lit').length") > 5  # pinned


class TestLedger:
    def test_a_row_leads_to_its_card_and_a_card_to_its_row(self, page: Browser) -> None:
        assert not page.run("document.querySelector('#ledger').checkVisibility()")
        page.key("l")
        rows = page.run("document.querySelectorAll('#ledger tbody tr').length")
        assert rows > 5
        page.run("document.querySelector('#ledger tbody tr:nth-child(4) button').focus()")
        page.key("Enter")
        card = page.run("document.querySelector('#ledger tbody tr:nth-child(4)').dataset.card")
        assert page.run(f"{SVG}.querySelector('.chosen').dataset.id") == card
        assert in_sight(page, ".chosen")
        assert page.run("document.querySelector('#ledger tr.chosen').rowIndex") == 4
        page.click("#ledger tbody tr:nth-child(2) td")
        assert page.run("document.querySelector('#ledger tr.chosen').rowIndex") == 2
        page.key("ArrowDown")
        assert page.run("document.querySelectorAll('#ledger tr.chosen').length") <= 1
        assert "multiply-adds" in text(page, "#ledger .check")
        page.key("l")
        assert not page.run("document.querySelector('#ledger').checkVisibility()")


class TestKeyboard:
    def test_every_control_is_reached_and_seen_to_be_focused(self, page: Browser) -> None:
        controls = ["find", "quiz", "ledger-open", "save", "theme", "help", "step-on", "zoom-out", "fit", "zoom-in"]
        focused = "(e => [e.id || e.dataset.id || '', getComputedStyle(e).outlineStyle])(document.activeElement)"
        reached: list[str] = []
        while not ({*controls} <= {*reached} and any(name.startswith(("n", "cluster")) for name in reached)):
            assert len(reached) < 60
            page.key("Tab")
            name, outline = page.run(focused)
            assert not name or outline != "none", name
            reached.append(name)

    def test_cards_are_walked_through_and_told(self, page: Browser) -> None:
        page.key("ArrowDown", "ArrowDown")
        assert page.run("document.activeElement === document.querySelector('.chosen')")
        assert in_sight(page, ".chosen")
        label = page.run("document.activeElement.getAttribute('aria-label')")
        assert label.startswith(text(page, "#card h2"))
        page.key("Escape")
        assert not page.run("document.querySelector('#card').checkVisibility()")

    def test_the_keys_are_told(self, page: Browser) -> None:
        page.key("?")
        assert page.run("document.querySelector('#keys').open")
        told = text(page, "#keys")
        assert all(word in told for word in ("backward", "find", "quiz", "ledger", "SVG"))
        page.key("Escape")
        assert not page.run("document.querySelector('#keys').open")
        page.key("/")
        page.write("q?l")
        assert not page.run("document.querySelector('#keys').open")

    def test_every_button_has_a_name(self, page: Browser) -> None:
        page.key("l", "ArrowDown")
        named = "b => (b.getAttribute('aria-label') || b.textContent).trim()"
        assert page.run(f"[...document.querySelectorAll('button, [role=button], input')].every({named})")


class TestLook:
    def test_dark_where_the_system_is_and_by_the_button(self, page: Browser, pages: dict[str, Path]) -> None:
        ground = "getComputedStyle(document.body).backgroundColor"
        paper = f"getComputedStyle({SVG}.querySelector('rect, polygon')).fill"
        assert page.run(ground) == page.run(paper) == "rgb(255, 255, 255)"
        page.click("#theme")
        assert page.run(ground) == page.run(paper) == "rgb(15, 23, 42)"
        page.key("d")
        assert page.run(ground) == "rgb(255, 255, 255)"
        page.open(pages["gpt"], dark=True)
        assert page.run(ground) == page.run(paper) == "rgb(15, 23, 42)"
        page.click("#theme")
        assert page.run(ground) == page.run(paper) == "rgb(255, 255, 255)"

    def test_motion_only_where_it_is_wanted(self, page: Browser, pages: dict[str, Path]) -> None:
        jump = f"(document.querySelector('#fit').click(), {SVG}.getAttribute('viewBox'))"
        page.key("+", "+")
        before = page.run(f"{SVG}.getAttribute('viewBox')")
        assert page.run(jump) != before
        page.open(pages["gpt"], still=False)
        before = page.run(f"{SVG}.getAttribute('viewBox')")
        assert page.run(jump) == before
        page.run("new Promise(done => setTimeout(done, 400))")
        assert page.run(f"{SVG}.getAttribute('viewBox')") != before

    def test_a_phone_shows_all_of_it(self, page: Browser, pages: dict[str, Path]) -> None:
        page.open(pages["gpt"], 390, 844)
        assert page.run("document.documentElement.scrollWidth") == 390
        controls = "[...document.querySelectorAll('header button, header input, .stepper button, .zoom button')]"
        inside = "(r => r.left >= 0 && r.right <= 390 && r.bottom <= 844)(b.getBoundingClientRect())"
        assert page.run(f"{controls}.filter(b => !{inside}).map(b => b.id)") == []
        assert page.run("document.querySelector('main').clientHeight") > 300

    def test_on_paper_all_of_the_drawing_is_seen(self, page: Browser) -> None:
        page.key("l", "+", "+")
        page.send("Emulation.setEmulatedMedia", media="print")
        page.run("dispatchEvent(new Event('beforeprint'))")
        page.settle()
        paper, drawing = box(page, "rect, polygon"), page.run(f"{SVG}.getBoundingClientRect().toJSON()")
        assert drawing["top"] <= paper["top"]
        assert paper["bottom"] <= drawing["bottom"] + 1
        assert drawing["left"] <= paper["left"]
        assert paper["right"] <= drawing["right"] + 1
        assert not page.run("document.querySelector('aside').checkVisibility()")
        assert page.run("document.querySelector('#ledger table').checkVisibility()")
        page.send("Emulation.setEmulatedMedia", media="")
        page.run("dispatchEvent(new Event('afterprint'))")
        page.settle()
        assert box(page, "rect, polygon")["width"] != paper["width"]
        assert page.send("Page.printToPDF")["data"]


class TestFile:
    def test_the_drawing_is_downloaded_as_it_is_seen(self, page: Browser, tmp_path: Path) -> None:
        page.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        page.click("#save")
        deadline = time.monotonic() + 10
        while not (files := list(tmp_path.glob("*.svg"))) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.1)
        root = ET.fromstring(files[0].read_text(encoding="utf-8"))
        texts = ["".join(part.itertext()) for part in root.iter("{http://www.w3.org/2000/svg}text")]
        seen = page.run(f"[...{SVG}.querySelectorAll('text')].map(t => t.textContent)")
        assert texts == seen
        assert root.get("role") == "img"
        fills = {part.get("fill") for part in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"rgb(194, 65, 12)", "rgb(31, 41, 55)"} <= fills
        assert not [part for part in root.iter() if part.tag.endswith("script")]


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(self.layer(x).relu())


def second_order(x: Any) -> Any:
    (slope,) = tg.grad((x**3).sum(), [x], create_graph=True)
    return (slope * slope).sum()


@pytest.mark.parametrize(
    ("function", "shape", "flows"),
    [
        (lambda x: None, (2,), False),
        (lambda x: x, (2,), True),
        (lambda x: x.detach() + 1, (2,), False),
        (lambda x: x * x, (2,), True),
        (lambda x: {"a": x + 1, "b": [3 * x, None, 7]}, (2,), True),
        (Twice(), (2, 3), True),
        (second_order, (3,), True),
    ],
    ids=["nothing", "identity", "no gradient", "square", "several", "module twice", "second order"],
)
def test_odd_graphs(browser: Browser, tmp_path: Path, function: Any, shape: tuple[int, ...], flows: bool) -> None:
    trace(function, tg.ones(*shape, requires_grad=flows)).save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    for tab in range(1, browser.run("document.querySelectorAll('[role=tab]').length") + 1):
        browser.key(str(tab))
        browser.key("ArrowRight", "ArrowDown", "Enter", "q", "r", "q", "l", "f", "End", "Escape", "l")
    assert browser.errors == []


def test_a_page_in_chinese(browser: Browser, tmp_path: Path) -> None:
    with speaking("zh"):
        graph_of("gpt").save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.key("l", "ArrowRight", "?")
    assert text(browser, "#keys-head") == "按键"
    browser.key("Escape")
    browser.run("document.querySelector('#axis-list [data-axis=D]').focus()")
    assert browser.run("document.querySelectorAll('#ledger td .lit').length") > 10
    assert text(browser, "#axis") == "D，长度 12: 模型宽度 · token.weight 的第 2 轴"
    english = r"/[A-Za-z]{4,} [A-Za-z]{4,}/"
    assert browser.run(f"{english}.test(document.querySelector('header').innerText)") is False
    assert browser.errors == []


def test_hostile_names_stay_text(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["hostile"])
    assert browser.run("window.hit") is None
    assert browser.run("document.querySelector('h1').textContent") == HOSTILE[1]
    browser.key("l", "ArrowDown", "q", "q", "ArrowRight")
    headers = browser.run(f"[...{SVG}.querySelectorAll('.output')].map(n => n.getAttribute('aria-label'))")
    assert any("onfocus" in header for header in headers)
    assert browser.run("document.querySelectorAll('img, [autofocus]:not(dialog *)').length") == 0
    browser.key("/")
    browser.write("onerror=")
    assert browser.run("document.querySelector('#found').textContent").startswith("1 of")
    assert browser.run("window.hit") is None
    assert browser.errors == []


def test_two_graphs_in_one_notebook(browser: Browser, tmp_path: Path) -> None:
    def square(x: Any) -> Any:
        return (x * x).sum()

    graph = trace(square, tg.ones(3, requires_grad=True))
    other = trace(lambda x: x.exp(), tg.ones(3, requires_grad=True), title="<other>")
    body = f"<!doctype html><meta charset=utf-8>{graph._repr_html_()}{other._repr_html_()}{graph._repr_svg_()}"
    (tmp_path / "notebook.html").write_text(body, encoding="utf-8")
    browser.open(tmp_path / "notebook.html")
    assert browser.errors == []
    titles = [browser.run("document.querySelector('h1').textContent", frame) for frame in browser.frames]
    assert sorted(titles) == ["<other>", "square"]
    for frame in browser.frames:
        assert browser.run("document.querySelectorAll('.sheet:not([hidden]) svg .node').length", frame) > 1
        browser.run("document.querySelector('#step-on').click()", frame)
        assert browser.run("document.querySelector('#step-count').textContent", frame).startswith("1 of")
    assert browser.errors == []
