"""The benchmark tool: its figures are complete, it compares equal computations only, and its mistakes are one line."""

import importlib.util
import json
import math
import os

import pytest

from models.gpt import GPT, GPTConfig
from tools import bench
from tools.bench_rounds import ContenderError, Measured, agreement, peak_memory, speeds
from tools.bench_train import CASES, Shape, flops, weights
from tools.cli import run

SMALL = ["--layers", "1", "--width", "8", "--heads", "2", "--block-size", "4", "--batch-size", "2"]
SHORT = ["train", "--case", "custom", "--rounds", "2", "--steps", "1", *SMALL]
OURS = ["--contenders", "ours-numpy,ours-definitions"]


def one(name, *turns, losses=(), memory=None):
    return Measured(name, [list(turn) for turn in turns], list(losses), memory)


def test_figures_are_rows_in_a_file(tmp_path, capfd):
    path = tmp_path / "figures.json"
    assert run("bench", bench.main, [*SHORT, *OURS, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())
    assert [row["contender"] for row in rows] == ["ours-numpy", "ours-definitions"]
    for row in rows:
        assert list(row) == ["suite", "case", "contender", "seconds", "ratio", "peak_mb", "gflops"]
        assert (row["suite"], row["case"], row["ratio"]) == ("train", "custom", None)
        assert 0 < row["seconds"] < 60
        assert 20 < row["peak_mb"] < 2000
        shape = Shape(layers=1, width=8, heads=2, block_size=4, batch_size=2)
        assert math.isclose(row["gflops"] * row["seconds"] * 1e9, flops(shape))
    assert list(tmp_path.iterdir()) == [path]


def test_the_table_fits_a_terminal_and_cuts_no_name(capsys):
    found = [one(name, [123.4, 123.4], [0.25, 0.25], losses=[4.0] * 9, memory=12_345_678_901) for name in bench.TRAIN]
    bench.show("baby-gpt", CASES["baby-gpt"], 128, found, (9, 3e-7))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for name in bench.TRAIN:
        assert any(line.startswith(f"{name} ") for line in lines)
    assert sum("1.00 (1.00 to 1.00)" in line for line in lines) == len(found)
    assert "first 9 steps are the same within 3e-07" in " ".join(lines)


def test_a_run_without_pytorch_says_so(monkeypatch, capfd):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run("bench", bench.main, SHORT) == 0
    out = capfd.readouterr().out
    assert "ours-numpy" in out
    assert "[bench]" in out
    assert run("bench", bench.main, [*SHORT, "--contenders", "torch"]) == 2
    assert "[bench]" in capfd.readouterr().err


def test_speed_is_paired_round_by_round():
    ours = one("ours-numpy", [1.0, 1.0], [4.0, 4.0], [1.0])
    theirs = one("torch", [2.0, 2.0, 2.0], [8.0, 8.0], [3.0, 3.0])
    assert speeds([ours, theirs], "torch")["ours-numpy"] == [2.0, 2.0, 3.0]
    row, reference = bench.figures("train", "nano-cpu", 8 * 10**9, [ours, theirs])
    assert (row["ratio"], row["seconds"], row["gflops"]) == (2.0, 1.0, 8.0)
    assert reference["ratio"] == 1.0


def test_contenders_that_compute_something_else_are_refused():
    a, b = one("a", losses=[4.0, 3.0, 2.0]), one("b", losses=[4.0, 3.0 + 3e-7])
    steps, apart = agreement([a, b], 1e-6, 5)
    assert steps == 2
    assert math.isclose(apart, 1e-7, rel_tol=1e-3)
    with pytest.raises(ContenderError, match=r"the loss of step 1 is 3 and 3\.1"):
        agreement([a, one("c", losses=[4.0, 3.1])], 1e-6, 5)
    with pytest.raises(ContenderError):
        agreement([a, one("c", losses=[4.0, math.nan])], 1e-6, 5)


def test_a_contender_without_weight_decay_is_noticed(tmp_path, monkeypatch, capfd):
    program = tmp_path / "no_decay.py"
    program.write_text(
        "import json, sys\n"
        "from tools import bench_train\n"
        "bench_train.WEIGHT_DECAY = 0.0\n"
        "bench_train.contend(bench_train.Shape(**json.loads(sys.argv[1])), 0, False)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setitem(bench.TRAIN, "ours-definitions", ["no_decay"])
    assert run("bench", bench.main, [*SHORT, *OURS, "--steps", "10"]) == 2
    assert "do not compute the same" in capfd.readouterr().err


def test_work_counts_every_weight_and_every_key():
    shape = Shape(vocab_size=7, block_size=3, batch_size=2, layers=2, heads=2, width=4)
    gpt = GPT(GPTConfig(vocab_size=7, block_size=3, layers=2, heads=2, width=4, bias=False, tied=True))
    tables = [p.numel() for name, p in gpt.named_parameters() if p.ndim == 2 and "position" not in name]
    attention = 2 * 2 * (3 * 3 * 4) * 2 * 2  # two products, a multiplication and an addition, [T, T] D, layers, samples
    assert flops(shape) == 3 * (2 * sum(tables) * 3 * 2 + attention)


def test_contenders_start_from_the_same_weights():
    first, again = (weights([(3, 4), (4,)]) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert first[0].std() < 0.05 < first[1].min()


def test_peak_memory_is_this_process_s_own():
    if (before := peak_memory()) is None:
        pytest.skip("this system does not say")
    block = bytearray(b"x") * (before + (16 << 20))
    assert (peak_memory() or 0) > len(block)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--rounds", "3"],
        ["trian"],
        ["train", "--rounds", "0"],
        ["train", "--threads", "-1"],
        ["train", "--case", "nano"],
        ["train", "--case", "nano-cpu", "--width", "256"],
        ["train", "--case", "custom", "--heads", "3"],
        ["train", "--contenders", "ours"],
        ["train", "--json", "no/such/folder/file.json"],
        ["train", "--json", "."],
        ["train", "--widht", "8"],
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line_and_exit_code_2(wrong, capsys):
    assert run("bench", bench.main, wrong) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("bench: ")
    assert err.count("\n") == 1


def test_a_contender_that_fails_is_named(monkeypatch, capfd):
    monkeypatch.setitem(bench.TRAIN, "ours-numpy", ["no_such_module"])
    assert run("bench", bench.main, [*SHORT, *OURS]) == 2
    assert "ours-numpy ended" in capfd.readouterr().err
