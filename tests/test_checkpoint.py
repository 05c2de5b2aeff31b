"""Checkpoints: what is written, what is refused, and going on as if nothing had happened."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models import MODELS
from models.gpt import GPT, GPTConfig
from tinygrad_edu import optim
from tinygrad_edu.data import CharTokenizer
from tinygrad_edu.data.checked import file_bytes
from tinygrad_edu.training import (
    CheckpointError,
    TrainConfig,
    Trainer,
    checkpoint,
    load_checkpoint,
    save_checkpoint,
    weights_of,
)

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
TOKENIZER = CharTokenizer.of(TEXT)
IDS = TOKENIZER.encode(TEXT)
SMALL = TrainConfig(steps=6, batch_size=4, block_size=8, warmup=2, lr=1e-2, eval_every=2, log_every=1)


def gpt(seed: int = 0, dropout: float = 0.1) -> GPT:
    tg.manual_seed(seed)
    return GPT(GPTConfig(vocab_size=len(TOKENIZER), block_size=8, layers=1, heads=2, width=16, dropout=dropout))


def arrays_equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def save(folder: Path, weights: dict[str, np.ndarray], step: int | None = 1) -> None:
    save_checkpoint(
        folder,
        model="gpt",
        config={"vocab_size": len(TOKENIZER)},
        tokenizer=TOKENIZER,
        weights=weights,
        state=None if step is None else {"step": step},
        tensors=None if step is None else {"m": np.full(2, step)},
    )


def test_every_name_comes_back_with_its_array(tmp_path: Path) -> None:
    names = ["w", "file", "allow_pickle", "a", "a.npy", "block.0/w", "é"]
    weights: dict[str, np.ndarray] = {name: np.array(i, np.float32) for i, name in enumerate(names)}
    weights["transposed"] = np.arange(6.0).reshape(2, 3).T
    save(tmp_path, weights)
    assert arrays_equal(load_checkpoint(tmp_path).weights, weights)
    save(tmp_path, {})
    assert load_checkpoint(tmp_path).weights == {}
    assert sorted(os.listdir(tmp_path)) == [
        "config.json",
        "model.safetensors",
        "state.json",
        "state.safetensors",
        "tokenizer.json",
    ]


def test_a_save_that_fails_anywhere_leaves_the_old_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file operation of the second save fails in turn; what can be loaded is the first or the second, whole."""
    calls = 0

    def failing(original: Any, limit: int) -> Any:
        def call(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == limit:
                raise OSError(28, "No space left on device")
            return original(*args)

        return call

    outcomes = []
    for limit in range(1, 30):
        folder = tmp_path / str(limit)
        folder.mkdir()
        save(folder, {"w": np.full(1000, 1.0)}, 1)
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(os.fsync, limit))
            patch.setattr(os, "replace", failing(os.replace, limit))
            try:
                save(folder, {"w": np.full(2000, 2.0)}, 2)
                failed = False
            except OSError:
                failed = True
        found = load_checkpoint(folder, resume=True)
        assert found.state is not None
        assert found.tensors is not None
        step = found.state["step"]
        assert found.weights["w"].tolist() == [float(step)] * (1000 * step)
        assert found.tensors["m"].tolist() == [step, step]
        if step == 1:
            assert not [name for name in os.listdir(folder) if name.endswith((".next", ".tmp"))]
        save(folder, {"w": np.full(3, 3.0)}, 3)
        assert load_checkpoint(folder).weights["w"].tolist() == [3.0] * 3
        assert len(os.listdir(folder)) == 5
        outcomes.append((failed, step))
        if calls < limit:
            break
    assert (True, 1) in outcomes
    assert (True, 2) in outcomes
    assert outcomes[-1] == (False, 2)


