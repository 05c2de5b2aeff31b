"""The numbers of the course's twelve units, each computed by the framework."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import pytest

import tinygrad_edu as tg
from models.bert import BERT, BERTConfig
from models.bigram import Bigram, BigramConfig
from models.gpt import GPT, GPTConfig
from models.ocr import OCR, OCRConfig
from models.seq2seq import Seq2Seq, Seq2SeqConfig
from models.transformer import Attention, Block
from tinygrad_edu import data, graph, nn, optim
from tinygrad_edu.check import gradcheck
from tinygrad_edu.nn import functional as F

BOS, EOS = "<s>", "</s>"


@pytest.fixture(autouse=True)
def _seed() -> None:
    tg.manual_seed(0)


def array(x: Any) -> np.ndarray:
    return x.detach().numpy()


def close(x: Any, expected: Any, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(array(x), array(expected) if isinstance(expected, tg.Tensor) else expected, 0, atol)


def later(T: int) -> tg.Tensor:
    """True where key k comes after query q, [T, T]."""
    return tg.triu(tg.ones(T, T), 1).bool()


def causal_softmax(scores: tg.Tensor) -> tg.Tensor:
    return F.softmax(scores.masked_fill(later(scores.shape[-1]), -math.inf), -1)


def texts(text: str, *documents: str) -> tuple[Any, np.ndarray]:
    """A tokenizer for the characters of `text`; the ids of the documents (by default `text`) between BOS and EOS."""
    tokenizer = data.CharTokenizer.of(text, specials=[BOS, EOS])
    ids = np.concatenate(list(data.encode_documents(tokenizer, documents or [text]))).astype(int)
    return tokenizer, ids


def words(tokenizer: Any, ids: Iterable[int]) -> list[str]:
    """The tokens by name; "-" for a label that is ignored."""
    special = {tokenizer.begin: "BOS", tokenizer.end: "EOS", -100: "-"}
    return [special.get(int(i)) or tokenizer.decode([int(i)]) for i in ids]


def changed_rows(f: Callable[[tg.Tensor], tg.Tensor], x: tg.Tensor, row: int) -> list[int]:
    """The rows of f(x) that change, in any bit, with one row of x."""
    other = x.numpy().copy()
    other[row] += 1
    return np.flatnonzero((array(f(x)) != array(f(tg.tensor(other)))).any(-1)).tolist()


def changed_positions(model: nn.Module, ids: list[int], position: int, token: int) -> list[int]:
    """The positions whose logits change, in any bit, with the token of one position."""
    other = list(ids)
    other[position] = token
    with tg.no_grad():
        return np.flatnonzero((model([ids]).numpy() != model([other]).numpy())[0].any(-1)).tolist()


def named_shapes(picture: graph.Graph) -> dict[str, tuple[int, ...]]:
    """The shapes of values by the names that the code gave them."""
    return {name.text: value.shape for value in picture.record.values for name in value.names}


def sources(picture: graph.Graph) -> list[str]:
    """What is said of each attention: where its queries, keys and values come from."""
    return [card.source for card in picture.picture().cards() if card.source]


def small_gpt(vocab_size: int, **options: Any) -> GPT:
    model = GPT(
        GPTConfig(**{"vocab_size": vocab_size, "block_size": 16, "layers": 2, "heads": 2, "width": 16} | options)
    )
    return model.eval()


class TestUnit1FromTokenToNextLayer:
    T, D, d, F = 4, 8, 4, 16

    def layer(self, x: tg.Tensor, w: dict[str, tg.Tensor]) -> dict[str, tg.Tensor]:
        Q, K, V = x @ w["Q"], x @ w["K"], x @ w["V"]
        scores = Q @ K.T / self.d**0.5
        P = causal_softmax(scores)
        PV = P @ V
        out = PV @ w["O"]
        return {"X": x, "Q": Q, "scores": scores, "P": P, "PV": PV, "O": out, "next": F.gelu(out @ w["up"]) @ w["down"]}

    def weights(self) -> dict[str, tg.Tensor]:
        D, d, width = self.D, self.d, self.F
        shapes = {"Q": (D, d), "K": (D, d), "V": (D, d), "O": (d, D), "up": (D, width), "down": (width, D)}
        return {name: tg.randn(*shape) / shape[0] ** 0.5 for name, shape in shapes.items()}

    def test_shapes(self) -> None:
        token, w = nn.Embedding(11, self.D), self.weights()
        found = {name: x.shape for name, x in self.layer(token(tg.tensor([3, 1, 4, 1])), w).items()}
        assert w["O"].shape == (4, 8)
        assert found == {
            "X": (4, 8), "Q": (4, 4), "scores": (4, 4), "P": (4, 4), "PV": (4, 4), "O": (4, 8), "next": (4, 8),
        }  # fmt: skip

    def test_projections_keep_rows_apart_and_weights_mix_them(self) -> None:
        w, x = self.weights(), tg.randn(self.T, self.D)
        assert changed_rows(lambda x: x @ w["Q"], x, 2) == [2]
        assert changed_rows(lambda x: self.layer(x, w)["PV"], x, 2) == [2, 3]

    def test_the_mask_comes_before_the_softmax(self) -> None:
        scores = tg.randn(self.T, self.T)
        close(causal_softmax(scores).sum(-1), np.ones(4), 1e-6)
        after = F.softmax(scores, -1).masked_fill(later(4), 0.0).sum(-1)
        assert (array(after)[:3] < 0.99).all()

    def test_the_next_layer_has_parameters_of_its_own(self) -> None:
        blocks: Any = small_gpt(5).blocks
        first, second = blocks
        assert first.attention.qkv.weight is not second.attention.qkv.weight
        assert not np.array_equal(array(first.attention.qkv.weight), array(second.attention.qkv.weight))

    def test_exercise(self) -> None:
        P = tg.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]])
        assert (P @ tg.tensor([[1.0, 2], [3, 0], [9, 9]]))[1].tolist() == [2.5, 0.5]


def row_blocks(a: tg.Tensor, b: tg.Tensor, n: int) -> tg.Tensor:
    return tg.cat([a[i : i + n] @ b for i in range(0, len(a), n)])


def score_tiles(a: tg.Tensor, b: tg.Tensor, n: int) -> tg.Tensor:
    return tg.cat(
        [tg.cat([a[i : i + n] @ b[:, j : j + n] for j in range(0, b.shape[1], n)], 1) for i in range(0, len(a), n)]
    )


def over_keys(a: tg.Tensor, b: tg.Tensor, n: int) -> tg.Tensor:
    return tg.cat([outer_products(a[i : i + n], b, n) for i in range(0, len(a), n)])


def outer_products(a: tg.Tensor, b: tg.Tensor, n: int) -> tg.Tensor:
    total = a[:, :n] @ b[:n]
    for k in range(n, len(b), n):
        total = total + a[:, k : k + n] @ b[k : k + n]
    return total


def plain_tiles(a: tg.Tensor, b: tg.Tensor, n: int) -> tg.Tensor:
    return tg.cat([over_keys(a, b[:, j : j + n], n) for j in range(0, b.shape[1], n)], 1)


def flash(q: tg.Tensor, k: tg.Tensor, v: tg.Tensor, n: int) -> tuple[tg.Tensor, tg.Tensor]:
    """Causal attention tile by tile, and ln Σ exp(scores) of each query: no array of T x T."""
    outputs, statistics = [], []
    for i in range(0, len(q), n):
        rows = q[i : i + n]
        largest = tg.full((n, 1), -math.inf, dtype=q.dtype)
        total, out = tg.zeros(n, 1, dtype=q.dtype), tg.zeros(n, v.shape[1], dtype=q.dtype)
        for j in range(0, i + n, n):
            scores = rows @ k[j : j + n].T / q.shape[1] ** 0.5
            if j == i:
                scores = scores.masked_fill(later(n), -math.inf)
            new = tg.maximum(largest, scores.amax(-1, keepdim=True))
            p, scale = (scores - new).exp(), (largest - new).exp()
            total, out, largest = total * scale + p.sum(-1, keepdim=True), out * scale + p @ v[j : j + n], new
        outputs.append(out / total)
        statistics.append(largest + total.log())
    return tg.cat(outputs), tg.cat(statistics)


def flash_gradients(
    q: tg.Tensor, k: tg.Tensor, v: tg.Tensor, o: tg.Tensor, statistic: tg.Tensor, g: tg.Tensor, n: int
) -> tuple[tg.Tensor, tg.Tensor, tg.Tensor]:
    """The gradients of `flash` from its output and statistics: each tile of P is computed again."""
    dq, dk, dv = tg.zeros_like(q), tg.zeros_like(k), tg.zeros_like(v)
    level, root = (g * o).sum(-1, keepdim=True), q.shape[1] ** 0.5
    for i in range(0, len(q), n):
        for j in range(0, i + n, n):
            scores = q[i : i + n] @ k[j : j + n].T / root
            p = (scores.masked_fill(later(n), -math.inf) if j == i else scores).sub(statistic[i : i + n]).exp()
            ds = p * (g[i : i + n] @ v[j : j + n].T - level[i : i + n])
            dv[j : j + n] += p.T @ g[i : i + n]
            dq[i : i + n] += ds @ k[j : j + n] / root
            dk[j : j + n] += ds.T @ q[i : i + n] / root
    return dq, dk, dv


class TestUnit2BlockViews:
    def test_exercise(self) -> None:
        a, b = tg.tensor([[1.0, 2], [3, 4]]), tg.tensor([[5.0, 6], [7, 8]])
        first, second = (a[:, k : k + 1] @ b[k : k + 1] for k in range(2))
        assert first.tolist() == [[5, 6], [15, 18]]
        assert second.tolist() == [[14, 16], [28, 32]]
        assert (first + second).tolist() == (a @ b).tolist() == [[19, 22], [43, 50]]

    @pytest.mark.parametrize("view", [row_blocks, score_tiles, over_keys, outer_products, plain_tiles])
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_all_five_give_the_product(self, view: Callable[..., tg.Tensor], n: int) -> None:
        a, b = tg.randn(6, 12, dtype="float64"), tg.randn(12, 6, dtype="float64")
        close(view(a, b, n), a @ b)

    def test_flash_attention_is_attention(self) -> None:
        q, k, v = (tg.randn(12, 4, dtype="float64", requires_grad=True) for _ in range(3))
        g = tg.randn(12, 4, dtype="float64")
        ordinary = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        tiled, statistic = flash(q, k, v, 4)
        close(tiled, ordinary)
        expected = tg.grad((ordinary * g).sum(), (q, k, v))
        by_tape = tg.grad((tiled * g).sum(), (q, k, v), retain_graph=True)
        with tg.no_grad():
            by_tiles = flash_gradients(q, k, v, tiled, statistic, g, 4)
        for d, tape, tiles in zip(expected, by_tape, by_tiles, strict=True):
            close(tape, d)
            close(tiles, d)

    def test_no_step_holds_all_scores(self) -> None:
        x = tg.randn(12, 4)
        picture = graph.trace(lambda q, k, v: flash(q, k, v, 4)[0], x, x, x)
        assert max(math.prod(value.shape) for value in picture.record.values) < 12 * 12


class TestUnit3TeacherForcing:
    def test_input_and_labels(self) -> None:
        tokenizer, ids = texts("海安雨")
        assert words(tokenizer, ids[:-1]) == ["BOS", "海", "安", "雨"]
        assert words(tokenizer, ids[1:]) == ["海", "安", "雨", "EOS"]

    @pytest.mark.parametrize(("p", "loss"), [(0.8, 0.223), (0.2, 1.609)])
    def test_loss_of_a_probability(self, p: float, loss: float) -> None:
        logits = tg.tensor([[math.log(p), math.log(1 - p)]], dtype="float64")
        assert F.cross_entropy(logits, tg.tensor([0])).item() == pytest.approx(loss, abs=5e-4)

    def test_labels_of_a_prompt_are_ignored(self) -> None:
        tokenizer, _ = texts("海安雨")
        ids, labels = data.encode_pair(tokenizer, "海", "安雨")
        assert words(tokenizer, ids) == ["BOS", "海", "安", "雨"]
        assert words(tokenizer, labels) == ["-", "安", "雨", "EOS"]
        logits = small_gpt(len(tokenizer))([list(map(int, ids))])
        (d,) = tg.grad(F.cross_entropy(logits[0], tg.tensor(labels)), logits)
        assert array(d)[0].any(-1).tolist() == [False, True, True, True]

    def test_an_image_comes_before_the_text_and_shifts_nothing(self) -> None:
        tokenizer, ids = texts("海安雨")
        size: dict[str, Any] = {"vocab_size": len(tokenizer), "block_size": 8, "height": 8, "length": 16, "patch": 4}
        model = OCR(OCRConfig(**size, layers=1, heads=2, width=16)).eval()
        image = tg.rand(1, 8, 16)
        with tg.no_grad():
            logits = model([ids[:-1].tolist()], image)
            assert logits.shape == (1, 4, len(tokenizer))
            brighter = model([ids[:-1].tolist()], image + 0.3)
            assert (logits.numpy() != brighter.numpy())[0].any(-1).all()
            other = [*ids[:3].tolist(), ids[0].item()]
            changed = model([other], image).numpy() != logits.numpy()
        assert changed[0].any(-1).tolist() == [False, False, False, True]

    def test_its_own_words_lead_where_training_never_was(self) -> None:
        """Exposure bias: next = (sum of the last two) mod 10, where the text walks a cycle of 12 of the 100 pairs."""
        text = [1, 3]
        while len(text) < 400:
            text.append((text[-1] + text[-2]) % 10)
        x = np.array(text)
        pairs = 10 * x[:-2] + x[1:-1]
        table = nn.Embedding(100, 10)
        nn.init.zeros_(table.weight)
        optimizer = optim.AdamW(table.parameters(), lr=0.3, weight_decay=0.0)
        for _ in range(14):
            optimizer.zero_grad()
            F.cross_entropy(table(tg.tensor(pairs)), tg.tensor(x[2:])).backward()
            optimizer.step()
        assert len(set(pairs.tolist())) == 12
        P, rng, N, T = array(F.softmax(table.weight, -1)), np.random.default_rng(0), 2000, 40

        def draw(rows: np.ndarray) -> np.ndarray:
            return (P[rows].cumsum(-1) > rng.random((len(rows), 1))).argmax(-1)

        forced = [(draw(np.repeat(pairs[t], N)) == x[t + 2]).mean() for t in range(T)]
        a, b, own = np.full(N, x[0]), np.full(N, x[1]), []
        for _ in range(T):
            c = draw(10 * a + b)
            own.append((c == (a + b) % 10).mean())
            a, b = b, c
        assert abs(np.mean(forced[:8]) - np.mean(forced[-8:])) < 0.02
        assert own[0] - own[-1] > 0.05


def kind(weights: list[float]) -> str:
    """What a sum with these weights is."""
    w = np.array(weights)
    if abs(w.sum() - 1) > 1e-6:
        return "weighted sum"
    if (w < 0).any():
        return "sums to 1, not convex"
    return "plain average" if np.ptp(w) < 1e-6 else "weighted average"


class TestUnit4WeightedAverage:
    def test_exercise(self) -> None:
        assert (tg.tensor([0.25, 0.75]) @ tg.tensor([[0.0, 2], [4, 0]])).tolist() == [3, 0.5]

    def test_kinds_of_sums(self) -> None:
        discounts = (tg.tensor(0.9) ** tg.arange(3)).tolist()
        given = [[1 / 3] * 3, [0.2, 0.8, 0], [1, 1], [-0.2, 1.2], discounts]
        assert [kind(w) for w in given] == [
            "plain average", "weighted average", "weighted sum", "sums to 1, not convex", "weighted sum",
        ]  # fmt: skip

    def test_each_head_averages_and_the_output_projection_does_not(self) -> None:
        T, D, H = 6, 16, 4
        attention, x = Attention(D, H), tg.randn(1, T, D)
        q, k, v = attention.project(x, None)
        scores = q @ k.mT / (D // H) ** 0.5
        P = causal_softmax(scores)
        close(P.sum(-1), np.ones((1, H, T)), 1e-6)
        assert (array(P) >= 0).all()
        averages = P @ v
        for t in range(T):  # P is the certificate for the hull of the values that are visible
            assert set(map(kind, array(P)[0, :, t, : t + 1].tolist())) <= {"plain average", "weighted average"}
        low, high = array(v).min(-2, keepdims=True), array(v).max(-2, keepdims=True)
        assert ((low - 1e-6 <= array(averages)) & (array(averages) <= high + 1e-6)).all()
        out, values = array(attention.output(attention.merge(averages))), array(attention.merge(v))
        assert not ((values.min(-2) <= out) & (out <= values.max(-2))).all()
        close(attention(x, causal=True), out, 1e-6)
        for h in range(H):
            assert np.argsort(array(scores)[0, h, -1]).tolist() == np.argsort(array(P)[0, h, -1]).tolist()


class TestUnit5ThreeDependencies:
    BOS, A, B, EOS = range(4)

    def test_true_tokens_reach_the_next_position_and_no_later_one(self) -> None:
        assert changed_positions(small_gpt(4), [self.BOS, self.A, self.B], 1, self.EOS) == [1, 2]
        assert changed_positions(small_gpt(4), [self.BOS, self.A, self.B], 2, self.EOS) == [2]

    def test_a_distribution_reaches_no_hidden_state_of_the_same_pass(self) -> None:
        model: Any = small_gpt(4)
        kept: dict[str, tg.Tensor] = {}
        model.norm.register_forward_hook(lambda module, args, out: kept.update(h=out))
        logits = model([[self.BOS, self.A, self.B]])
        p = F.softmax(logits, -1)
        assert tg.grad(kept["h"][0, 1].square().sum(), p, allow_unused=True) == (None,)

    def test_another_distribution_leaves_the_next_logits_bit_equal(self) -> None:
        model = small_gpt(4, tied=False)
        ids = [[self.BOS, self.A, self.B]]
        before = array(model(ids))

        def other(module: Any, args: Any, out: tg.Tensor) -> tg.Tensor:
            z = array(out).copy()
            z[0, 0] = np.log([0.05, 0.1, 0.8, 0.05])
            return tg.tensor(z)

        with model.head.register_forward_hook(other):
            after = array(model(ids))
        assert (after[0, 0] != before[0, 0]).any()
        assert (after[0, 1:] == before[0, 1:]).all()

    def test_the_sampled_token_is_read_by_the_next_decode_step(self) -> None:
        model, found = small_gpt(4), []
        with tg.no_grad():
            for token in (self.A, self.B):
                cache = model.new_cache()
                model([[self.BOS]], cache=cache)
                found.append(model([[token]], cache=cache).numpy())
        assert np.abs(found[0] - found[1]).max() > 1e-4

    def test_each_loss_reaches_the_shared_weights_and_they_add_up(self) -> None:
        model = small_gpt(4).double()
        logits, labels = model([[self.BOS, self.A, self.B]])[0], [self.A, self.B, self.EOS]
        losses = [F.cross_entropy(logits[i : i + 1], tg.tensor([label])) for i, label in enumerate(labels)]
        block: Any = model.blocks[0]
        weight = block.attention.qkv.weight
        parts = [array(tg.grad(loss, weight, retain_graph=True)[0]) for loss in losses]
        assert all(np.abs(part).max() > 0 for part in parts)
        whole = F.cross_entropy(logits, tg.tensor(labels), reduction="sum")
        close(tg.grad(whole, weight)[0], sum(parts))


class TestUnit6AllPositionsAtOnce:
    def test_one_pass_is_every_prefix_and_every_decode_step(self) -> None:
        model, ids = small_gpt(20).double(), np.random.default_rng(0).integers(0, 20, (1, 12))
        with tg.no_grad():
            whole = model(ids).numpy()[0]
            for t in range(1, 13):
                close(model(ids[:, :t])[0, -1], whole[t - 1])
            cache = model.new_cache()
            close(model(ids[:, :8], cache=cache)[0], whole[:8])
            for t in range(8, 12):
                row = model(ids[:, t : t + 1], cache=cache)
                assert row.shape == (1, 1, 20)
                close(row[0, 0], whole[t])

    def test_four_pairs_and_what_predicts_c_cannot_read_eos(self) -> None:
        tokenizer, ids = texts("ABC")
        named = words(tokenizer, ids)
        assert list(itertools.pairwise(named)) == [("BOS", "A"), ("A", "B"), ("B", "C"), ("C", "EOS")]
        model, row, begin = small_gpt(len(tokenizer)), ids.tolist(), tokenizer.begin
        assert changed_positions(model, row, 4, begin) == [4]  # EOS
        assert changed_positions(model, row, 2, begin) == [2, 3, 4]  # B, where C is predicted

    def test_shapes_of_a_large_model(self) -> None:
        B, T, D, V = 8, 512, 1024, 32000
        labels = tg.zeros(B, T, dtype="int64")
        H = F.embedding(labels, tg.zeros(1, D))
        W = nn.Linear(D, 500, bias=False).weight.T  # a column block of the head's [1024, 32000], 1 of 64
        assert (labels.shape, H.shape, W.shape) == ((8, 512), (8, 512, 1024), (1024, V // 64))
        row = H[:1, :1] @ tg.zeros(D, V)  # all columns of one position
        assert (row.shape, (H[:, :8] @ W).shape) == ((1, 1, 32000), (8, 8, 500))


class TestUnit7OnePicture:
    def head(self, Y: tg.Tensor, X: tg.Tensor, W_Q: tg.Tensor, W_K: tg.Tensor, W_V: tg.Tensor) -> tg.Tensor:
        Q = Y @ W_Q
        K, V = X @ W_K, X @ W_V
        scores = Q @ K.T / Q.shape[-1] ** 0.5
        P = F.softmax(scores, -1)
        PV = P @ V
        return PV

    def picture(self, queries: int, keys: int, D: int, d: int) -> graph.Graph:
        W = [tg.randn(D, d, requires_grad=True) for _ in range(3)]
        axes = {"Y": "T D", "X": "S D"}
        two = (tg.randn(queries, D), tg.randn(keys, D))
        return graph.trace(lambda Y, X: self.head(Y, X, *W), *two, axes=axes, scaled=True, visibility="full")

    @pytest.mark.parametrize(("queries", "keys", "D", "d"), [(3, 5, 4, 4), (4, 7, 512, 64)])
    def test_shapes_and_the_verdict(self, queries: int, keys: int, D: int, d: int) -> None:
        picture = self.picture(queries, keys, D, d)
        shapes = named_shapes(picture)
        assert [shapes[name] for name in "QKV"] == [(queries, d), (keys, d), (keys, d)]
        assert [shapes[name] for name in ("scores", "P", "PV")] == [(queries, keys), (queries, keys), (queries, d)]
        assert ["cross-attention" in source for source in sources(picture)] == [True]

    def test_scale_of_the_exercise(self) -> None:
        picture = self.picture(4, 7, 512, 64)
        assert [c.text for c in picture.picture().checks if "scale" in c.text] == [
            "scores are scaled by 1/√64, as declared"
        ]
        assert 1 / 64**0.5 == 1 / 8

    def test_one_source_is_self_attention_and_two_are_not(self) -> None:
        W = [tg.randn(8, 4, requires_grad=True) for _ in range(3)]
        x, y = tg.randn(4, 8), tg.randn(4, 8)
        (alone,) = sources(graph.trace(lambda x: self.head(x, x, *W), x))
        (apart,) = sources(graph.trace(lambda y, x: self.head(y, x, *W), y, x))
        assert "self-attention" in alone
        assert "cross-attention" in apart

    def test_attentions_of_an_encoder_and_decoder(self) -> None:
        model = Seq2Seq(Seq2SeqConfig(vocab_size=11, block_size=8, layers=1, heads=2, width=16))
        said = sources(graph.trace(model, tg.tensor([[1, 2, 3]]), tg.tensor([[4, 5]])))
        assert [text.rpartition(": ")[2] for text in said] == ["self-attention", "self-attention", "cross-attention"]

    def test_queries_of_each_layer_differ(self) -> None:
        model, seen = small_gpt(11), []
        block: Any
        for block in model.blocks:
            block.attention.qkv.register_forward_hook(lambda module, args, out: seen.append(array(out)))
        model([[1, 2, 3]])
        model.blocks[1].load_state_dict(model.blocks[0].state_dict())
        model([[1, 2, 3]])
        for first, second in (seen[:2], seen[2:]):  # also with equal weights, as the inputs differ
            assert np.abs(first - second).max() > 1e-3


class TestUnit8Bigram:
    def test_pairs(self) -> None:
        tokenizer, ids = texts("zo", "zoo")
        named = words(tokenizer, ids)
        pairs = list(itertools.pairwise(named))
        assert pairs[1:-1] == [("z", "o"), ("o", "o")]
        assert (pairs[0], pairs[-1]) == (("BOS", "z"), ("o", "EOS"))

    def test_rows_are_logits_and_a_lookup_is_a_product(self) -> None:
        model = Bigram(BigramConfig(3))
        model.table.weight.data = tg.tensor([[2.0, 0, -1], [0, 1, 0], [-1, 0, 2]])
        assert model([[0]])[0, 0].tolist() == [2, 0, -1]
        assert (F.one_hot(tg.tensor([0]), 3).float() @ model.table.weight).tolist() == [[2, 0, -1]]
        close(F.softmax(model([[0]])[0, 0], -1).sum(), 1.0, 1e-6)
        assert model([[1, 0]])[0, -1].tolist() == model([[2, 0]])[0, -1].tolist()

    def test_abac_pulls_row_a_to_both_targets(self) -> None:
        tokenizer = data.CharTokenizer.of("ABAC")
        ids = tokenizer.encode("ABAC").astype(int)
        assert ids.tolist() == [0, 1, 0, 2]
        model = Bigram(BigramConfig(3))
        total, count = model.loss((ids[None, :-1], ids[None, 1:]))
        (d,) = tg.grad(total, model.table.weight)
        assert count == 3
        assert (array(d) < 0).tolist() == [[False, True, True], [True, False, False], [False, False, False]]
        assert not array(d)[2].any()

    def test_rows_become_the_frequencies_of_the_text(self) -> None:
        text = data.embedded_corpus()[:20_000]
        tokenizer = data.CharTokenizer.of(text)
        ids, V = tokenizer.encode(text).astype(int), len(tokenizer)
        counts = array(
            tg.zeros(V, V, dtype="float64").index_put((ids[:-1], ids[1:]), tg.tensor(1.0, dtype="float64"), True)
        )
        frequent = counts.sum(1) > 200
        frequencies = counts[frequent] / counts[frequent].sum(1, keepdims=True)
        model = Bigram(BigramConfig(V))
        optimizer = optim.AdamW(model.parameters(), lr=0.5, weight_decay=0.0)
        for _ in range(120):
            total, count = model.loss((ids[None, :-1], ids[None, 1:]))
            optimizer.zero_grad()
            (total / count).backward()
            optimizer.step()
        close(F.softmax(model.table.weight, -1)[tg.tensor(frequent)], frequencies, 0.02)


class TestUnit9ShiftAndLossPositions:
    def test_pairs(self) -> None:
        for text, pairs in (("ABC", "BOS→A A→B B→C C→EOS"), ("春风", "BOS→春 春→风 风→EOS")):
            tokenizer, ids = texts(text)
            x, y = data.Windows(ids, len(ids) - 1)[0]
            assert " ".join(map("→".join, zip(words(tokenizer, x), words(tokenizer, y)))) == pairs

    def test_begin_is_read_by_all_and_learned_by_none(self) -> None:
        tokenizer, ids = texts("ABCXY", "ABC", "XY")
        packed = data.isolated(data.Batch(ids[None, :-1], ids[None, 1:]), tokenizer.begin, tokenizer.end)
        assert words(tokenizer, packed.ids[0]) == ["BOS", "A", "B", "C", "EOS", "BOS", "X", "Y"]
        assert words(tokenizer, packed.labels[0]) == ["A", "B", "C", "EOS", "-", "X", "Y", "EOS"]
        model = small_gpt(len(tokenizer))
        assert changed_positions(model, ids[:5].tolist(), 0, tokenizer.end) == [0, 1, 2, 3, 4]

    def test_an_ignored_position_adds_no_loss_and_no_gradient(self) -> None:
        tokenizer, ids = texts("春风")
        model = small_gpt(len(tokenizer)).double()
        found = []
        for x, y in ((ids[:-1], ids[1:]), (ids, [*ids[1:], -100])):
            total, count = model.loss((x[None], np.array(y)[None]))
            found.append((count, total.item(), tg.grad(total, list(model.parameters()))))
        (n, a, da), (k, b, db) = found
        assert (n, a) == (k, pytest.approx(b, abs=1e-12))
        for one, other in zip(da, db, strict=True):
            close(one, other)

    @pytest.mark.parametrize(("causal", "shift"), [(True, True), (False, True), (True, False)])
    def test_shift_and_mask_belong_together(self, causal: bool, shift: bool) -> None:
        """On random tokens nothing can be learned: a loss under ln V comes from a leak or a copy."""
        V, T, D = 12, 8, 32
        token, position, block, head = nn.Embedding(V, D), nn.Embedding(T, D), Block(D, 2), nn.Linear(D, V)
        parameters = [p for m in (token, position, block, head) for p in m.parameters()]
        optimizer, rng, losses = optim.AdamW(parameters, lr=1e-2), np.random.default_rng(0), []
        for _ in range(150):
            ids = rng.integers(0, V, (32, T + 1))
            labels = ids[:, 1:] if shift else ids[:, :-1]
            logits = head(block(token(tg.tensor(ids[:, :-1])) + position.weight, causal=causal))
            loss = F.cross_entropy(logits.flatten(0, 1), tg.tensor(labels.ravel()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        last = np.mean(losses[-10:])
        if causal and shift:
            assert last > 0.97 * math.log(V)
        elif shift:  # the last position has nothing to copy from
            assert last < 1.5 / T * math.log(V)
        else:
            assert last < 0.1


class TestUnit10BertAndGpt:
    def seen(self, model: Any, T: int, *more: Any) -> list[set[int]]:
        """The positions that each position's logits have a gradient from."""
        kept: dict[str, tg.Tensor] = {}
        hook = lambda module, args, out: kept.update(x=out)  # noqa: E731
        token = getattr(model.double(), "encoder", model).token
        with token.register_forward_hook(hook):
            logits = model([list(range(1, T + 1))], *more)
        rows = []
        for t in range(T):
            weights = tg.tensor(np.random.default_rng(t).standard_normal(logits.shape[-1]))
            (d,) = tg.grad((logits[0, t] * weights).sum(), kept["x"], retain_graph=True)
            rows.append(set(np.flatnonzero(array(d)[0].any(-1)).tolist()))
        return rows

    def test_who_sees_whom(self) -> None:
        bert = BERT(BERTConfig(vocab_size=11, block_size=8, layers=2, heads=2, width=16)).eval()
        gpt = small_gpt(11, tied=False)
        full, causal = self.seen(bert, 4), self.seen(gpt, 4)
        assert (full[2], full[0]) == ({0, 1, 2, 3}, {0, 1, 2, 3})
        assert (causal[2], causal[0]) == ({0, 1, 2}, {0})
        assert [set(range(t + 1)) for t in range(4)] == causal
        padded = self.seen(bert, 4, None, [[1, 1, 1, 0]])
        assert padded[:3] == [{0, 1, 2}] * 3

    def test_one_block_and_two_masks(self) -> None:
        gpt, bert = small_gpt(11), BERT(BERTConfig(vocab_size=11, block_size=8, layers=1, heads=2, width=16))
        assert type(gpt.blocks[0]) is type(bert.encoder.blocks[0]) is Block

    def test_the_difference_of_the_two_pictures_names_the_mask(self) -> None:
        size: dict[str, Any] = {"vocab_size": 11, "block_size": 8, "layers": 1, "heads": 2, "width": 16}
        pictures = [
            graph.trace(model, tg.tensor([[1, 2, 3, 4]]))
            for model in (GPT(GPTConfig(**size)), BERT(BERTConfig(**size)))
        ]
        said = str(pictures[0].diff(pictures[1]))
        assert "visible: causal: k ≤ q, 10 of 16 visible → full: all 16 of 16 visible" in said

    def test_masked_tokens_alone_have_labels(self) -> None:
        tokenizer = data.make_tokenizer("char", ["the cat sat on the mat"], specials=data.MASKING)
        mask, ids = tokenizer.specials["[MASK]"], tokenizer.encode("the cat sat on the mat").astype(int)
        specials = tuple(tokenizer.specials.values())
        batch = data.Masking(len(tokenizer), mask, specials)([ids], seeds=[5])
        chosen = batch.labels[0] != -100
        assert 0 < chosen.sum() < len(ids)
        assert (batch.labels[0][chosen] == ids[chosen]).all()
        assert (batch.ids[0][~chosen] == ids[~chosen]).all()


