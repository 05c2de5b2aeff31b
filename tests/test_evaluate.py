"""What tools.evaluate says of a model: loss, perplexity, bits per character, accuracy and exposure bias."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import MODELS, Bigram, BigramConfig
from tinygrad_edu import tensor
from tinygrad_edu.data import END_OF_TEXT, Batch, CharTokenizer, consecutive, make_tokenizer
from tinygrad_edu.nn import Module, Parameter
from tinygrad_edu.training import Evaluation, accuracy, evaluate, exposure_bias, load_checkpoint, save_checkpoint
from tools import cli, train
from tools import evaluate as tool

TEXT = "The quick brown fox jumps over the lazy dog.\n" * 40
SMALL = ["--steps", "8", "--batch-size", "4", "--block-size", "8", "--eval-every", "0"]
SHAPE = ["--layers", "1", "--heads", "2", "--width", "16"]


# measures


class Given(Module):
    """Its loss on a batch is the batch itself."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(tensor(0.0))

    def loss(self, batch: Any) -> tuple[Any, int]:
        return tensor(batch[0]), batch[1]


def test_perplexity_is_of_the_mean_over_tokens() -> None:
    """Four tokens of mean loss 1 and one of 3: neither the mean of means nor the mean of exponentials."""
    found = evaluate(Given(), [(4.0, 4), (3.0, 1)])
    assert found.perplexity == pytest.approx(math.exp(7 / 5))
    assert found.perplexity == pytest.approx(4.0552, abs=1e-4)


def test_padding_is_not_measured() -> None:
    model = Bigram(BigramConfig(vocab_size=5))
    found = evaluate(model, [Batch(np.array([[1, 2, 0, 0]]), np.array([[2, 3, -100, -100]]))])
    assert found.tokens == 2
    assert found.perplexity == pytest.approx(5)


def test_nothing_to_measure_is_an_error() -> None:
    model = Bigram(BigramConfig(vocab_size=5))
    batch = Batch(np.array([[1, 2]]), np.full((1, 2), -100))
    for measure in (evaluate, accuracy):
        with pytest.raises(ValueError, match="no label was counted"):
            measure(model, [batch])
    with pytest.raises(ValueError, match="0 characters"):
        Evaluation(1.0, 3).bits_per_character(0)


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_bits_per_character_do_not_depend_on_the_tokenizer(kind: str) -> None:
    """A model that gives each token of n characters the probability 2^-n has 1 bit a character."""
    tokenizer = make_tokenizer(kind, [TEXT], 300)
    ids = tokenizer.encode(TEXT)
    nats = math.log(2) * sum(len(tokenizer.decode([i])) for i in ids)
    assert Evaluation(nats / len(ids), len(ids)).bits_per_character(len(TEXT)) == pytest.approx(1)


@pytest.mark.parametrize(("text", "characters"), [("你好 é🙂!", 6), ("", 0), ("a<|endoftext|>b", 15)])
def test_characters_are_no_bytes_and_no_control_tokens(text: str, characters: int) -> None:
    tokenizer = make_tokenizer("byte", [], specials=(END_OF_TEXT,))
    labels = np.concatenate([[tokenizer.begin], tokenizer.encode(text), [tokenizer.end]])
    assert tool.spelled(labels, tokenizer) == characters


def test_accuracy_is_the_share_of_counted_labels_that_are_likeliest() -> None:
    model = Bigram(BigramConfig(vocab_size=4))
    model.load_state_dict({"table.weight": np.eye(4, k=1, dtype=np.float32)})  # says: the next id is one higher
    batch = Batch(np.array([[0, 1, 2, 0]]), np.array([[1, 3, -100, 1]]))
    assert accuracy(model, [batch]) == pytest.approx(2 / 3)
    assert accuracy(model, [batch, Batch(np.array([[0]]), np.array([[2]]))]) == pytest.approx(1 / 2)


# exposure bias


