"""Attention as people write it, right and wrong: what the ledger's check says of masks, scales and sources."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models import GPT, GPTConfig
from models.transformer import Attention, Block
from tinygrad_edu import nn
from tinygrad_edu.data import Batch
from tinygrad_edu.graph import Graph, trace
from tinygrad_edu.nn import functional as F

T, D = 5, 12
HIDDEN = -float("inf")


def lines(graph: Graph, step: int) -> list[tuple[bool, str]]:
    return [(check.passed, check.text) for check in graph.picture(max_nodes=None).checks if check.step == step]


def failed(graph: Graph) -> list[str]:
    """The lines of the ledger that are not passed, shapes left aside."""
    found = [line.strip() for line in graph.ledger().splitlines() if "FAIL: " in line and not line.startswith("1.")]
    assert len(found) == sum(not c.passed for c in graph.picture(max_nodes=None).checks if c.step != 1)
    return found


class Head(nn.Module):
    """One head. scores(q, k) makes its scores, weights(scores) its weights."""

    def __init__(self, scores: Callable[..., Any], weights: Callable[..., Any], names: str = "qkv") -> None:
        super().__init__()
        self.names, self.scores, self.weigh = names, scores, weights
        for name in names:
            setattr(self, name, nn.Linear(D, 4))

    def forward(self, x: Any) -> Any:
        q, k, v = (getattr(self, name)(x) for name in self.names)
        scores = self.scores(q, k)
        weights = self.weigh(scores)
        return weights @ v


def lower() -> Any:
    return tg.tril(tg.ones(T, T)).bool()


def plain(q: Any, k: Any) -> Any:
    return q @ k.mT / 2


def causal(scores: Any) -> Any:
    return scores.masked_fill(~lower(), HIDDEN).softmax(-1)


def transposed(scores: Any) -> Any:
    return scores.masked_fill(lower().mT.logical_not(), HIDDEN).softmax(-1)


def shifted(scores: Any) -> Any:
    return scores.masked_fill(~tg.tril(tg.ones(T, T), 1).bool(), HIDDEN).softmax(-1)


def unmasked(scores: Any) -> Any:
    return scores.softmax(-1)


def after(scores: Any) -> Any:
    return scores.softmax(-1) * lower()


def padding(scores: Any) -> Any:
    keys = tg.tensor([[[True] * 4 + [False]], [[True] * 3 + [False] * 2]])
    return scores.masked_fill(~keys, HIDDEN).softmax(-1)


def both(scores: Any) -> Any:
    keys = tg.tensor([[[True] * 4 + [False]], [[True] * 3 + [False] * 2]])
    return scores.masked_fill(~(keys & lower()), HIDDEN).softmax(-1)


DOCUMENTS = tg.tensor([[0, 0, 1, 1, 1], [4, 4, 4, 2, 2]])


def documents(scores: Any) -> Any:
    return scores.masked_fill(DOCUMENTS[:, :, None] != DOCUMENTS[:, None], HIDDEN).softmax(-1)


def causal_documents(scores: Any) -> Any:
    return scores.masked_fill((DOCUMENTS[:, :, None] != DOCUMENTS[:, None]) | ~lower(), HIDDEN).softmax(-1)


def over_queries(scores: Any) -> Any:
    return scores.masked_fill(~lower(), HIDDEN).softmax(-2)


def run(weights: Callable[..., Any], visibility: str | None, scores: Callable[..., Any] = plain) -> Graph:
    return trace(Head(scores, weights), tg.randn(2, T, D), visibility=visibility)


class TestVisibility:
    @pytest.mark.parametrize(
        ("weights", "declared"),
        [
            (causal, "causal"),
            (unmasked, "full"),
            (padding, "padding"),
            (both, "causal padding"),
            (both, "padding and causal"),
            (documents, "documents"),
            (causal_documents, "causal documents"),
            (causal_documents, "causal"),
            (shifted, None),
            (transposed, None),
        ],
    )
    def test_what_is_declared_and_seen(self, weights: Any, declared: str | None) -> None:
        assert failed(run(weights, declared)) == []

    @pytest.mark.parametrize(
        ("weights", "declared", "words"),
        [
            (unmasked, "causal", "declared causal, but full: all 25 of 25 visible: the mask is missing"),
            (transposed, "causal", "declared causal, but transposed: k ≥ q, 15 of 25 visible: the mask is transposed"),
            (shifted, "causal", "declared causal, but 19 of 25 visible"),
            (padding, "causal", "declared causal, but padding: the same keys for every query, 20 of 25 visible"),
            (causal, "padding", "declared padding, but causal: k ≤ q, 15 of 25 visible"),
            (causal, "full", "declared full, but causal: k ≤ q, 15 of 25 visible"),
            (unmasked, "padding", "declared padding, but full: all 25 of 25 visible: no key is hidden in this batch"),
            (causal, "causal padding", "declared causal and padding, but causal: k ≤ q, 15 of 25 visible"),
            (after, "causal", "declared causal, but full: all 25 of 25 visible: the mask is missing"),
            (documents, "causal", "declared causal, but documents: keys of the query's own document, 13 of 25 visible"),
            (causal, "causal documents", "declared causal in documents, but causal: k ≤ q, 15 of 25 visible"),
            (causal_documents, "documents", "declared documents, but causal in documents: k ≤ q, "),
            (over_queries, None, "the softmax runs over the queries: columns sum to 1 and not rows"),
        ],
    )
    def test_what_is_not_as_declared_fails_and_names_its_line(self, weights: Any, declared: str, words: str) -> None:
        graph = run(weights, declared)
        found = next(text for text in failed(graph) if words in text)
        line, _, told = found.removeprefix("- FAIL: line ").partition(", ")
        (row,) = [row for row in graph.ledger().splitlines() if row.startswith(f"| {line} |")]
        assert told.startswith(row.split(" | ")[1] + ": ")
        assert " = softmax(" in told
        (card,) = [card for card in graph.picture().cards() if "FAIL: " in card.visible and words in card.visible]
        assert card.visible in card.lines  # the picture says so, too

    def test_a_mask_behind_the_softmax_fails_whatever_is_declared(self) -> None:
        (found,) = failed(run(after, None))
        assert "weights = softmax ⊙ " in found
        assert "10 of 25 hidden after the softmax: rows no longer sum to 1" in found

    def test_declared_by_modules_and_by_path(self) -> None:
        class Said(Head):
            visibility = "causal"

        class Both(nn.Module):
            def __init__(self, said: type[Head]) -> None:
                super().__init__()
                self.one, self.two = said(plain, causal), said(plain, unmasked)

            def forward(self, x: Any) -> Any:
                return self.one(x) + self.two(x)

        x = tg.randn(2, T, D)
        (found,) = failed(trace(Both(Said), x))
        assert "declared causal, but full" in found
        assert failed(trace(Both(Said), x, visibility={"two": "full"})) == []
        assert failed(trace(Both(Head), x, visibility={"on*": "causal", "two": "full"})) == []
        assert len(failed(trace(Both(Head), x, visibility={"on*": "full", "two": "causal"}))) == 2

    def test_declarations_that_say_nothing(self) -> None:
        with pytest.raises(ValueError, match="visibility of the model: 'causl' says nothing; it is 'causal'"):
            run(causal, "causl")
        with pytest.raises(ValueError, match="'full causal' says nothing"):
            run(causal, "full causal")
        with pytest.raises(ValueError, match="'documents padding' says nothing"):
            run(causal, "documents padding")
        with pytest.raises(ValueError, match="visibility is declared for 'nowhere', but no module of that path ran"):
            trace(Head(plain, causal), tg.randn(2, T, D), visibility={"nowhere": "causal"})

    def test_attention_that_is_declared_and_does_not_run(self) -> None:
        (found,) = failed(trace(nn.Linear(3, 2), tg.ones(4, 3), visibility="causal"))
        assert found == "3. visibility: FAIL: Linear: attention is declared, but no softmax runs over keys"

    def test_one_query_is_causal_without_a_mask(self) -> None:
        q, k = tg.randn(2, 1, 4, requires_grad=True), tg.randn(2, T, 4)
        graph = trace(lambda q, k: (q @ k.mT / 2).softmax(-1) @ k, q, k, visibility="causal")
        assert failed(graph) == []

    def test_weights_too_large_to_look_at_are_no_pass(self) -> None:
        W = tg.randn(2, 2, requires_grad=True)
        graph = trace(lambda x: F.softmax(x @ W @ x.mT, dim=-1) @ x, tg.randn(2100, 2))
        (found,) = failed(graph)
        assert found.endswith(": too many weights to look at them")


class TestPlaces:
    W = tuple(tg.randn(D, 3, 4, generator=tg.Generator(i), requires_grad=True) for i in range(3))

    def heads_last(self, x: Any) -> Any:
        q, k, v = (tg.einsum("btd,dhe->bthe", x, w) for w in self.W)
        scores = tg.einsum("bqhe,bkhe->bqkh", q, k) / 2
        weights = tg.where(lower()[None, :, :, None], scores, HIDDEN).softmax(2)
        return tg.einsum("bqkh,bkhe->bqhe", weights, v)

    def keys_first(self, x: Any) -> Any:
        q, k, v = (x @ w.reshape(D, D) for w in self.W)
        scores = k @ q.mT / D**0.5
        weights = scores.masked_fill(~lower().mT, HIDDEN).softmax(-2)
        return weights.mT @ v

    def heads_mixed(self, x: Any) -> Any:
        q, k, v = (tg.einsum("btd,dhe->bhte", x, w) for w in self.W)
        scores = tg.einsum("bhqe,bhke->bhqk", q, k) / 2
        scores = tg.einsum("bhqk,hg->bgqk", scores, tg.ones(3, 3, requires_grad=True))
        weights = scores.masked_fill(~lower(), HIDDEN).softmax(-1)
        return weights @ v

    def folded(self, x: Any) -> Any:
        q, k, v = (tg.einsum("btd,dhe->bhte", x, w).reshape(6, T, 4) for w in self.W)
        scores = (q @ k.mT).reshape(2, 3, T, T) / 2
        weights = scores.masked_fill(~lower(), HIDDEN).softmax(-1).reshape(6, T, T)
        return weights @ v

    @pytest.mark.parametrize("form", ["heads_last", "keys_first", "heads_mixed", "folded"])
    def test_queries_and_keys_wherever_they_stand(self, form: str) -> None:
        graph = trace(getattr(self, form), tg.randn(2, T, D), visibility="causal")
        assert failed(graph) == []
        assert next(text for _, text in lines(graph, 2)).endswith("Q, K, V share one source, x: self-attention")
        ((passed, text),) = [line for line in lines(graph, 3) if "visible" in line[1]]
        assert passed
        assert text.endswith("causal: k ≤ q, 15 of 25 visible")
        kinds = [card.kind for card in graph.picture().cards() if card.kind in ("pairs", "visibility", "mixes")]
        assert kinds.count("mixes") == kinds.count("visibility") == 1
        (grid,) = [card for card in graph.picture().cards() if card.kind == "visibility"]
        assert grid.heads == ("q", "k")
        assert grid.grid is not None
        assert grid.grid.numbers == [[float(k > q) for k in range(T)] for q in range(T)]


class TestScale:
    @pytest.mark.parametrize(
        "scores",
        [
            lambda q, k: q @ k.mT / 2,
            lambda q, k: (q / 2) @ k.mT,
            lambda q, k: q @ (k * 0.5).mT,
            lambda q, k: (q * 4**-0.25) @ (k * 4**-0.25).mT,
            lambda q, k: (q @ k.mT) * tg.tensor(0.5),
            lambda q, k: q @ k.mT / tg.tensor(4.0).sqrt(),
        ],
        ids=["behind", "query", "key", "both", "tensor", "root"],
    )
    def test_wherever_the_factor_stands(self, scores: Any) -> None:
        graph = trace(Head(scores, causal), tg.randn(2, T, D), scaled=True)
        assert failed(graph) == []
        assert any(text == "scores are scaled by 1/√4, as declared" for _, text in lines(graph, 3))

    @pytest.mark.parametrize(
        ("scores", "words"),
        [
            (lambda q, k: q @ k.mT, "scaled by 1/√4, but are scaled by 1"),
            (lambda q, k: q @ k.mT / 4, "scaled by 1/√4, but are scaled by 0.25"),
            (lambda q, k: q @ k.mT * 2, "scaled by 1/√4, but are scaled by 2"),
            (
                lambda q, k: q @ k.mT * tg.ones(1, requires_grad=True),
                "scaled by 1/√4, but it is no number that scales them",
            ),
        ],
    )
    def test_a_wrong_or_missing_scale_fails(self, scores: Any, words: str) -> None:
        (found,) = failed(trace(Head(scores, causal), tg.randn(2, T, D), scaled=True))
        assert found.startswith("- FAIL: line ")
        assert words in found

    def test_unscaled_scores_are_declared_so(self) -> None:
        assert failed(trace(Head(lambda q, k: q @ k.mT, causal), tg.randn(2, T, D), scaled=False)) == []
        assert failed(trace(Head(plain, causal), tg.randn(2, T, D), scaled=False)) != []

    def test_the_models_own_attention(self) -> None:
        tg.manual_seed(0)
        model = GPT(GPTConfig(vocab_size=11, block_size=7, layers=2, heads=3, width=12))
        batch = Batch(np.arange(10).reshape(2, 5), np.arange(10).reshape(2, 5) + 1)
        graph = trace(model.loss, batch, visibility="causal", scaled=True)
        assert failed(graph) == []
        assert sum("1/√4, as declared" in text for _, text in lines(graph, 3)) == 2

    def test_rows_of_several_documents_in_the_model_that_is_declared_causal(self) -> None:
        model = GPT(GPTConfig(vocab_size=11, block_size=7, layers=1, heads=3, width=12))
        ids = np.arange(10).reshape(2, 5)
        graph = trace(model.loss, (ids, ids, None, DOCUMENTS.numpy()))
        assert failed(graph) == []
        assert any(
            "causal in documents: k ≤ q, keys of the query's own document" in text for _, text in lines(graph, 3)
        )


class Encoder(nn.Module):
    """Tokens and positions, then blocks under a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(11, D), nn.Embedding(7, D)
        self.blocks = nn.ModuleList(Block(D, 3) for _ in range(2))

    def forward(self, ids: Any, keys: Any) -> Any:
        x = self.token(ids) + self.position(tg.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, visible=keys[:, None, None, :])
        return x