def test_a_crash_between_two_saves_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new files lie under .next names; a further save that fails must not lose them."""
    save(tmp_path, {"w": np.full(3, 1.0)}, 1)
    real, calls = os.replace, 0

    def second_fails(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(5, "crash")
        real(*args)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", second_fails)
        with pytest.raises(OSError, match="crash"):
            save(tmp_path, {"w": np.full(3, 2.0)}, 2)
    assert load_checkpoint(tmp_path).weights["w"][0] == 2
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            save(tmp_path, {"w": np.full(3, 3.0)}, 3)
    assert load_checkpoint(tmp_path, resume=True).weights["w"][0] == 2


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    trainer = Trainer(gpt(), IDS, SMALL)
    trainer.advance()
    trainer.save(tmp_path, "gpt", TOKENIZER)
    return tmp_path


def damages() -> Iterator[Any]:
    for name in ("model.safetensors", "state.safetensors", "config.json", "tokenizer.json", "state.json"):
        yield pytest.param(name, lambda raw: b"", id=f"{name}-empty")
        yield pytest.param(name, lambda raw: raw[:10], id=f"{name}-10-bytes")
        yield pytest.param(name, lambda raw: raw[: len(raw) // 2], id=f"{name}-half")
        if name != "config.json":
            yield pytest.param(name, lambda raw: raw[:-9] + bytes([raw[-9] ^ 255]) + raw[-8:], id=f"{name}-flipped")
            yield pytest.param(name, None, id=f"{name}-missing")


@pytest.mark.parametrize(("name", "damage"), list(damages()))
def test_a_damaged_file_is_one_kind_of_error_that_names_it(saved: Path, name: str, damage: Any) -> None:
    path = saved / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(saved, resume=True)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors"])
def test_damage_is_found_without_a_digest_too(saved: Path, name: str) -> None:
    head = json.loads((saved / "config.json").read_text())
    del head["sha256"]
    (saved / "config.json").write_text(json.dumps(head))
    load_checkpoint(saved, resume=True)
    raw = (saved / name).read_bytes()
    for part in (raw[:0], raw[:10], raw[: len(raw) // 2]):
        (saved / name).write_bytes(part)
        with pytest.raises(CheckpointError, match=name):
            load_checkpoint(saved, resume=True)


def test_a_header_that_announces_terabytes_is_refused(saved: Path) -> None:
    head = json.loads((saved / "config.json").read_text())
    del head["sha256"]
    (saved / "config.json").write_text(json.dumps(head))
    header = json.dumps({"w": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}).encode()
    (saved / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99"),
        ({"format": None}, "format missing"),
        ({"config": 3}, "config is 3; it must be an object"),
        ({"tokenizer_sha256": "0" * 64}, "another tokenizer"),
        ({"config": {"vocab_size": 3}}, "vocab_size is 3"),
    ],
)
def test_a_changed_config_is_refused(saved: Path, change: dict[str, Any], message: str) -> None:
    path = saved / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(saved)


@pytest.mark.parametrize(("name", "value"), [("heads", 4), ("dropout", 0.0), ("activation", "relu"), ("norm", "rms")])
def test_an_option_that_was_edited_is_refused_though_the_weights_fit(saved: Path, name: str, value: Any) -> None:
    path = saved / "config.json"
    head = json.loads(path.read_text())
    assert head["config"][name] != value
    head["config"][name] = value
    path.write_text(json.dumps(head))
    with pytest.raises(CheckpointError, match=r"config\.json was edited|does not fit"):
        load_checkpoint(saved).build(MODELS)
    del head["config_sha256"]  # an older file
    path.write_text(json.dumps(head))
    if name in ("heads", "dropout"):
        load_checkpoint(saved).build(MODELS)


@pytest.mark.parametrize("name", ["step", "tokens", "seconds", "text_sha256", "best", "optimizer_steps", "order"])
def test_a_field_of_the_state_that_was_edited_is_refused(saved: Path, name: str) -> None:
    """As is one that could just as well be right, and one that is written differently."""
    path = saved / "state.json"
    state = json.loads(path.read_text())
    for other in (state[name] + 1 if name in ("step", "tokens", "seconds") else {}, state[name]):
        path.write_text(json.dumps({**state, name: other}))
        with pytest.raises(CheckpointError, match=r"state\.json is damaged"):
            load_checkpoint(saved, resume=True)


def test_a_step_before_the_steps_of_the_optimizer_is_refused(tmp_path: Path) -> None:
    trainer = Trainer(gpt(), IDS, SMALL)
    for _ in range(3):
        trainer.advance()
    state, tensors = trainer.state()
    for changed in ({"step": 2}, {"best": {**state["best"], "step": 4}}):
        with pytest.raises(CheckpointError, match="other parts of it are of step"):
            Trainer(gpt(), IDS, SMALL).load_state({**state, **changed}, tensors)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path, value: float) -> None:
    save(tmp_path, {"w": np.zeros(3, np.float32)})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match="no checkpoint was written"):
        save(tmp_path, {"v": np.zeros(3, np.float32), "w": np.array([1, value], np.float32)}, 2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder, message in (
        (tmp_path, "has no config"),
        (tmp_path / "none", "not exist"),
        (tmp_path / "file", "a file"),
    ):
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(folder)


def test_another_vocabulary_of_the_same_size_is_refused(tmp_path: Path) -> None:
    ours = CharTokenizer.of("abc\n")
    save_checkpoint(tmp_path, model="gpt", config={"vocab_size": 4}, tokenizer=ours, weights={})
    for text in ("xyz\n", "abcdef\n"):
        CharTokenizer.of(text).save(tmp_path / "tokenizer.json")
        with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
            load_checkpoint(tmp_path)


def test_weights_alone_generate_but_do_not_resume(saved: Path) -> None:
    found = load_checkpoint(saved)
    save_checkpoint(saved, model="gpt", config=found.config, tokenizer=TOKENIZER, weights=found.weights)
    assert sorted(os.listdir(saved)) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert load_checkpoint(saved).build(MODELS).config == gpt().config
    with pytest.raises(CheckpointError, match="weights only"):
        load_checkpoint(saved, resume=True)


def test_weights_of_another_shape_are_refused(saved: Path) -> None:
    found = load_checkpoint(saved)
    for change in ({"width": 32}, {"layers": 2}, {"no_such": 1}, {"width": 17}):
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            dataclasses.replace(found, config={**found.config, **change}).build(MODELS)
    with pytest.raises(CheckpointError, match="'llama'"):
        dataclasses.replace(found, model="llama").build(MODELS)


def test_a_tied_weight_is_saved_once(saved: Path) -> None:
    assert len(weights_of(gpt())) == len(list(gpt().parameters())) == len(load_checkpoint(saved).weights)


# going on


@pytest.mark.parametrize("stop", [0, 1, 3, 5])
@pytest.mark.parametrize("options", [{}, {"optimizer": "muon", "schedule": "linear"}], ids=["adamw", "muon"])
def test_resuming_is_as_if_it_had_never_stopped(tmp_path: Path, stop: int, options: dict[str, Any]) -> None:
    config = dataclasses.replace(SMALL, log_every=2, eval_every=4, **options)
    whole = Trainer(gpt(), IDS, config)
    expected = list(whole)

    first = Trainer(gpt(), IDS, config)
    reports = [first.advance() for _ in range(stop)]
    first.save(tmp_path, "gpt", TOKENIZER)
    tg.manual_seed(12345)  # whatever happens in between

    found = load_checkpoint(tmp_path, resume=True)
    assert found.state is not None
    assert found.tensors is not None
    second = Trainer(found.build(MODELS), IDS, TrainConfig(**found.state["training"]))
    second.load_state(found.state, found.tensors)
    reports += list(second)

    def timeless(report: Any) -> Any:
        times: dict[str, Any] = {"seconds": 0, "tokens_per_second": 0, "flops_per_second": 0}
        metrics = report.metrics and dataclasses.replace(report.metrics, **times)
        return dataclasses.replace(report, seconds=0, metrics=metrics)

    assert list(map(timeless, reports)) == list(map(timeless, expected))
    assert arrays_equal(second.weights(), whole.weights())
    (state, tensors), (other, others) = second.state(), whole.state()
    assert {**state, "seconds": 0} == {**other, "seconds": 0}
    assert arrays_equal(tensors, others)


def test_state_goes_by_name(saved: Path) -> None:
    """Moments follow their parameter's name; a state that names others is refused and changes nothing."""
    found = load_checkpoint(saved, resume=True)
    assert found.state is not None
    assert found.tensors is not None
    trainer = Trainer(found.build(MODELS), IDS, SMALL)
    backwards = dict(reversed(found.state["optimizer_steps"].items()))
    trainer.load_state({**found.state, "optimizer_steps": backwards}, found.tensors)
    assert arrays_equal(trainer.state()[1], found.tensors)

    fresh = Trainer(gpt(), IDS, SMALL)
    before = fresh.state()
    wrong: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = [
        ({**found.state, "optimizer_steps": {"nobody": 1}}, found.tensors),
        ({key: value for key, value in found.state.items() if key != "step"}, found.tensors),
        (found.state, {}),
        (found.state, {name: np.zeros(3, np.float32) for name in found.tensors}),
        ({**found.state, "order": {"seed": -1, "count": 0}}, found.tensors),
        ({**found.state, "text_sha256": "0"}, found.tensors),
    ]
    for state, tensors in wrong:
        with pytest.raises(CheckpointError):
            fresh.load_state(state, tensors)
        assert fresh.state()[0] == before[0]
        assert arrays_equal(fresh.state()[1], before[1])


