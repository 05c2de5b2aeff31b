"""What decides a training run besides the shape of the model."""

import dataclasses
import math

from tinygrad_edu.data import DOCUMENTS

PAIRS = "pairs"
_LARGEST = 3.4e38  # in float32, in which the weights are


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Options of a run; raises ValueError for the first one that is out of range."""

    data: str = ""
    """UTF-8 text file to train on, or what tools.prepare made of one. Without: the documentation inside every Python,
    about 465,000 characters."""

    tokenizer: str = "char"
    """char, byte, bpe, wordpiece, or a tokenizer.json: a run's or Hugging Face's."""

    vocab_size: int = 1000
    """Tokens that bpe and wordpiece learn from the text."""

    lines: bool = False
    """Each line of the text is a document: the newline bounds it, also before the first line and behind the last."""

    documents: str = ""
    """The text is documents that see nothing of each other, each between a begin and an end token: lines, paragraphs
    (parted by blank lines), jsonl (a JSON object a line, the text in its field "text"), or pairs (fields "prompt" and
    "answer"). Without: one stretch of text."""

    answer_only: bool = True
    """With pairs: learn the answers alone, not the prompts."""

    steps: int = 1000
    """Updates of the weights in the whole run; the learning rate's schedule ends with the last."""

    batch_size: int = 12
    """Windows in a batch: B."""

    block_size: int = 64
    """Positions in a window, the longest context the model learns to use: T."""

    accumulation: int = 1
    """Batches that go into one update, weighted by their tokens; more of them act as a larger batch in less memory."""

    optimizer: str = "adamw"
    """adamw for all weights, or muon for the matrices of the blocks beside adamw for the rest: fewer steps, each a
    little longer."""

    lr: float = 1e-3
    """Peak learning rate of AdamW, reached after the warm-up."""

    muon_lr: float = 0.02
    """Peak learning rate of Muon: about the length of a step, as its updates are orthogonal matrices."""

    momentum: tuple[float, float] = (0.85, 0.95)
    """Muon: how slowly the mean of the gradients forgets, at first and after 300 steps."""

    min_lr: float = 1e-4
    """Learning rate at the end of the schedule; never above the peak."""

    schedule: str = "cosine"
    """How the learning rate falls: cosine, from the warm-up on, or linear, at the end of the run."""

    decay: float = 0.7
    """Linear: share of the steps in which it falls; before, it stays at its peak."""

    warmup: int = 100
    """Steps in which the learning rate rises in a line to its peak; never more than half of all steps."""

    betas: tuple[float, float] = (0.9, 0.99)
    """AdamW: how slowly the means of the gradients and of their squares forget."""

    weight_decay: float = 0.1
    """AdamW: share of a weight, times the learning rate, that a step takes away; not from tensors with one axis."""

    clip: float = 1.0
    """Largest norm of all gradients together; longer ones are scaled down to it. 0 leaves them alone."""

    val_fraction: float = 0.1
    """Share of the text, at its end, that is kept for validation. 0: trained and measured on the whole text."""

    eval_every: int = 250
    """Steps between two measurements on the whole validation part; one is always made at the end. 0: only that."""

    log_every: int = 10
    """Steps between two lines in metrics.jsonl."""

    save_every: int = 0
    """Steps between two checkpoints; one is always written at the end. 0: with each validation."""

    keep_best: bool = False
    """Also keep the weights with the lowest validation loss, in the folder `best` inside that of the run."""

    tensorboard: bool = False
    """Also write the metrics as events for TensorBoard, into the folder `tensorboard` inside that of the run."""

    patience: int = 0
    """Stop after this many validations in a row without a new best. 0: never."""

    seed: int = 0
    """Start of all random numbers. One stream draws initial weights and dropout, another one the order of the data and
    what is masked or rendered, so that neither changes with how much the other draws."""

    threads: int = 0
    """Threads that share a batch. 0: one for each core."""

    def __post_init__(self) -> None:
        for name in ("betas", "momentum"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON gives a list back
        for name in ("steps", "batch_size", "block_size", "vocab_size", "accumulation", "log_every"):
            self._check(name, getattr(self, name) >= 1, "must be 1 or more")
        for name in ("warmup", "eval_every", "save_every", "patience", "seed", "threads"):
            self._check(name, getattr(self, name) >= 0, "must be 0 or more")
        for name in ("lr", "muon_lr", "min_lr"):
            self._check(name, 0 <= getattr(self, name) <= _LARGEST, f"must lie in [0, {_LARGEST:g}]")
        for name in ("weight_decay", "clip"):
            self._check(name, 0 <= getattr(self, name) < math.inf, "must be 0 or more, and finite")
        for name in ("betas", "momentum"):
            right = len(getattr(self, name)) == 2 and all(0 <= beta < 1 for beta in getattr(self, name))
            self._check(name, right, "must be two numbers from 0 to below 1")
        self._check("optimizer", self.optimizer in ("adamw", "muon"), "must be adamw or muon")
        self._check("schedule", self.schedule in ("cosine", "linear"), "must be cosine or linear")
        self._check("decay", 0 <= self.decay <= 1, "must lie in [0, 1]")
        self._check("val_fraction", 0 <= self.val_fraction < 1, "must be at least 0 and below 1")
        kinds = ("", *DOCUMENTS, PAIRS)
        self._check("documents", self.documents in kinds, f"must be one of {', '.join(kinds[1:])}, or empty")
        self._check("documents", not (self.documents and self.lines), "does not go together with lines")

    def _check(self, name: str, right: bool, rule: str) -> None:
        if not right:
            raise ValueError(f"{name} is {getattr(self, name)}; it {rule}")
