"""Image to text: what patches and tokens read of each other, answers with a cache, and the lines that are rendered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from models.ocr import OCR, OCRConfig
from tinygrad_edu.data import END_OF_TEXT, make_tokenizer
from tinygrad_edu.data.rendered import PROMPT, RenderedSource, held_out, lines, render
from tinygrad_edu.generation import beam_search, generate
from tinygrad_edu.random import Generator

TEXT = "the quick brown fox jumps over a lazy dog"


def ocr(**options: Any) -> OCR:
    tg.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": 7, "block_size": 9, "heads": 2, "width": 16, "layers": 2, **options}
    model = OCR(OCRConfig(height=4, length=12, patch=3, **shape)).to(tg.float64)
    with tg.no_grad():
        for p in model.parameters():
            p.mul_(5.0)
    return model.eval()


def images(count: int) -> np.ndarray:
    return np.random.default_rng(0).random((count, 4, 12))


class TestModel:
    def test_tokens_read_the_whole_image_and_what_is_before_them(self) -> None:
        model, seen = ocr(), images(1)
        logits = model([[1, 2, 3]], seen).detach().numpy()
        np.testing.assert_allclose(model([[1, 2, 6]], seen).detach().numpy()[0, :2], logits[0, :2], atol=1e-12)
        for patch in range(4):
            changed = seen.copy()
            changed[:, :, 3 * patch] += 1
            assert np.abs(model([[1, 2, 3]], changed).detach().numpy() - logits).min(axis=-1).max() > 1e-4

    def test_patches_read_nothing_of_the_text(self) -> None:
        model, kept = ocr(), []
        model.blocks[-1].register_forward_hook(lambda _, __, out: kept.append(out.detach().numpy()))
        for ids in ([[1, 2]], [[3, 4]]):
            model(ids, images(1))
        np.testing.assert_allclose(kept[0][:, :4], kept[1][:, :4], atol=1e-12)
        assert np.abs(kept[0][:, 4:] - kept[1][:, 4:]).max() > 1e-3

    def test_a_patch_is_columns_of_the_image(self) -> None:
        model, seen = ocr(), images(2)
        with tg.no_grad():
            model.patch_position.weight.zero_()
            model.patch.bias.fill_(0.0)  # type: ignore[union-attr]
            found = model.see(seen, 2).numpy()
        for at in range(4):
            column = seen[:, :, 3 * at : 3 * at + 3].reshape(2, -1)
            np.testing.assert_allclose(found[:, at], column @ model.patch.weight.detach().numpy().T, atol=1e-12)

    def test_every_parameter_learns(self) -> None:
        model = ocr()
        total, count = model.loss((np.array([[1, 2, 3]]), np.array([[-100, 3, 4]]), images(1)))
        assert count == 2
        total.backward()
        for name, p in model.named_parameters():
            assert p.grad is not None, name
            assert np.abs(p.grad.numpy()).max() > 0, name

    def test_what_it_refuses(self) -> None:
        with pytest.raises(ValueError, match=r"images have shape \(1, 4, 12\), but \(2, 4, 12\)"):
            ocr()([[1], [2]], images(1))
        with pytest.raises(ValueError, match="images have shape None"):
            ocr()([[1]])
        with pytest.raises(ValueError, match="10 ids in a row"):
            ocr()([[1] * 10], images(1))
        with pytest.raises(ValueError, match="not a multiple of patch"):
            OCRConfig(vocab_size=3, length=10, patch=4)


class TestReading:
    def test_with_a_cache_as_without(self) -> None:
        model, seen = ocr(), images(2)
        drawn = generate(model.reading(seen), [[1, 2], [1, 3]], 7, temperature=0)
        with tg.no_grad():
            for at in range(2, 9):
                assert drawn[:, at].tolist() == model(drawn[:, :at], seen).numpy()[:, -1].argmax(axis=-1).tolist()
            cache = model.new_cache()
            parts = [model(drawn[:, a:b], seen, cache).numpy() for a, b in ((0, 2), (2, 3), (3, 9))]
            whole = model(drawn, seen).numpy()
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-12)

    def test_beams_share_an_image(self) -> None:
        found = beam_search(ocr().reading(images(1)), [1], 4, 3, stop=2)
        assert len(found) == 3
        assert found[0].score >= found[1].score >= found[2].score


class TestLines:
    def test_what_is_measured_is_trained_on_nowhere(self) -> None:
        trained, measured = list(lines(TEXT, 300)), list(lines(TEXT, 40, measured=True, seed=5))
        assert len(set(trained)) == 300
        assert not set(trained) & set(measured)
        assert all(map(held_out, measured))
        assert len(list(lines("", 20))) == 20  # of numbers alone

    def test_ink_is_where_the_text_is(self) -> None:
        upright, leaning, moved = render("fox"), render("fox", slant=0.25), render("fox", x=20, y=1)
        assert upright.shape == (16, 128)
        assert upright.max() > 250
        assert not upright[:, 50:].any()
        assert not moved[:, :20].any()
        assert not np.array_equal(upright, leaning)

    def source(self) -> RenderedSource:
        tokenizer = make_tokenizer("char", [PROMPT + TEXT + "0123456789"], 0, (END_OF_TEXT,))
        return RenderedSource(list(lines(TEXT, 10)), list(lines(TEXT, 3, measured=True)), tokenizer, 40)

    def test_only_the_text_is_labelled(self) -> None:
        source = self.source()
        (batch,) = source.held_out(3)
        for line, ids, labels in zip(source.validation, batch.ids, batch.labels, strict=True):
            n = len(PROMPT)
            assert source.tokenizer.decode(ids[: n + len(line)]) == PROMPT + line
            assert (labels[: n - 1] == -100).all()
            assert labels[n - 1 : n + len(line)].tolist() == [*source.tokenizer.encode(line), source.end]
            assert (labels[n + len(line) :] == -100).all()
        assert batch.images.shape == (3, 16, 128)

    def test_every_drawing_is_another_and_the_same_again(self) -> None:
        one, other = self.source(), self.source()
        first = one.draw(10, Generator(1))
        second = one.draw(10, Generator(1))
        assert sorted(map(str, first.ids.tolist())) == sorted(map(str, second.ids.tolist()))
        pictures = {image.tobytes() for batch in (first, second) for image in batch.images}
        assert len(pictures) == 20
        other.load_state({"epoch": 1, "position": 0})
        np.testing.assert_array_equal(other.draw(10, Generator(1)).images, second.images)

    def test_measuring_is_always_the_same(self) -> None:
        source = self.source()
        whole, parts = list(source.held_out(3)), list(source.held_out(2))
        np.testing.assert_array_equal(whole[0].images, np.concatenate([b.images for b in parts]))
