"""Every tool against every kind of damaged, foreign or absurd input: one line on stderr, exit code 2, no trace."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import shutil
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
from tinygrad_edu.data import make_tokenizer, train_wordpiece
from tinygrad_edu.data.tokenizer import MASKING
from tinygrad_edu.training import TrainConfig, Trainer
from tools import cli, corpus, embed, evaluate, fill, generate, read, train

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