def test_more_steps_can_be_added(saved: Path) -> None:
    found = load_checkpoint(saved, resume=True)
    assert found.state is not None
    assert found.tensors is not None
    trainer = Trainer(found.build(MODELS), IDS, TrainConfig(**{**found.state["training"], "steps": 9}))
    trainer.load_state(found.state, found.tensors)
    assert [report.step for report in trainer] == list(range(2, 10))


def test_a_run_that_saves_meanwhile_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, {"w": np.zeros(3)}, 0)
    read, saved = file_bytes, 0

    def saving(path: Path, what: str) -> bytes:  # a whole save falls between any two reads of the first three rounds
        nonlocal saved
        content = read(path, what)
        if saved < 3 and path.name == "config.json":
            saved += 1
            with monkeypatch.context() as patch:
                patch.setattr(checkpoint, "file_bytes", read)
                save(tmp_path, {"w": np.full(3, saved)}, saved)
        return content

    monkeypatch.setattr(checkpoint, "file_bytes", saving)
    found = load_checkpoint(tmp_path, resume=True)
    assert found.state == {"step": 3}
    assert found.weights["w"].tolist() == [3, 3, 3]


def test_a_config_of_brackets_alone_is_refused(saved: Path) -> None:
    (saved / "config.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"config.json is damaged"):
        load_checkpoint(saved)


@pytest.mark.parametrize("name", ["vocab_size", "block_size", "layers", "width"])
def test_a_size_beyond_the_weights_is_refused(saved: Path, name: str) -> None:
    head = json.loads((saved / "config.json").read_text())
    head["config"][name] = 10**12
    (saved / "config.json").write_text(json.dumps(head))
    with pytest.raises(CheckpointError, match=rf"config.json does not fit.*{name} is 1000000000000"):
        load_checkpoint(saved).build(MODELS)


def test_the_block_size_is_the_model_s(saved: Path) -> None:
    found = load_checkpoint(saved, resume=True)
    assert found.state is not None
    assert found.training()["block_size"] == found.config["block_size"] == 8
    del found.state["training"]["block_size"]  # else the default would take its place
    assert found.training()["block_size"] == 8
    found.state["training"]["block_size"] = 64
    with pytest.raises(CheckpointError, match=r"state.json: training: block_size is 64, that of the model .* is 8"):
        found.training()


def test_any_optimizer_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def build(groups: Any) -> optim.Optimizer:
        return optim.SGD(groups, lr=0.1, momentum=0.9)

    whole = Trainer(gpt(), IDS, SMALL, optimizer=build)
    list(whole)
    first = Trainer(gpt(), IDS, SMALL, optimizer=build)
    for _ in range(3):
        first.advance()
    first.save(tmp_path, "gpt", TOKENIZER)
    found = load_checkpoint(tmp_path, resume=True)
    assert found.state is not None
    assert found.tensors is not None
    assert {name.partition("/")[0] for name in found.tensors} == {"momentum_buffer"}
    second = Trainer(found.build(MODELS), IDS, SMALL, optimizer=build)
    second.load_state(found.state, found.tensors)
    list(second)
    assert arrays_equal(second.weights(), whole.weights())
    with pytest.raises(CheckpointError, match="lacks exp_avg"):
        Trainer(found.build(MODELS), IDS, SMALL).load_state(found.state, found.tensors)


@pytest.mark.parametrize("name", ["../escape.txt", "/escape.txt", "a/../../escape.txt", "other.bin"])
def test_a_file_outside_the_folder_is_neither_read_nor_written(tmp_path: Path, name: str) -> None:
    """A config.json that names files elsewhere: nothing there is renamed, though its digest is right."""
    folder = tmp_path / "inside"
    folder.mkdir()
    save(folder, {"w": np.full(3, 1.0)})
    (tmp_path / "escape.txt.next").write_bytes(b"x")
    path = folder / "config.json"
    head = json.loads(path.read_text())
    head["sha256"][name] = hashlib.sha256(b"x").hexdigest()
    path.write_text(json.dumps(head))
    with pytest.raises(CheckpointError, match="no file of a checkpoint"):
        load_checkpoint(folder)
    save(folder, {"w": np.full(3, 2.0)}, 2)
    assert not (tmp_path / "escape.txt").exists()
    assert load_checkpoint(folder).weights["w"][0] == 2


class Two(tg.nn.Module):
    """Parameters p and q of one shape, declared in an order; the loss gives p the gradient 1, q the gradient 100."""

    config = SimpleNamespace(vocab_size=len(TOKENIZER))

    def __init__(self, order: str) -> None:
        super().__init__()
        for name in order:
            self.register_parameter(name, tg.nn.Parameter(tg.zeros(2)))

    def loss(self, batch: Any) -> tuple[tg.Tensor, int]:
        found = dict(self.named_parameters())
        return (found["p"] + 100 * found["q"]).sum(), 1


def test_moments_follow_their_parameter_when_the_order_changes() -> None:
    config = dataclasses.replace(SMALL, clip=0.0, weight_decay=0.0, eval_every=0)
    whole, first = Trainer(Two("pq"), IDS, config), Trainer(Two("pq"), IDS, config)
    for _ in range(3):
        first.advance()
    state, tensors = first.state()
    assert state["optimizer_steps"] == {"p": 3, "q": 3}
    second = Trainer(Two("qp"), IDS, config)
    second.model.load_state_dict(first.weights())
    second.load_state(state, tensors)
    second.advance()
    for _ in range(4):
        whole.advance()
    assert arrays_equal(second.weights(), whole.weights())
    assert second.state()[1]["exp_avg/q"][0] > 20 > 1 > second.state()[1]["exp_avg/p"][0]


def test_a_state_before_the_first_step_is_gone_on_from() -> None:
    first, second = Trainer(gpt(), IDS, SMALL), Trainer(gpt(), IDS, SMALL)
    second.load_state(*first.state())
    assert second.step == 0
    assert [report.loss for report in second] == [report.loss for report in Trainer(gpt(), IDS, SMALL)]