class Stumbling(Module):
    """Counts up modulo 8, as its text does; takes a wrong step with probability `slip`, and once there was a wrong step
    in what it reads, only says 9, if it `falls`."""

    class Config:
        vocab_size, block_size = 10, 1000

    def __init__(self, slip: float, falls: bool) -> None:
        super().__init__()
        self.w, self.config = Parameter(tensor(0.0)), self.Config()
        self.slip, self.falls = slip, falls

    def forward(self, ids: np.ndarray) -> Any:
        p = np.full((*ids.shape, 10), 1e-9)
        lost = (ids == 8).any(axis=1) if self.falls else np.zeros(len(ids), bool)
        p[np.arange(len(ids)), -1, (ids[:, -1] + 1) % 8] = 1 - self.slip
        p[:, -1, 8] = self.slip
        p[lost, -1] = 1e-9
        p[lost, -1, 9] = 1
        return tensor(np.log(np.maximum(p, 1e-9)))


COUNTING = np.arange(2000) % 8


def test_a_model_that_recovers_has_no_exposure_bias() -> None:
    found = exposure_bias(Stumbling(0.05, falls=False), COUNTING, prefix=20, length=12, samples=200)
    assert found.ratio == pytest.approx(1, abs=3 * found.error)
    assert found.error < 0.05
    assert 0.5 < found.true < 1


def test_a_model_that_loses_its_way_has() -> None:
    """Of its own 20 tokens each was wrong with probability 0.05, and then all that follow are."""
    found = exposure_bias(Stumbling(0.05, falls=True), COUNTING, prefix=20, length=12, samples=200)
    expected = 1 / 0.95**19
    assert found.ratio == pytest.approx(expected, abs=4 * found.error)
    assert found.ratio > 1.5
    assert exposure_bias(Stumbling(0.0, falls=True), COUNTING).ratio == 1


def test_exposure_bias_that_no_number_tells() -> None:
    measured = {"loss": 1.0, "tokens": 9, "perplexity": 2.7, "characters": 9, "bits_per_character": 1.4}
    bias = {"ratio": math.inf, "true": 0.02, "own": 0.0, "error": 244140.6, "context": 32}
    (line,) = [
        text
        for text in tool._lines({**measured, "accuracy": 0.1, "baseline": 0.1, "exposure_bias": bias}, "text")
        if text.startswith("exposure bias")
    ]
    assert "beyond measure" in line
    assert "±" not in line