class Crossing(nn.Module):
    """A stream that reads another one, twice, with self-attention in between."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(4))
        self.parts = nn.ModuleList(Attention(D, 3) for _ in range(4))
        self.token, self.place = nn.Embedding(11, D), nn.Parameter(tg.randn(7, D))

    def forward(self, ids: Any, mem: Any) -> Any:
        x = self.token(ids) * D**0.5 + self.place[: ids.shape[1]]
        for i, (norm, part) in enumerate(zip(self.norms, self.parts, strict=True)):
            x = x + (part(norm(x), mem) if i % 2 else part(norm(x), causal=True))
        return x


def rotated(x: Any) -> Any:
    """Queries and keys turned by their positions."""
    angle = tg.arange(x.shape[1]).float()[:, None] * tg.tensor([1.0, 0.1])
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :2], x[..., 2:]
    return tg.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class TestSources:
    def test_an_encoder_under_a_padding_mask(self) -> None:
        ids, keys = tg.randint(0, 11, (2, T)), tg.tensor([[True] * 5, [True] * 3 + [False] * 2])
        graph = trace(Encoder(), ids, keys, visibility="padding", scaled=True)
        assert failed(graph) == []
        assert [text.partition(": ")[2] for _, text in lines(graph, 2)] == [
            "Q, K, V share one source, attention_norm: self-attention"
        ] * 2
        seen = [text for _, text in lines(graph, 3) if "visible" in text]
        assert all("padding: the same keys for every query, 25 of 25" in text for text in seen)

    def test_a_stream_that_reads_another(self) -> None:
        graph = trace(Crossing(), tg.randint(0, 11, (2, 4)), tg.randn(2, T, D))
        found = [text.partition(": ")[2] for _, text in lines(graph, 2)]
        assert [text.startswith("Q, K, V share one source, ") for text in found] == [True, False] * 2
        assert found[1::2] == ["Q from ids, K and V from mem: cross-attention"] * 2

    def test_rotations_and_masks_on_the_way_are_no_sources(self) -> None:
        W = [tg.randn(D, 4, requires_grad=True) for _ in range(3)]

        def f(x: Any) -> Any:
            q, k, v = (x @ w for w in W)
            return causal(rotated(q) @ rotated(k).mT / 2) @ v

        graph = trace(f, tg.randn(2, T, D))
        ((_, text),) = lines(graph, 2)
        assert text.endswith("Q, K, V share one source, x: self-attention")

    def test_three_sources(self) -> None:
        graph = trace(lambda a, b, c: (a @ b.mT).softmax(-1) @ c, *(tg.randn(2, T, 4) for _ in range(3)))
        assert lines(graph, 2)[0][1].endswith("Q from a, K from b, V from c")


def shape_of(graph: Graph) -> list[Any]:
    """All that a picture says about axes, tokens and sources, without the names of modules."""
    return [
        [(c.kind, c.words, c.shape, "".join(t for t, _ in c.einsum), c.contracts, c.keeps, c.source, c.visible)]
        for c in graph.picture().cards()
    ] + [check.passed for check in graph.picture().checks]


class TestNothingIsTakenFromNames:
    def test_renamed_modules_change_no_verdict(self) -> None:
        x = tg.randn(2, T, D)
        given = trace(Head(plain, causal), x, visibility="causal", scaled=True)
        renamed = trace(Head(plain, causal, "xyz"), x, visibility="causal", scaled=True)
        assert shape_of(given) == shape_of(renamed)

    def test_equal_lengths_change_nothing_but_the_lengths(self) -> None:
        def drawn(B: int, T: int, D: int, d: int) -> Graph:
            Wq, Wk, Wv = (tg.randn(D, d, requires_grad=True) for _ in range(3))

            def head(x: Any) -> Any:
                q, k, v = x @ Wq, x @ Wk, x @ Wv
                scores = q @ k.mT / d**0.5
                att = scores.masked_fill(~tg.tril(tg.ones(T, T)).bool(), HIDDEN).softmax(-1)
                return att @ v

            return trace(head, tg.randn(B, T, D), axes={"x": "B T D"}, visibility="causal", scaled=True)

        distinct, equal = drawn(2, 5, 12, 4), drawn(4, 4, 4, 4)

        def named(graph: Graph) -> list[Any]:
            return [
                (c.kind, c.words, c.shape.partition("]")[0], c.contracts, c.source) for c in graph.picture().cards()
            ]

        assert named(distinct) == named(equal)
        assert failed(distinct) == failed(equal) == []
        assert not any("equal lengths" in remark for remark in distinct.picture().remarks)
        assert "equal lengths: B = D = T = 4" in equal.picture().remarks
