"""The loss of a run as a picture."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

from tinygrad_edu.files import write_atomically
from tinygrad_edu.training import Metrics


def plot_losses(metrics: Sequence[Metrics], folder: str | os.PathLike[str]) -> list[Path]:
    """Draw training loss, its moving average and validation loss over the steps into loss.png and loss.svg in `folder`;
    the files' paths.

    Equal metrics give equal files. Raises OSError where the folder takes no more.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "loss", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.plot([m.step for m in metrics], [m.train_loss for m in metrics], color="#b6c0cc", label="training")
        smoothed = [(m.step, m.smoothed_loss) for m in metrics if m.smoothed_loss is not None]
        if smoothed:
            axes.plot(*zip(*smoothed, strict=True), color="#334155", label="training, smoothed")
        measured = [(m.step, m.val_loss) for m in metrics if m.val_loss is not None]
        if measured:
            steps, losses = zip(*measured, strict=True)
            axes.plot(steps, losses, color="#c2410c", marker="o", markersize=4, label="validation")
            axes.annotate(
                f"{losses[-1]:.3f}", (steps[-1], losses[-1]), xytext=(0, 8), textcoords="offset points", ha="right"
            )
        axes.set_xlabel("step")
        axes.set_ylabel("loss, nats per token")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        written = []
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=150, metadata=metadata)
            written.append(Path(folder) / f"loss.{kind}")
            write_atomically(written[-1], content.getvalue(), follow=False)
    return written
