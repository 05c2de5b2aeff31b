"""How published GPT-2 and BERT models name, shape and describe what our models hold."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Names = dict[str, str | tuple[str, ...]]


class Piece(NamedTuple):
    """One parameter of ours and where it stands with them: under one name, or cut into equal parts along its rows."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool


@dataclass(frozen=True)
class Layout:
    """One published layout, for one class of ours.

    kind: "model_type" in config.json. architecture: the class that transformers builds. base: what their names begin
    with, or not, where a folder holds the model without its head. names: our module, or parameter, to theirs, # for a
    layer's number. transposed: our modules whose matrices they keep as [in, out]. unbiased: our modules that have no
    bias with them either. ignored: their names, without base, of what is no weight or is held twice. fields:
    config.json and their names to the fields of our Config. described: our Config to config.json. Both raise ValueError
    for what the other side has no word for.
    """

    kind: str
    architecture: str
    base: str
    names: Names
    fields: Callable[[Mapping[str, Any], set[str]], dict[str, Any]]
    described: Callable[[Any], dict[str, Any]]
    transposed: frozenset[str] = field(default_factory=frozenset)
    unbiased: frozenset[str] = field(default_factory=frozenset)
    ignored: str = "$^"

    def pieces(self, ours: Mapping[str, Any]) -> Iterator[Piece]:
        """A piece for each of our parameters' names."""
        for name in ours:
            number = re.search(r"\.(\d+)\.", name)
            generic = name if number is None else name.replace(number[0], ".#.", 1)
            module, _, leaf = generic.rpartition(".")
            found = self.names[generic] if generic in self.names else self.names[module]
            end = "" if generic in self.names else "." + leaf
            theirs = [part + end for part in ((found,) if isinstance(found, str) else found)]
            if number is not None:
                theirs = [part.replace("#", number[1]) for part in theirs]
            yield Piece(name, tuple(theirs), module in self.transposed and leaf == "weight")

    def canonical(self, name: str) -> str | None:
        """Their name as it is without base and in today's spelling; None for what is ignored."""
        bare = name.removeprefix(self.base)
        bare = re.sub(r"LayerNorm\.(gamma|beta)$", lambda m: f"LayerNorm.{_SPELLINGS[m[1]]}", bare)
        return None if re.fullmatch(self.ignored, bare) else bare


