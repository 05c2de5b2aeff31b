"""A tokenizer.json written here is read by transformers to the same ids, and its templates mean the same."""

from pathlib import Path

import pytest

from tinygrad_edu.data import END_OF_TEXT, MASKING, make_tokenizer

transformers = pytest.importorskip("transformers")

TEXT = "the quick brown fox jumps over the lazy dog.\r\n\tNaïve 你好 🙂 isn't it? " * 20


@pytest.mark.parametrize("specials", [(), (END_OF_TEXT,), MASKING], ids=["plain", "documents", "masking"])
@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_transformers_read_our_file(kind: str, specials: tuple[str, ...], tmp_path: Path) -> None:
    ours = make_tokenizer(kind, [TEXT], 400, specials)
    ours.save(tmp_path / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert len(theirs) == len(ours)
    assert theirs.encode(TEXT, add_special_tokens=False) == ours.encode(TEXT).tolist()
    framed = [*([ours.begin] if specials else []), *ours.encode(TEXT), *([ours.end] if specials else [])]
    assert theirs.encode(TEXT) == framed
    assert theirs.decode(ours.encode(TEXT), clean_up_tokenization_spaces=False) == ours.decode(ours.encode(TEXT))
