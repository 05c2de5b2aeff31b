"""The benchmark tool: its figures are complete, and its mistakes are one line."""

import json

import pytest

from tools import bench
from tools.cli import run

SMALL = ["--layers", "1", "--width", "8", "--heads", "2", "--block-size", "4", "--batch-size", "2"]
SHORT = ["--rounds", "2", "--steps", "1", "--no-torch"]


def test_figures_as_json(capfd):
    assert run("bench", bench.main, [*SMALL, *SHORT, "--json"]) == 0
    figures = json.loads(capfd.readouterr().out)
    assert figures["config"]["width"] == 8
    (ours,) = figures["contenders"]
    assert ours["name"] == "tinygrad_edu"
    assert 0 < ours["fastest_ms"] <= ours["step_ms"]
    assert 3 < ours["loss"] < 6


def test_figures_as_a_table(capfd):
    assert run("bench", bench.main, [*SMALL, *SHORT]) == 0
    out = capfd.readouterr().out
    assert "batch 2 x 4" in out
    assert "tokens/s" in out


def test_speed_is_paired_round_by_round():
    ours = bench.Measured("tinygrad_edu", [[1.0, 1.0], [4.0, 4.0], [1.0, 1.0]], 1.0, 2.0)
    theirs = bench.Measured("torch", [[2.0, 2.0], [8.0, 8.0], [3.0, 3.0]], 1.0, 2.0)
    row = bench.summary(bench.BenchConfig(), [ours, theirs])["contenders"][0]
    assert (row["speed"], row["slowest_round"], row["fastest_round"]) == (2.0, 2.0, 3.0)
    assert row["step_ms"] == 1000.0


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--heads", "3"], ["--threads", "-1"], ["--widht", "8"]])
def test_a_mistake_is_one_line_and_exit_code_2(wrong, capsys):
    assert run("bench", bench.main, wrong) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("bench: ")
    assert err.count("\n") == 1


def test_a_contender_that_fails_is_named(monkeypatch, capfd):
    monkeypatch.setitem(bench.CONTENDERS, "tinygrad_edu", "no_such_module")
    assert run("bench", bench.main, SHORT) == 2
    assert "tinygrad_edu ended" in capfd.readouterr().err