_SPELLINGS = {"gamma": "weight", "beta": "bias"}
# theirs to ours; of several names of theirs for one of ours, the first is written
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def _activation(given: str) -> str:
    if given not in _ACTIVATIONS:
        raise ValueError(f"the activation is {given!r}; known are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[given]


def _their_activation(ours: str) -> str:
    for theirs, name in _ACTIVATIONS.items():
        if name == ours:
            return theirs
    raise ValueError(f"the activation is {ours!r}; the layout knows {', '.join(sorted(set(_ACTIVATIONS.values())))}")


def _must(given: Mapping[str, Any], **wanted: Any) -> None:
    for name, value in wanted.items():
        if given.get(name, value) != value:
            raise ValueError(f"{name} is {given[name]!r}; only {value!r} can be read")


def _sizes(given: Mapping[str, Any], **names: str) -> dict[str, int]:
    if missing := [theirs for theirs in names.values() if not isinstance(given.get(theirs), int)]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return {ours: given[theirs] for ours, theirs in names.items()}


def _gpt2_fields(given: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    _must(given, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    sizes = {"vocab_size": "vocab_size", "block_size": "n_positions", "width": "n_embd", "layers": "n_layer"}
    return {
        **_sizes(given, heads="n_head", **sizes),
        "hidden": given.get("n_inner") or 0,
        "dropout": given.get("resid_pdrop", 0.1),
        "activation": _activation(given.get("activation_function", "gelu_new")),
        "eps": given.get("layer_norm_epsilon", 1e-5),
        "tied": given.get("tie_word_embeddings", True),
        "bias": True,
    }


def _gpt2_described(config: Any) -> dict[str, Any]:
    plain = {"norm": "layer", "norm_first": True, "positions": "learned", "normalised": False}
    for name, value in plain.items():
        if getattr(config, name) != value:
            raise ValueError(f"{name} is {getattr(config, name)!r}; GPT-2 has {value!r}")
    if config.key_heads not in (0, config.heads):
        raise ValueError(f"key_heads is {config.key_heads}; GPT-2 has as many as heads")
    return {
        "vocab_size": config.vocab_size,
        "n_positions": config.block_size,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.hidden or None,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.dropout,
        "activation_function": _their_activation(config.activation),
        "layer_norm_epsilon": config.eps,
        "tie_word_embeddings": config.tied,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _bert_fields(given: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    _must(given, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    sizes = {"vocab_size": "vocab_size", "block_size": "max_position_embeddings", "width": "hidden_size"}
    sizes |= {"layers": "num_hidden_layers", "heads": "num_attention_heads", "hidden": "intermediate_size"}
    return {
        **_sizes(given, segments="type_vocab_size", **sizes),
        "dropout": given.get("hidden_dropout_prob", 0.1),
        "activation": _activation(given.get("hidden_act", "gelu")),
        "eps": given.get("layer_norm_eps", 1e-12),
        "padding": -1 if given.get("pad_token_id", 0) is None else given.get("pad_token_id", 0),
        "pooler": "pooler.dense.weight" in names,
        "classes": len(given.get("id2label", ())) or given.get("num_labels", 2),
    }


def _bert_described(config: Any) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.block_size,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden or 4 * config.width,
        "type_vocab_size": config.segments,
        "pad_token_id": None if config.padding < 0 else config.padding,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "hidden_act": _their_activation(config.activation),
        "layer_norm_eps": config.eps,
        "id2label": {str(n): f"LABEL_{n}" for n in range(config.classes)},
        "label2id": {f"LABEL_{n}": n for n in range(config.classes)},
    }


GPT2 = Layout(
    kind="gpt2",
    architecture="GPT2LMHeadModel",
    base="transformer.",
    names={
        "token": "transformer.wte",
        "position": "transformer.wpe",
        "blocks.#.attention_norm": "transformer.h.#.ln_1",
        "blocks.#.attention.qkv": "transformer.h.#.attn.c_attn",
        "blocks.#.attention.output": "transformer.h.#.attn.c_proj",
        "blocks.#.feed_forward_norm": "transformer.h.#.ln_2",
        "blocks.#.feed_forward.up": "transformer.h.#.mlp.c_fc",
        "blocks.#.feed_forward.down": "transformer.h.#.mlp.c_proj",
        "norm": "transformer.ln_f",
        "head": "lm_head",
    },
    fields=_gpt2_fields,
    described=_gpt2_described,
    transposed=frozenset(
        f"blocks.#.{layer}" for layer in ("attention.qkv", "attention.output", "feed_forward.up", "feed_forward.down")
    ),
    unbiased=frozenset({"head"}),
    ignored=r"h\.\d+\.attn\.(masked_)?bias",  # causal masks, kept as buffers
)

_ENCODER: Names = {
    "token": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "segment": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "blocks.#.attention.qkv": tuple(f"encoder.layer.#.attention.self.{part}" for part in ("query", "key", "value")),
    "blocks.#.attention.output": "encoder.layer.#.attention.output.dense",
    "blocks.#.attention_norm": "encoder.layer.#.attention.output.LayerNorm",
    "blocks.#.feed_forward.up": "encoder.layer.#.intermediate.dense",
    "blocks.#.feed_forward.down": "encoder.layer.#.output.dense",
    "blocks.#.feed_forward_norm": "encoder.layer.#.output.LayerNorm",
    "pooler": "pooler.dense",
}
_INSIDE: Names = {
    f"encoder.{ours}": f"bert.{theirs}" if isinstance(theirs, str) else tuple(f"bert.{name}" for name in theirs)
    for ours, theirs in _ENCODER.items()
}


def _bert(architecture: str, names: Names) -> Layout:
    return Layout(
        kind="bert",
        architecture=architecture,
        base="bert.",
        names=names,
        fields=_bert_fields,
        described=_bert_described,
        # numbers 0, 1, 2, …; the head that told whether two sentences follow each other; a bias held twice
        ignored=r"embeddings\.position_ids|cls\.seq_relationship\..*|cls\.predictions\.decoder\.bias",
    )


BERT_ENCODER = _bert("BertModel", _ENCODER)
BERT_MASKED = _bert(
    "BertForMaskedLM",
    _INSIDE
    | {
        "head.dense": "cls.predictions.transform.dense",
        "head.norm": "cls.predictions.transform.LayerNorm",
        "head.decoder.weight": "cls.predictions.decoder.weight",
        "head.decoder.bias": "cls.predictions.bias",
    },
)
BERT_CLASSIFIER = _bert("BertForSequenceClassification", _INSIDE | {"classifier": "classifier"})
