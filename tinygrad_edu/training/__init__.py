"""Training: the loop, its options, measuring, and the files of a run."""

from tinygrad_edu.training.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from tinygrad_edu.training.config import PAIRS, TrainConfig
from tinygrad_edu.training.evaluation import Evaluation, accuracy, evaluate
from tinygrad_edu.training.exposure import Exposure, exposure_bias
from tinygrad_edu.training.metrics import Best, Metrics, MetricsFile, read_metrics
from tinygrad_edu.training.trainer import Report, Trainer, TrainingError, weights_of

__all__ = [
    "PAIRS",
    "Best",
    "Checkpoint",
    "CheckpointError",
    "Evaluation",
    "Exposure",
    "Metrics",
    "MetricsFile",
    "Report",
    "TrainConfig",
    "Trainer",
    "TrainingError",
    "accuracy",
    "evaluate",
    "exposure_bias",
    "load_checkpoint",
    "read_metrics",
    "save_checkpoint",
    "weights_of",
]
