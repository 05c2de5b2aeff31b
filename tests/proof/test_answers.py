"""Models that answer whole texts do so right: dates and numbers written out to digits, lines of text on images."""

from typing import Any

import numpy as np
import pytest

from tinygrad_edu.parallel import Shards
from tinygrad_edu.training import Trainer
from tinygrad_edu.training.answers import character_error_rate, exact_match
from tools import train
from tools.evaluate import answered


def trained(model: str, whole: bool) -> tuple[list[float], Trainer, list[str], list[str]]:
    """Losses of all steps, the trainer, the right answers to all that is held out, and the model's.

    In the short form of the proof a small model takes few steps and answers a tenth.
    """
    options = [model, *([] if whole else ["--preset", "tiny"]), "--eval-every", "0"]
    trainer, tokenizer = train.build(train.understand(options))
    source: Any = trainer.data
    if not whole:
        source.validation = source.validation[:100]
    with Shards() as shards:
        trainer.backward, trainer.threads = shards.backward, shards.n
        losses = [report.loss for report in trainer]
        right, found = answered(trainer.model, source, tokenizer)
    return losses, trainer, right, found


def check_learning(losses: list[float], trainer: Trainer, right: list[str], found: list[str]) -> None:
    """That the loss falls, and that every answer was given and can be measured."""
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    assert trainer.best.loss is not None
    source: Any = trainer.data
    assert len(right) == len(found) == len(source.validation)
    assert 0 <= exact_match(right, found) <= 1
    assert exact_match(right, right) == 1
    assert character_error_rate(right, found) >= 0
    assert character_error_rate(right, right) == 0


def test_the_encoder_decoder_writes_dates_and_numbers_it_has_never_read(
    whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole: 99 of 100 answers are right to the last character. What is asked occurs in no pair trained on."""
    losses, trainer, right, found = trained("seq2seq", whole)
    check_learning(losses, trainer, right, found)
    source: Any = trainer.data
    known = {target.tobytes() for _, target in source.training}
    assert not known & {target.tobytes() for _, target in source.validation}
    share, errors = exact_match(right, found), character_error_rate(right, found)
    with capsys.disabled():
        print(
            f"\nseq2seq after {len(losses)} steps, {trainer.seconds:.0f} s: {share:.4f} of {len(right)} answers right"
        )
        print(f"{errors:.4f} character errors a character")
    if whole:
        assert share >= 0.99


def test_the_image_reader_reads_lines_it_has_never_seen(whole: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole: 2 character errors in 100 at most. What stands on the images is no line trained on."""
    losses, trainer, right, found = trained("ocr", whole)
    check_learning(losses, trainer, right, found)
    source: Any = trainer.data
    assert not {*source.training} & {*source.validation}
    errors = character_error_rate(right, found)
    with capsys.disabled():
        print(f"\nocr after {len(losses)} steps, {trainer.seconds:.0f} s: {errors:.4f} character errors a character")
        print(f"{exact_match(right, found):.4f} of {len(right)} lines right")
    if whole:
        assert errors <= 0.02