class TestUnit11SmallestBackward:
    def test_a_linear_layer(self) -> None:
        kind: dict[str, Any] = {"dtype": "float64", "requires_grad": True}
        X, W, b = tg.randn(5, 3, **kind), tg.randn(3, 4, **kind), tg.randn(4, **kind)
        dY = tg.randn(5, 4, dtype="float64")
        dX, dW, db = tg.grad(((X @ W + b) * dY).sum(), (X, W, b))
        assert (dX.shape, dW.shape) == (X.shape, W.shape)
        for found, formula in ((dX, dY @ W.T), (dW, X.T @ dY), (db, dY.sum(0))):
            close(found, formula)

    def values(self, x: tg.Tensor, w: dict[str, tg.Tensor]) -> dict[str, tg.Tensor]:
        Q, K, V = x @ w["Q"], x @ w["K"], x @ w["V"]
        S = Q @ K.T / 2.0
        P = causal_softmax(S)
        PV = P @ V
        A = PV @ w["O"]
        H = A @ w["up"]
        G = F.gelu(H)
        return {"Q": Q, "K": K, "V": V, "S": S, "P": P, "PV": PV, "A": A, "H": H, "G": G, "Z": G @ w["down"]}

    def weights(self) -> dict[str, tg.Tensor]:
        shapes = {"Q": (8, 4), "K": (8, 4), "V": (8, 4), "O": (4, 8), "up": (8, 12), "down": (12, 8)}
        return {name: (tg.randn(*s, dtype="float64") / s[0] ** 0.5).requires_grad_() for name, s in shapes.items()}

    def by_formulas(self, v: dict[str, tg.Tensor], w: dict[str, tg.Tensor], dZ: tg.Tensor) -> dict[str, tg.Tensor]:
        H = v["H"].detach()
        slope = (1 + tg.erf(H / 2**0.5)) / 2 + H * (-H * H / 2).exp() / (2 * math.pi) ** 0.5
        d = {"G": dZ @ w["down"].T}
        d["H"] = d["G"] * slope
        d["A"] = d["H"] @ w["up"].T
        d["PV"] = d["A"] @ w["O"].T
        d["P"], d["V"] = d["PV"] @ v["V"].T, v["P"].T @ d["PV"]
        d["S"] = v["P"] * (d["P"] - (d["P"] * v["P"]).sum(-1, keepdim=True))
        d["Q"], d["K"] = d["S"] @ v["K"] / 2.0, d["S"].T @ v["Q"] / 2.0
        return d

    def test_each_formula_is_the_gradient(self) -> None:
        w, dZ = self.weights(), tg.randn(5, 8, dtype="float64")
        v = self.values(tg.randn(5, 8, dtype="float64"), w)
        formulas = self.by_formulas(v, w, dZ)
        found = tg.grad((v["Z"] * dZ).sum(), [v[name] for name in formulas])
        for name, gradient in zip(formulas, found, strict=True):
            close(gradient, formulas[name])
        wrong = array(formulas["P"] @ v["K"] / 2.0)
        right = array(formulas["Q"])
        assert np.linalg.norm(wrong - right) > 0.2 * np.linalg.norm(right)

    def test_finite_differences_agree(self) -> None:
        w = self.weights()
        assert gradcheck(lambda x: self.values(x, w)["Z"], tg.randn(5, 8, dtype="float64", requires_grad=True))

    def test_branches_run_backwards(self) -> None:
        W = tg.randn(3, 2, requires_grad=True)
        picture = graph.trace(lambda x: (x @ W).tanh(), tg.randn(4, 3, requires_grad=True))
        shapes = [tuple(branch.shape) for branch in picture.record.branches]
        assert shapes[0] == (4, 2)
        assert sorted(shapes[-2:]) == [(3, 2), (4, 3)]


