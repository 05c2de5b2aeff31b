"""The error function."""

from typing import Any

from cupyx.scipy import special


def erf(x: Any) -> Any:
    """The error function erf x = 2/√π ∫₀ˣ exp(−t²) dt; x, any shape, floating; result of the same shape and dtype."""
    return special.erf(x).astype(x.dtype, copy=False)  # CuPy widens float16