def test_exposure_bias_repeats_with_its_seed() -> None:
    model = Stumbling(0.1, falls=True)
    first, same, other = (exposure_bias(model, COUNTING, samples=20, seed=seed) for seed in (1, 1, 2))
    assert first == same != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": 0}, "prefix 0"),
        ({"length": 3}, "order 4"),
        ({"samples": 1}, "samples 1"),
        ({"prefix": 1001}, "1000 tokens"),
    ],
)
def test_exposure_bias_refuses(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exposure_bias(Stumbling(0.1, falls=True), COUNTING, **options)


# the program


def here(*arguments: object) -> int:
    return cli.run("evaluate", tool.main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Trains once for each list of options."""
    made: dict[tuple[str, ...], Path] = {}
    place = tmp_path_factory.mktemp("evaluate")
    (place / "text.txt").write_text(TEXT, encoding="utf-8", newline="")

    def run(*options: str) -> Path:
        if options not in made:
            out = place / str(len(made))
            shape = SHAPE if options[0] != "bigram" else []
            name, *rest = options
            arguments = [name, "--data", str(place / "text.txt"), *SMALL, *shape, *rest, "--out", str(out)]
            assert cli.run("train", train.main, arguments) == 0
            made[options] = out
        return made[options]

    return run


@pytest.mark.parametrize("model", ["gpt", "bigram"])
@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_a_run_is_measured_on_its_validation_part(
    folder: Callable[..., Path], model: str, tokenizer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder(model, "--tokenizer", tokenizer, "--vocab-size", "300")
    capsys.readouterr()
    assert here(run, "--exposure", "4", "--json") == 0
    measured = json.loads(capsys.readouterr().out)
    checkpoint = load_checkpoint(run, resume=True)
    ids = checkpoint.tokenizer.encode(TEXT)
    part = ids[int(len(ids) * 0.9) :]
    found = evaluate(checkpoint.build(MODELS), consecutive(part, 8, 4))
    assert measured["tokens"] == found.tokens == len(part) - 1
    assert measured["loss"] == pytest.approx(found.loss, rel=1e-5)
    assert measured["baseline"] == max(part[1:].tolist().count(i) for i in set(part[1:].tolist())) / (len(part) - 1)
    assert measured["perplexity"] == pytest.approx(math.exp(found.loss), rel=1e-5)
    assert measured["characters"] == len(checkpoint.tokenizer.decode(part[1:]))
    bits = found.loss * found.tokens / math.log(2) / measured["characters"]
    assert measured["bits_per_character"] == pytest.approx(bits, rel=1e-5)
    assert measured["exposure_bias"]["ratio"] > 0
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["val_loss"] == pytest.approx(measured["loss"], rel=1e-5)


def test_a_bert_is_measured_by_what_it_fills_in(
    folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder("bert", "--block-size", "16")
    capsys.readouterr()
    assert here(run) == 0
    shown = capsys.readouterr().out
    assert "masked accuracy" in shown
    assert "character" not in shown
    assert "exposure" not in shown
    assert here(run, "--json") == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured.keys() == {"tokens", "loss", "perplexity", "accuracy", "baseline"}
    length = len(TEXT) - int(len(TEXT) * 0.9)
    assert 0.1 * length < measured["tokens"] < 0.2 * length
    assert measured["loss"] == pytest.approx(np.log(31), abs=0.5)


def test_another_text_is_measured_as_a_whole(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.txt").write_text("The lazy fox.\n" * 3)
    run = folder("gpt")
    capsys.readouterr()
    assert here(run, "--data", tmp_path / "other.txt", "--exposure", "0") == 0
    shown = capsys.readouterr().out
    assert "over 41 tokens" in shown
    assert "over 41 characters" in shown
    assert "exposure" not in shown
    # weights alone do, too
    best = tmp_path / "best"
    best.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (best / name).write_bytes((run / name).read_bytes())
    assert here(best, "--data", tmp_path / "other.txt", "--exposure", "0") == 0
    assert capsys.readouterr().out == shown


def test_what_is_not_finite_stays_json(
    folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = load_checkpoint(folder("bigram"), resume=True)
    weights = {"table.weight": found.weights["table.weight"] + 1e4 * np.eye(len(found.tokenizer), dtype=np.float32)}
    save_checkpoint(
        tmp_path, model="bigram", config=found.config, tokenizer=found.tokenizer, weights=weights,
        state=found.state, tensors=found.tensors,
    )  # fmt: skip
    capsys.readouterr()
    assert here(tmp_path, "--json", "--exposure", "2") == 0
    measured = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert measured["loss"] > 1000
    assert measured["perplexity"] is None


def test_evaluate_refuses(folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder("gpt")
    (tmp_path / "foreign.txt").write_text("äöü" * 9, encoding="utf-8")
    weights = tmp_path / "weights"
    weights.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (weights / name).write_bytes((run / name).read_bytes())
    for arguments, message in (
        ([tmp_path / "none"], "does not exist"),
        ([run, "--data", tmp_path / "none.txt"], "does not exist"),
        ([run, "--data", tmp_path / "foreign.txt"], "U+00E4"),
        ([weights], "give --data FILE"),
        ([run, "--device", "tpu"], "device 'tpu' is unknown"),
        ([run, "--exposure", "1"], "samples 1"),
        ([], "DIR"),
    ):
        capsys.readouterr()
        assert here(*arguments) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("evaluate: ")
        assert message in shown.err
        assert shown.err.count("\n") == 1


def test_a_mean_of_characters_counts_text_not_control_tokens(
    folder: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder("gpt", "--documents", "lines", "--val-fraction", "0")
    capsys.readouterr()
    assert here(run, "--json", "--exposure", "0") == 0
    measured = json.loads(capsys.readouterr().out)
    line = len(TEXT.splitlines()[0])
    assert measured["characters"] == 40 * line
    assert measured["tokens"] == 40 * (line + 1)
    assert CharTokenizer.of(TEXT.replace("\n", "")).vocabulary == load_checkpoint(run).tokenizer.decode(
        range(len(load_checkpoint(run).tokenizer) - 1)
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--exposure", "-1"], "exposure is -1"),
        (["--seed", "-1"], "seed is -1"),
    ],
)
def test_an_option_out_of_range_is_named(option: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run("evaluate", tool.main, ["nowhere", *option]) == 2
    assert message in capsys.readouterr().err