class Synthesis(nn.Module):
    axes: ClassVar = {
        "ids": "T", "labels": "T", "token.weight": "V D", "W_Q": "D d", "W_K": "D d", "W_V": "D d", "W_O": "d D",
        "up.weight": "F D", "down.weight": "D F", "head.weight": "V D",
    }  # fmt: skip
    visibility, scaled = "causal", True

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(20, 8)
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(tg.randn(8, 4) / 8**0.5) for _ in range(3))
        self.W_O = nn.Parameter(tg.randn(4, 8) / 2)
        self.up, self.down, self.head = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 20)

    def logits(self, ids: tg.Tensor) -> tg.Tensor:
        X = self.token(ids)
        Q, K, V = X @ self.W_Q, X @ self.W_K, X @ self.W_V
        S = Q @ K.T / 4**0.5
        P = causal_softmax(S)
        PV = P @ V
        Z = self.head(self.down(F.gelu(self.up(PV @ self.W_O))))
        return Z

    def forward(self, ids: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
        return F.cross_entropy(self.logits(ids), labels)


class TestUnit12Synthesis:
    def pair(self) -> tuple[tg.Tensor, tg.Tensor]:
        _, ids = texts("AB")
        x, y = data.Windows(ids, 3)[0]
        return tg.tensor(x), tg.tensor(y)

    def test_shapes_and_the_check(self) -> None:
        picture = graph.trace(Synthesis(), *self.pair())
        shapes = named_shapes(picture)
        expected = {
            "X": (3, 8),
            "Q": (3, 4),
            "K": (3, 4),
            "V": (3, 4),
            "S": (3, 3),
            "P": (3, 3),
            "PV": (3, 4),
            "Z": (3, 20),
        }
        assert {name: shapes[name] for name in expected} == expected
        checks = picture.picture().checks
        assert {check.step for check in checks} == {1, 2, 3, 4}
        assert all(check.passed for check in checks)

    def test_position_1_reads_begin_and_a_and_predicts_b(self) -> None:
        tokenizer, ids = texts("AB")
        assert words(tokenizer, ids) == ["BOS", "A", "B", "EOS"]
        x, y = self.pair()
        assert (words(tokenizer, array(x)[:2]), words(tokenizer, array(y)[1:2])) == (["BOS", "A"], ["B"])
        model = Synthesis()
        found = []
        for changed in range(3):
            other = array(x).copy()
            other[changed] = 7
            found.append((array(model.logits(x))[1] != array(model.logits(tg.tensor(other)))[1]).any())
        assert found == [True, True, False]
