"""Every tool against every kind of damaged, foreign or absurd input: one line on stderr, exit code 2, no trace."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import tinygrad_edu as tg
from models import MODELS
from models.bert import BERTConfig, BERTEncoder
from tinygrad_edu import nn
from tinygrad_edu.data import ByteTokenizer, make_tokenizer, train_wordpiece, write_tokens
from tinygrad_edu.data.tokenizer import MASKING
from tinygrad_edu.training import TrainConfig, Trainer, load_checkpoint, save_checkpoint
from tools import bench, cli, corpus, demo, draw, embed, evaluate, fill, generate, prepare, read, train

TEXT = "the quick brown fox jumps over the lazy dog\n" * 12
PAIRS = '{"prompt": "abc", "answer": "xyy"}\n' * 10
SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "width": 8}
SPECIALS = {"bert": MASKING, "seq2seq": ("<|endoftext|>",), "ocr": ("<|endoftext|>",)}

# each tool that reads a run, by the model that it is for
CALLS: dict[str, tuple[str, Any, list[str]]] = {
    "generate": ("gpt", generate, ["{run}", "--prompt", "the", "--tokens", "3"]),
    "generate from a table": ("bigram", generate, ["{run}", "--prompt", "the", "--tokens", "3"]),
    "answer": ("seq2seq", generate, ["{run}", "--prompt", "abc"]),
    "answer by beams": ("seq2seq", generate, ["{run}", "--prompt", "abc", "--beams", "3"]),
    "fill": ("bert", fill, ["{run}", "the [MASK]"]),
    "read": ("ocr", read, ["{run}", "--text", "hi"]),
    "evaluate": ("gpt", evaluate, ["{run}", "--data", "{text}", "--exposure", "0"]),
    "evaluate a bert": ("bert", evaluate, ["{run}", "--data", "{text}"]),
    "evaluate answers": ("seq2seq", evaluate, ["{run}", "--data", "{pairs}"]),
    "resume": ("gpt", train, ["gpt", "--resume", "{run}", "--steps", "3"]),
    "init from": ("gpt", train, ["gpt", "--init-from", "{run}", "--data", "{text}", "--steps", "3", "--out", "{new}"]),
    "embed": ("published", embed, ["--model", "{run}", "a cat", "a dog"]),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Texts, and a run of every model, saved before its first step, with its state."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT)
    (folder / "pairs.jsonl").write_text(PAIRS)
    with pytest.MonkeyPatch.context() as patch:
        for name, count in (("LINES_MADE", 60), ("MEASURED", 10)):
            patch.setattr(corpus, name, count)
        made: Any
        for model, made in MODELS.items():
            kind, options = made
            data = {"seq2seq": "pairs.jsonl"}.get(model, "text.txt")
            tokenizer = make_tokenizer("char", [TEXT, PAIRS, "text: 0123456789"], 0, SPECIALS.get(model, ()))
            sizes = {"block_size": 32, **SMALL} if model != "bigram" else {}
            config = TrainConfig(data=str(folder / data), batch_size=4, block_size=32)
            tg.manual_seed(0)
            source, tokenizer = corpus.load(config, tokenizer, kind.task)
            trainer = Trainer(kind(options(vocab_size=len(tokenizer), **sizes)), source, config)
            (folder / model).mkdir()
            trainer.save(folder / model, model, tokenizer)
    words = train_wordpiece(["a cat sat on the mat, a dog ran"] * 5, 60, MASKING)
    BERTEncoder(BERTConfig(len(words), block_size=16, **SMALL)).save_pretrained(folder / "published")
    (folder / "published" / "tokenizer.json").write_text(words.bounded(True).to_json())
    return {"text": folder / "text.txt", "pairs": folder / "pairs.jsonl", "runs": folder}


@pytest.fixture(autouse=True)
def _without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.train.plot_losses", lambda *_: None)  # takes longer than all the rest


Attempt = Callable[..., str]


@pytest.fixture
def attempt(places: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Attempt:
    """Runs a tool in this process. It must answer with one line and exit code 2, or code 0 where `code` is that; the
    line, or what was printed."""

    def run(tool: Any, words: list[str], code: int = 2, **more: Any) -> str:
        named = {**places, "new": tmp_path / "new", "tmp": tmp_path, **more}
        capsys.readouterr()
        name = tool.__name__.rpartition(".")[2]
        found = cli.run(name, tool.main, [word.format(**named) for word in words])
        shown = capsys.readouterr()
        assert found == code, (found, shown)
        if code == 0:
            return shown.out
        assert shown.err.count("\n") == 1, shown.err
        assert shown.err.startswith(f"{name}: ")
        assert shown.out == ""
        return shown.err

    return run


@pytest.fixture
def copied(places: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a run, to be damaged."""

    def copy(model: str) -> Path:
        shutil.copytree(places["runs"] / model, tmp_path / model)
        return tmp_path / model

    return copy


