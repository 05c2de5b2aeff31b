"""Folders in published layouts: there and back, in one file or several, and every way in which they can be wrong."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tinygrad_edu as tg
from models.bert import BERT, BERTClassifier, BERTConfig, BERTEncoder
from models.gpt import GPT, GPTConfig
from tinygrad_edu import nn

SHAPE: dict[str, Any] = {"vocab_size": 11, "block_size": 8, "layers": 2, "heads": 2, "width": 8}
IDS = np.random.default_rng(0).integers(0, 11, (2, 8))


def made(kind: str, **changes: Any) -> Any:
    tg.manual_seed(0)
    classes: dict[str, Any] = {"gpt": GPT, "encoder": BERTEncoder, "bert": BERT, "classifier": BERTClassifier}
    model = classes[kind](classes[kind].Config(**SHAPE | changes))
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    return model.eval()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made("gpt", bias=True).save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def change(folder: Path, **values: Any) -> None:
    described = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(described | values))


def rewrite(folder: Path, **tensors: np.ndarray | None) -> None:
    """Other tensors in a file: None takes one out."""
    held: dict[str, Any] = {**load_file(folder / "model.safetensors"), **tensors}
    save_file({name: value for name, value in held.items() if value is not None}, folder / "model.safetensors")


@pytest.mark.parametrize("shard", [5_000_000_000, 2000], ids=["one file", "shards"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gpt", {"bias": True}),
        ("gpt", {"bias": True, "tied": False, "hidden": 20, "activation": "relu", "eps": 1e-3}),
        ("encoder", {"pooler": True, "segments": 3}),
        ("bert", {"hidden": 20, "padding": 0}),
        ("classifier", {"classes": 5, "pooler": True}),
    ],
)
def test_there_and_back(kind: str, changes: dict[str, Any], dtype: str, shard: int, tmp_path: Path) -> None:
    model = made(kind, **changes).to(getattr(tg, dtype))
    model.save_pretrained(tmp_path / "new" / "folder", max_shard_bytes=shard)
    back = type(model).from_pretrained(tmp_path / "new" / "folder")
    assert ("model.safetensors.index.json" in files(tmp_path / "new" / "folder")) is (shard == 2000)
    assert not back.training
    same = {**vars(model.config), "hidden": back.config.hidden}  # BERT's layout always names F
    assert vars(back.config) == same
    if dtype == "float32":
        assert np.array_equal(back(IDS).array, model(IDS).array)
    assert all(np.array_equal(v.array, model.state_dict()[n].array.astype("f4")) for n, v in back.state_dict().items())


def test_reading_draws_nothing_from_the_callers_stream(folder: Path) -> None:
    tg.manual_seed(3)
    before = tg.random.default_generator.get_state()
    GPT.from_pretrained(folder)
    assert tg.random.default_generator.get_state() == before


def test_without_biases_zeros_are_written(tmp_path: Path) -> None:
    model = made("gpt")
    model.save_pretrained(tmp_path)
    back = GPT.from_pretrained(tmp_path)
    assert back.config.bias
    assert back.num_parameters() > model.num_parameters()
    assert np.array_equal(back(IDS).array, model(IDS).array)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"positions": "rotary"}, "positions is 'rotary'; GPT-2 has 'learned'"),
        ({"norm": "rms"}, "norm is 'rms'"),
        ({"norm_first": False}, "norm_first is False"),
        ({"normalised": True}, "normalised is True"),
        ({"key_heads": 1}, "key_heads is 1"),
        ({"activation": "swiglu"}, "activation is 'swiglu'"),
    ],
)
def test_what_gpt2_has_no_words_for(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"GPT\.save_pretrained: .*{said}"):
        made("gpt", **changes).save_pretrained(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_every_wrong_tensor_is_named(folder: Path) -> None:
    rewrite(
        folder,
        **{
            "transformer.h.1.ln_2.bias": None,
            "transformer.wpe.weight": np.zeros((4, 8), "f4"),
            "transformer.h.0.mlp.c_fc.weight": np.zeros((32, 8), "f4"),
            "transformer.h.0.extra": np.zeros(3, "f4"),
        },
    )
    with pytest.raises(ValueError, match="nothing was loaded") as caught:
        GPT.from_pretrained(folder)
    for part in (
        "missing: h.1.ln_2.bias",
        "wpe.weight has shape (4, 8) instead of (8, 8)",
        "h.0.mlp.c_fc.weight has shape (32, 8) instead of (8, 32)",
        "of no use here: h.0.extra",
    ):
        assert part in str(caught.value)


def test_a_part_of_q_k_v_that_is_missing(tmp_path: Path) -> None:
    made("encoder").save_pretrained(tmp_path)
    rewrite(tmp_path, **{"encoder.layer.1.attention.self.key.weight": None})
    with pytest.raises(ValueError, match=r"missing: encoder\.layer\.1\.attention\.self\.key\.weight;"):
        BERTEncoder.from_pretrained(tmp_path)


def test_not_strict_loads_the_rest_but_no_wrong_shape(folder: Path) -> None:
    kept = GPT.from_pretrained(folder)
    rewrite(folder, **{"transformer.ln_f.bias": None, "more": np.zeros(2, "f4")})
    with pytest.warns(UserWarning, match=r"missing: ln_f\.bias; of no use here: more"):
        model = GPT.from_pretrained(folder, strict=False)
    assert abs(model.state_dict()["norm.bias"].array).max() == 0
    assert np.array_equal(model.token.weight.array, kept.token.weight.array)
    rewrite(folder, **{"transformer.ln_f.weight": np.zeros(3, "f4")})
    with pytest.raises(ValueError, match=r"ln_f\.weight has shape \(3,\) instead of \(8,\)"):
        GPT.from_pretrained(folder, strict=False)


def test_a_tied_head_that_differs_from_its_table(folder: Path) -> None:
    table = load_file(folder / "model.safetensors")["transformer.wte.weight"]
    rewrite(folder, **{"lm_head.weight": table})
    assert np.array_equal(GPT.from_pretrained(folder).head.weight.array, table)
    rewrite(folder, **{"lm_head.weight": table + 1})
    with pytest.raises(ValueError, match="one tied parameter, with unequal values"):
        GPT.from_pretrained(folder)


def test_buffers_are_no_weights(folder: Path) -> None:
    """Masks of old GPT-2 files; and names without their base, as a bare GPT-2 is saved."""
    held = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): value for name, value in held.items()}
    masks = {f"h.{i}.attn.bias": np.tri(8, dtype=bool)[None, None] for i in range(2)}
    save_file({**bare, **masks, "h.0.attn.masked_bias": np.array(-1e4, "f4")}, folder / "model.safetensors")
    model = GPT.from_pretrained(folder)
    assert np.array_equal(model.token.weight.array, bare["wte.weight"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model_type": "llama"}, "type 'llama'; GPT reads 'gpt2'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        ({"activation_function": "mish"}, "activation is 'mish'"),
        ({"n_head": None}, "lacks n_head"),
        ({"n_head": 3}, "width 8 is not a multiple of heads 3"),
        ({"n_layer": 10**12}, "layers 1000000000000 exceeds"),
        ({"n_layer": 3}, r"missing: h\.2\.ln_1\.weight"),
        ({"n_layer": 1}, r"of no use here: h\.1\.attn\.c_attn\.bias"),
    ],
)
def test_a_config_that_does_not_fit(values: dict[str, Any], said: str, folder: Path) -> None:
    change(folder, **values)
    with pytest.raises(ValueError, match=said):
        GPT.from_pretrained(folder)


def test_folders_that_hold_no_model(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is no folder"):
        GPT.from_pretrained(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        GPT.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"format": 1, "model": "gpt"}')
    with pytest.raises(ValueError, match="load_checkpoint reads training runs"):
        GPT.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds something else"):
        made("gpt").save_pretrained(tmp_path)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="damaged or no JSON"):
        GPT.from_pretrained(folder)


@pytest.mark.parametrize("length", [0, 4, 100, -1])
def test_weights_cut_short(length: int, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        GPT.from_pretrained(folder)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"has no model\.safetensors, nor its parts"):
        GPT.from_pretrained(folder)


def test_an_index_that_lies(tmp_path: Path) -> None:
    """No file outside the folder is opened; every tensor is where the index says."""
    model = made("gpt", bias=True)
    model.save_pretrained(tmp_path, max_shard_bytes=2000)
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    names = sorted(set(index["weight_map"].values()))

    def tell(**where: str) -> None:
        path.write_text(json.dumps({**index, "weight_map": {**index["weight_map"], **where}}))

    for outside in ("../model.safetensors", "/etc/passwd", "a/b.safetensors"):
        tell(**{"transformer.wte.weight": outside})
        with pytest.raises(ValueError, match="no file beside it"):
            GPT.from_pretrained(tmp_path)
    tell(**{"transformer.wte.weight": names[-1]})
    with pytest.raises(ValueError, match=r"places transformer\.wte\.weight in files that do not hold"):
        GPT.from_pretrained(tmp_path)
    tell(**{"transformer.wte.weight": "model-9.safetensors"})
    with pytest.raises(FileNotFoundError, match="model-9"):
        GPT.from_pretrained(tmp_path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="no weight_map"):
        GPT.from_pretrained(tmp_path)


def test_a_new_model_replaces_all_of_the_old_one(tmp_path: Path) -> None:
    first, second = made("gpt", bias=True), made("gpt", bias=True, layers=1)
    first.save_pretrained(tmp_path, max_shard_bytes=2000)
    second.save_pretrained(tmp_path)
    assert files(tmp_path) == {"config.json", "model.safetensors"}
    assert GPT.from_pretrained(tmp_path).config.layers == 1
    first.save_pretrained(tmp_path, max_shard_bytes=2000)
    assert "model.safetensors" not in files(tmp_path)
    assert GPT.from_pretrained(tmp_path).config.layers == 2


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_a_model_is_written_through_no_link_in_its_folder(kind: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "config.json").write_text('{"model_type": "notes"}')
    (tmp_path / "weights").write_bytes(b"mine")
    getattr(tmp_path / "model" / "config.json", kind)(tmp_path / "config.json")
    getattr(tmp_path / "model" / "model.safetensors", kind)(tmp_path / "weights")
    (tmp_path / "link").symlink_to("model")
    made("gpt", bias=True).save_pretrained(tmp_path / "link")
    assert (tmp_path / "config.json").read_text() == '{"model_type": "notes"}'
    assert (tmp_path / "weights").read_bytes() == b"mine"
    assert GPT.from_pretrained(tmp_path / "model").config == made("gpt", bias=True).config
    (tmp_path / "model" / "model.safetensors").chmod(0o600)
    made("gpt", bias=True).save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("written", range(3))
def test_a_save_that_fails_changes_nothing(written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever file does not fit, the old model is whole and nothing is left behind."""
    made("gpt", bias=True).save_pretrained(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    count = 0

    real = os.fsync

    def fail(handle: int) -> None:
        nonlocal count
        if count == written:
            raise OSError(28, "No space left on device")
        count += 1
        real(handle)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        made("gpt", bias=True, layers=1).save_pretrained(tmp_path, max_shard_bytes=1500)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_trained_encoder_goes_into_a_classifier(tmp_path: Path) -> None:
    model = made("bert")
    model.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"missing: .*classifier\.bias; of no use here: cls\.predictions\.bias"):
        classifier = BERTClassifier.from_pretrained(tmp_path, strict=False)
    assert np.array_equal(classifier.encoder(IDS).array, model.encoder(IDS).array)
    assert BERTConfig(**vars(classifier.config)).classes == 2
    assert GPTConfig(11).tied