def redigest(run: Path) -> None:
    """Let config.json speak of the files as they are now, as who changes them on purpose would."""
    path = run / "config.json"
    head = json.loads(path.read_text())
    if "sha256" in head:
        head["sha256"] = {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in head["sha256"]}
        path.write_text(json.dumps(head))


def weights_changed(run: Path, change: Callable[[np.ndarray], Any]) -> None:
    path = run / "model.safetensors"
    raw = path.read_bytes()
    path.write_bytes(save({name: np.asarray(change(a.copy()), a.dtype) for name, a in load(raw).items()}))
    redigest(run)


@pytest.mark.parametrize("call", CALLS)
def test_each_call_works_on_a_sound_run(call: str, copied: Callable[[str], Path], attempt: Attempt) -> None:
    model, tool, words = CALLS[call]
    attempt(tool, words, code=0, run=copied(model))


# weights


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("value", "said"),
    [(math.nan, "not finite"), (math.inf, "not finite"), (-math.inf, "not finite"), (3e38, "as large as 3e+38")],
)
def test_weights_to_compute_nothing_with(
    value: float, said: str, call: str, copied: Callable[[str], Path], attempt: Attempt
) -> None:
    model, tool, words = CALLS[call]
    run = copied(model)

    def one(a: np.ndarray) -> np.ndarray:
        a.flat[a.size // 2] = value
        return a

    weights_changed(run, one)
    line = attempt(tool, words, run=run)
    assert said in line
    assert "model.safetensors" in line


@pytest.mark.parametrize("call", [name for name in CALLS if not name.startswith(("resume", "init"))])
def test_a_model_whose_outputs_are_not_finite(
    call: str, copied: Callable[[str], Path], attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tool, words = CALLS[call]
    run = copied(model)
    monkeypatch.setattr(nn.Embedding, "forward", lambda self, ids: self.weight[ids] * math.inf)
    assert "diverged" in attempt(tool, words, run=run)


@pytest.mark.parametrize("kind", ["int64", "bool", "uint8"])
@pytest.mark.parametrize("call", ["generate", "fill", "resume"])
def test_weights_that_are_no_floating_numbers(
    kind: str, call: str, copied: Callable[[str], Path], attempt: Attempt
) -> None:
    model, tool, words = CALLS[call]
    run = copied(model)
    path = run / "model.safetensors"
    path.write_bytes(save({name: a.astype(kind) for name, a in load(path.read_bytes()).items()}))
    redigest(run)
    (run / "state.json").write_text(json.dumps({**json.loads((run / "state.json").read_text()), "sha256": {}}))
    redigest(run)
    assert f"holds {kind} in" in attempt(tool, words, run=run)


# settings

BAD_JSON: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"nonsense",
    "half": b'{"a": [1, ',
    "a list": b"[1, 2]",
    "a number": b"3",
    "null": b"null",
    "NaN": b'{"format": NaN}',
    "Infinity": b'{"format": 1, "model_type": Infinity, "config": {"width": -Infinity}}',
    "a key twice": b'{"format": 1, "format": 1, "model_type": "bert", "model_type": "bert"}',
    "deep": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "Latin-1": '{"a": "é"}'.encode("latin-1"),
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "gzip": gzip.compress(b"{}"),
    "digits": b'{"format": ' + b"9" * 10_000 + b"}",
}
JSON_FILES = ("config.json", "tokenizer.json", "state.json")


READ = {"generate": JSON_FILES[:2], "resume": JSON_FILES, "embed": JSON_FILES[:2]}
FURTHER = {"evaluate": JSON_FILES, "fill": JSON_FILES[:2], "read": JSON_FILES[:2]}
NOT_JSON = [
    *((call, case, file) for call, files in READ.items() for file in files for case in BAD_JSON),
    *((call, "NaN", file) for call, files in FURTHER.items() for file in files),
]


@pytest.mark.parametrize(("call", "case", "file"), NOT_JSON)
def test_json_that_is_none(call: str, case: str, file: str, copied: Callable[[str], Path], attempt: Attempt) -> None:
    model, tool, words = CALLS[call]
    run = copied(model)
    (run / file).write_bytes(BAD_JSON[case])
    if file != "config.json":
        redigest(run)
    assert str(run / file) in attempt(tool, words, run=run)


def of(file: str, key: Any, *values: Any) -> list[tuple[str, Any, Any]]:
    return [(file, key, value) for value in values]


WRONG_VALUES: list[tuple[str, list[str], Any]] = [
    *(case for key in ("format", "model", "config") for case in of("config.json", [key], None, [], 1.5, True)),
    *of("config.json", ["config", "width"], "8", 8.0, True, None, [8], -8, 0, 10**12, 10**400),
    *of("config.json", ["config", "layers"], 10**9, 900, {}, False),
    *of("config.json", ["config", "vocab_size"], 1, "30", 10**12, 29.0),
    *of("config.json", ["config", "block_size"], 10**15, "x", 0),
    *of("config.json", ["config", "dropout"], "0", True, 1.5, 10**400),
    ("config.json", ["config", "bias"], 1),
    ("config.json", ["config", "activation"], ["gelu"]),
    ("config.json", ["config", "eps"], "small"),
    ("config.json", ["config", "no_such"], 1),
    ("config.json", ["sha256", "model.safetensors"], 3),
    ("config.json", ["tokenizer_sha256"], 3),
    ("tokenizer.json", ["vocabulary"], 3),
    ("tokenizer.json", ["vocabulary"], "ba"),
    ("tokenizer.json", ["specials"], "abc"),
    ("tokenizer.json", ["specials"], [1]),
    ("tokenizer.json", ["format"], "1"),
    ("tokenizer.json", ["type"], None),
    ("tokenizer.json", ["model"], 3),
    *of("state.json", ["step"], "3", 3.5, True, None, -1),
    *of("state.json", ["unwritten"], 3, [1], ["a", 1], [0.0, 1.5]),
    *of("state.json", ["best"], [], {"loss": "x"}, {"step": 1.5}, {"none": 1}),
    *of("state.json", ["smoothed"], {"total": "x"}, 3),
    *of("state.json", ["order"], {}, {"seed": "x", "count": 0}, {"seed": -1, "count": 0}, []),
    *of("state.json", ["training"], [], 3, "x"),
    *of("state.json", ["training", "lr"], "0.1", None, True, -1, 10**400),
    *of("state.json", ["training", "steps"], "9", 9.0, 0, []),
    *of("state.json", ["training", "betas"], 0.9, [0.9], ["a", "b"], [0.9, 2]),
    ("state.json", ["training", "data"], 3),
    ("state.json", ["optimizer_steps"], {"token.weight": "x"}),
    ("state.json", ["optimizer_steps"], {"nobody": 3}),
    ("state.json", ["text_sha256"], 3),
    *of("state.json", ["tokens"], -1, 10**400),
    *of("state.json", ["seconds"], -1.0, 1e300),
    *of("state.json", ["random"], {"seed": 1, "count": 10**30}, {"seed": 1, "count": -1}, {"seed": 1}),
    *of("state.json", ["optimizer_steps"], {"token.weight": -1}, {"token.weight": 10**400}),
    ("state.json", ["sha256"], 3),
]


@pytest.mark.parametrize(("file", "key", "value"), WRONG_VALUES, ids=lambda part: str(part)[:30])
def test_a_setting_of_a_run_that_is_wrong(
    file: str, key: list[str], value: Any, copied: Callable[[str], Path], attempt: Attempt
) -> None:
    run = copied("gpt")
    content = json.loads((run / file).read_text())
    inner = content
    for name in key[:-1]:
        inner = inner[name]
    inner[key[-1]] = value
    (run / file).write_text(json.dumps(content))
    if file != "config.json":
        redigest(run)
    _, tool, words = CALLS["resume"]
    attempt(tool, words, run=run)
    if file != "state.json":
        attempt(*CALLS["generate"][1:], run=run)
    elif key[0] == "training":
        assert "training" in attempt(evaluate, ["{run}", "--exposure", "0"], run=run) or value in (-1, 0, [0.9, 2])


WRONG_PUBLISHED: list[tuple[str, str, Any]] = [
    *of("config.json", "num_hidden_layers", True, "1", 1.0, 10**12, None, 400),
    *of("config.json", "hidden_dropout_prob", "x", None, [0], 2),
    *of("config.json", "layer_norm_eps", "x", None, True),
    *of("config.json", "vocab_size", 10**15, 9),
    ("config.json", "hidden_act", ["gelu"]),
    ("config.json", "id2label", 3),
    ("config.json", "model_type", None),
    *of("1_Pooling/config.json", "pooling_mode_mean_tokens", "no", None),
    *of("sentence_bert_config.json", "max_seq_length", "8", 8.5, [8], -1, 1, True),
    *of("tokenizer.json", "model", [], {"type": "WordPiece", "vocab": {"[UNK]": 10**30}}, {"type": "WordPiece"}),
]


@pytest.mark.parametrize(("file", "key", "value"), WRONG_PUBLISHED)
def test_a_setting_of_a_published_model_that_is_wrong(
    file: str, key: str, value: Any, copied: Callable[[str], Path], attempt: Attempt
) -> None:
    run = copied("published")
    (run / file).parent.mkdir(exist_ok=True)
    before = json.loads((run / file).read_text()) if (run / file).exists() else {}
    (run / file).write_text(json.dumps({**before, key: value}))
    attempt(*CALLS["embed"][1:], run=run)


# a state and weights that do not belong together


def other_save(run: Path) -> None:
    """Another save of the same run, of its next step."""
    found = load_checkpoint(run, resume=True)
    weights_changed(run, lambda a: a + 1)
    state = json.loads((run / "state.json").read_text())
    state["sha256"]["model.safetensors"] = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    (run / "state.json").write_text(json.dumps({**state, "step": 7}))
    redigest(run)
    assert found.state is not None


@pytest.mark.parametrize(
    "files",
    [
        ["model.safetensors"],
        ["state.json"],
        ["state.json", "state.safetensors"],
        ["config.json", "model.safetensors"],
        ["config.json", "model.safetensors", "tokenizer.json"],
        ["config.json", "state.json"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("honest", [True, False], ids=["as copied", "with digests made anew"])
def test_files_of_two_saves(files: list[str], honest: bool, copied: Callable[[str], Path], attempt: Attempt) -> None:
    run = copied("gpt")
    other = run.with_name("other")
    shutil.copytree(run, other)
    other_save(other)
    for file in files:
        shutil.copy(other / file, run / file)
    if not honest:
        redigest(run)
    line = attempt(*CALLS["resume"][1:], run=run)
    if not honest:
        assert "of another save" in line
    assert load_checkpoint(other, resume=True).state is not None


def test_the_best_weights_copied_over_a_run(copied: Callable[[str], Path], attempt: Attempt) -> None:
    run = copied("gpt")
    found = load_checkpoint(run)
    best = run / "best"
    best.mkdir()
    weights = {name: weight + 1 for name, weight in found.weights.items()}
    save_checkpoint(best, model="gpt", config=found.config, tokenizer=found.tokenizer, weights=weights)
    for path in best.iterdir():
        shutil.copy(path, run / path.name)
    assert "is of another save than the weights next to it" in attempt(*CALLS["resume"][1:], run=run)
    attempt(*CALLS["generate"][1:], code=0, run=run)


def test_a_run_of_an_older_version_without_marks_goes_on(copied: Callable[[str], Path], attempt: Attempt) -> None:
    run = copied("gpt")
    for file in ("config.json", "state.json"):
        content = json.loads((run / file).read_text())
        del content["sha256"]
        (run / file).write_text(json.dumps(content))
    attempt(*CALLS["resume"][1:], code=0, run=run)


@pytest.mark.parametrize("change", ["shape", "NaN", "infinity", "integers", "missing", "more"])
def test_tensors_of_an_optimizer_that_do_not_fit(change: str, copied: Callable[[str], Path], attempt: Attempt) -> None:
    run = copied("gpt")
    attempt(*CALLS["resume"][1:], code=0, run=run)
    path = run / "state.safetensors"
    tensors = load(path.read_bytes())
    name = next(iter(tensors))
    if change == "shape":
        tensors[name] = np.zeros((3, 3), np.float32)
    elif change == "NaN":
        tensors[name] = np.full_like(tensors[name], np.nan)
    elif change == "infinity":
        name = next(name for name in tensors if name.startswith("exp_avg/"))
        tensors[name] = np.full_like(tensors[name], np.inf)
    elif change == "integers":
        tensors[name] = tensors[name].astype(np.int64)
    elif change == "missing":
        del tensors[name]
    else:
        tensors["exp_avg/nobody"] = np.zeros(3, np.float32)
    path.write_bytes(save(tensors))
    state = json.loads((run / "state.json").read_text())
    state["sha256"]["state.safetensors"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (run / "state.json").write_text(json.dumps(state))
    redigest(run)
    attempt(train, ["gpt", "--resume", "{run}", "--steps", "5"], run=run)


# the record

LINE = '{"step": %d, "train_loss": 1.5, "val_loss": null, "lr": 0.1, "tokens": 10, "seconds": 0.5}\n'


@pytest.mark.parametrize(
    "line",
    [
        LINE % 1,  # the step of the line before
        "\n",
        "[1]\n",
        '{"step": 2}\n',
        LINE.replace("1.5", "NaN") % 2,
        LINE.replace("1.5", "1e999") % 2,
        LINE.replace("1.5", '"1.5"') % 2,
        LINE.replace("10", "10.5") % 2,
        LINE.replace("1.5", "1e308") % 2,
        LINE.replace("null", "-1e300") % 2,
        LINE.replace("10", "-10") % 2,
        LINE % 2**64,
        LINE % 10**400,
        LINE.replace("0.1", "null") % 2,
        LINE.replace('"lr"', '"step"') % 2,
        LINE.replace('"lr"', '"rate"') % 2,
        LINE.replace("}", ', "more": 1}') % 2,
        (LINE % 2)[:30] + "\n",
        "[" * 100_000 + "\n",
    ],
    ids=range(19),
)
def test_a_damaged_record(line: str, copied: Callable[[str], Path], attempt: Attempt) -> None:
    run = copied("gpt")
    (run / "metrics.jsonl").write_text(LINE % 1 + line + LINE % 3)
    assert "metrics.jsonl, line 2: no line of metrics" in attempt(*CALLS["resume"][1:], run=run)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"garbage", b'{"stop": 1', gzip.compress(b"{}"), b"\0" * 9])
def test_a_record_that_is_none_is_not_taken_for_one_cut_short(
    content: bytes, copied: Callable[[str], Path], attempt: Attempt
) -> None:
    run = copied("gpt")
    (run / "metrics.jsonl").write_bytes(content)
    assert "metrics.jsonl" in attempt(*CALLS["resume"][1:], run=run)


def test_a_record_cut_short_or_gone_is_said(copied: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    run = copied("gpt")
    (run / "metrics.jsonl").write_text(LINE % 1 + (LINE % 2)[:20])
    words = ["gpt", "--resume", str(run), "--steps"]
    assert cli.run("train", train.main, [*words, "1"]) == 0
    assert "metrics.jsonl, line 2: cut short" in capsys.readouterr().err
    (run / "metrics.jsonl").unlink()
    assert cli.run("train", train.main, [*words, "2"]) == 0
    shown = capsys.readouterr().err
    assert "metrics.jsonl is missing" in shown
    assert shown.count("\n") == 1


# sizes and memory

B = str(10**12)
ABSURD: dict[str, tuple[Any, list[str]]] = {
    "tokens": (generate, ["{runs}/gpt", "--tokens", "1" + "0" * 15]),
    "more tokens": (generate, ["{runs}/gpt", "--tokens", "1" + "0" * 40]),
    "beams": (generate, ["{runs}/seq2seq", "--prompt", "abc", "--beams", B]),
    "readings": (read, ["{runs}/ocr", "--text", "hi", "--beams", "1" + "0" * 30]),
    "samples": (evaluate, ["{runs}/gpt", "--exposure", B]),
    "more samples": (evaluate, ["{runs}/gpt", "--exposure", "1" + "0" * 30]),
    **{
        f"{tokenizer} of {size}": (
            prepare, ["{text}", "--out", "{tmp}/x", "--tokenizer", tokenizer, "--vocab-size", str(size)]
        )
        for tokenizer in ("bpe", "wordpiece")
        for size in (1 << 32, 10**12, 10**30)
    },
    **{f"gpt {axis}": (draw, ["gpt", "--out", "{tmp}/a.svg", "--size", f"{axis}={B}"]) for axis in "BTVPLHDF"},
    **{f"ocr {axis}": (draw, ["ocr", "--out", "{tmp}/a.svg", "--size", f"{axis}={B}"]) for axis in "hwp"},
    "bigram": (draw, ["bigram", "--out", "{tmp}/a.svg", "--size", "V=10000000"]),
    "digits": (draw, ["gpt", "--out", "{tmp}/a.svg", "--size", "V=" + "9" * 5000]),
    "nodes": (draw, ["gpt", "--out", "{tmp}/a.svg", "--max-nodes", "-1"]),
    **{
        f"train {name}": (train, ["gpt", "--data", "{text}", "--out", "{new}", f"--{name}", "1" + "0" * 30])
        for name in ("layers", "width", "hidden", "heads", "batch-size", "block-size", "accumulation", "seed")
    },
    "steps of a demo": (demo, ["--steps", "0", "--out", "{tmp}/demo"]),
    "width of a bench": (bench, ["train", "--case", "custom", "--heads", "1", "--width", B]),
    "batch of a bench": (bench, ["train", "--case", "custom", "--batch-size", B]),
    "threads of a bench": (bench, ["train", "--threads", B]),
}  # fmt: skip


@pytest.mark.parametrize("case", ABSURD)
def test_an_absurd_size(case: str, attempt: Attempt) -> None:
    attempt(*ABSURD[case])


@pytest.mark.parametrize(
    "call", [*(name for name in CALLS if CALLS[name][1] is not train), "prepare", "draw", "draw a file"]
)
def test_memory_that_does_not_suffice(
    call: str, copied: Callable[[str], Path], attempt: Attempt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise MemoryError("Unable to allocate 8 TiB")

    more: dict[str, tuple[str, Any, list[str]]] = {
        "prepare": ("gpt", prepare, ["{text}", "--out", "{tmp}/x"]),
        "draw": ("gpt", draw, ["gpt", "--out", "{tmp}/a.svg"]),
        "draw a file": ("gpt", draw, ["{tmp}/a.py:made", "--out", "{tmp}/a.svg"]),
    }
    (tmp_path / "a.py").write_text("def made():\n    raise MemoryError('Unable to allocate 8 TiB')\n")
    model, tool, words = {**CALLS, **more}[call]
    run = copied(model)
    monkeypatch.setattr("tools.prepare.write_tokens", none)
    monkeypatch.setattr("tools.draw.trace", none)
    monkeypatch.setattr(nn.Embedding, "forward", none)
    line = attempt(tool, words, run=run)
    assert "8 TiB" in line


# texts


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (train, ["gpt", "--data", "{file}", "--out", "{new}"]),
        (train, ["gpt", "--data", "{file}", "--documents", "lines", "--out", "{new}"]),
        (train, ["gpt", "--data", "{file}", "--documents", "pairs", "--out", "{new}"]),
        (train, ["seq2seq", "--data", "{file}", "--out", "{new}"]),
        (train, ["bert", "--data", "{file}", "--out", "{new}"]),
        (train, ["ocr", "--data", "{file}", "--out", "{new}"]),
        (train, ["gpt", "--data", "{text}", "--tokenizer", "{file}", "--out", "{new}"]),
        (train, ["gpt", "--resume", "{file}"]),
        (prepare, ["{file}", "--out", "{new}"]),
        (prepare, ["{file}", "--out", "{new}", "--documents", "files"]),
        (prepare, ["{text}", "--out", "{new}", "--tokenizer", "{file}"]),
        (evaluate, ["{runs}/gpt", "--data", "{file}"]),
        (evaluate, ["{runs}/seq2seq", "--data", "{file}"]),
        (embed, ["--model", "{runs}/published", "--search", "{file}", "cat"]),
        (embed, ["--model", "{file}", "cat"]),
        (generate, ["{file}"]),
        (fill, ["{file}", "[MASK]"]),
        (read, ["{file}", "--text", "hi"]),
        (draw, ["{file}:made", "--out", "{tmp}/a.svg"]),
    ],
)
def test_files_that_are_no_text(tool: Any, words: list[str], attempt: Attempt, tmp_path: Path) -> None:
    cases = {
        "a.txt.gz": gzip.compress(TEXT.encode()),
        "a.parquet": b"PAR1\x15\x04",
        "a\x1b[31m.txt": gzip.compress(b""),
        "latin.txt": "é".encode("latin-1") * 100,
        "empty.txt": b"",
        "none.txt": None,
        "folder": None,
    }
    (tmp_path / "folder").mkdir()
    for name, content in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        line = attempt(tool, words, file=tmp_path / name)
        assert "\x1b" not in line
        reads_a_text = not {"--resume", "--model"} & set(words) and tool in (train, prepare, evaluate, embed)
        if name == "a.txt.gz" and reads_a_text:
            assert "compressed (gzip); decompress it first" in line
    if hasattr(os, "mkfifo") and tool in (generate, fill, read, draw):
        os.mkfifo(tmp_path / "pipe")
        attempt(tool, words, file=tmp_path / "pipe")
    if tool is not draw:
        attempt(tool, words, file="/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_read_twice(attempt: Attempt, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "can be read once only" in attempt(prepare, ["{tmp}/pipe", "--out", "{tmp}/x"])


@pytest.mark.parametrize("bit", [3, 9])
def test_a_damaged_file_of_tokens(bit: int, attempt: Attempt, tmp_path: Path) -> None:
    write_tokens(tmp_path / "x.tokens", ByteTokenizer(), [np.arange(250)])
    raw = bytearray((tmp_path / "x.tokens").read_bytes())
    raw[-(bit // 8) - 2] ^= 1 << bit % 8
    (tmp_path / "x.tokens").write_bytes(raw)
    for tool, words in (
        (train, ["gpt", "--data", "{tmp}/x.tokens", "--out", "{new}"]),
        (evaluate, ["{runs}/gpt", "--data", "{tmp}/x.tokens"]),
    ):
        assert "x.tokens" in attempt(tool, words)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_search_finds_lines_with_any_end(end: str, attempt: Attempt, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(end.join(["a cat", "a dog\u2028ran", "the mat"]), encoding="utf-8", newline="")
    shown = attempt(
        embed, ["--model", "{runs}/published", "--search", "{tmp}/a.txt", "--top", "9" * 30, "a cat"], code=0
    )
    assert [line.split(": ")[1] for line in sorted(shown.splitlines(), key=lambda line: line.split()[1])] == [
        "a cat",
        "a dog\\u2028ran",
        "the mat",
    ]


# terminals

STEERING = "\x1b]0;x\x07\x1b[2J\b\r\x7f\x9b31m\u202e\u2066\u200b\ufeff\u2028\0"


CONTROLS = {c for c in STEERING if not c.isprintable()}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("call", ["generate", "answer", "fill", "embed"])
def test_what_steers_a_terminal_does_not_reach_it(
    call: str, copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tool, words = CALLS[call]
    run = copied(model)
    text = f"{STEERING}[bold]x[/bold][/y] é你\u200d\u200c\n\tend"
    monkeypatch.setattr("tools.generate.write", lambda *_, **__: iter([text]))
    if call == "fill":
        monkeypatch.setattr("tinygrad_edu.data.CharTokenizer.decode", lambda *_: text)
    words = [word.format(run=run) for word in words]
    if call == "embed":
        words[-1] = text
    for screen in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stdout", screen)
        assert cli.run(call, tool.main, words) == 0
        shown = screen.getvalue()
        if screen.isatty() or call == "embed":
            assert not CONTROLS & set(shown)
            assert "\\x1b]0;x\\x07\\x1b[2J\\x08\\r\\x7f\\x9b31m\\u202e\\u2066\\u200b\\ufeff\\u2028\\x00" in shown
        else:
            assert text in shown
        assert "[bold]x[/bold][/y] é你\u200d\u200c" in shown
        assert ("\n\tend" in shown) == (call != "embed")


def test_a_line_of_an_error_steers_nothing(attempt: Attempt, tmp_path: Path) -> None:
    name = "a" + STEERING.replace("\0", "").replace("/", "")
    for tool, words in (
        (generate, ["{tmp}/" + name]),
        (train, ["gpt", "--data", "{tmp}/" + name]),
        (train, ["gpt", "--preset", name]),
        (train, [name]),
        (draw, ["{tmp}/" + name + ":made", "--out", "{tmp}/a.svg"]),
        (prepare, ["{tmp}/" + name, "--out", "{tmp}/x"]),
        (embed, ["--model", name, "x"]),
        (generate, ["{runs}/gpt", "--prompt", name]),
        (fill, ["{runs}/bert", "[MASK]" + name]),
    ):
        assert not CONTROLS & set(attempt(tool, words))
