"""Arrays in every layout, and how kernels are compared with float64 formulas and finite differences."""

import numpy as np

DTYPES = [np.float32, np.float64]
NEAR = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-12}
FORMS = ["contiguous", "transposed", "strided", "reversed"]
SHAPES = [(7,), (3, 5), (2, 3, 65), (4, 1, 33, 128), (1, 1), (3, 1), (0, 5), (2, 0, 3), (700, 97)]


def numbers(shape, dtype, seed=0, size=1.0, form="contiguous"):
    """Normal numbers, read-only, in the memory layout asked for."""
    drawn = (np.random.default_rng(seed).standard_normal(shape) * size).astype(dtype)
    if form == "transposed":
        drawn = np.ascontiguousarray(drawn.T).T
    elif form == "strided":
        wide = np.zeros((*drawn.shape[:-1], 2 * drawn.shape[-1]), dtype)
        wide[..., ::2] = drawn
        drawn = wide[..., ::2]
    elif form == "reversed":
        drawn = np.ascontiguousarray(drawn[::-1])[::-1]
    drawn.flags.writeable = False
    return drawn


def close(got, want, dtype, times=1.0):
    want = np.asarray(want)
    assert got.dtype == dtype
    assert got.shape == want.shape
    largest = np.abs(want).max() if want.size else 0.0
    np.testing.assert_allclose(got, want, rtol=0, atol=NEAR[np.dtype(dtype)] * times * max(1.0, largest))


def slope(function, x, g, step=1e-5):
    """Central differences of Σ g·function(x) by every element of x, in float64."""
    x = np.array(x, np.float64)
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        kept = x[at]
        x[at] = kept + step
        above = np.sum(function(x) * g)
        x[at] = kept - step
        below = np.sum(function(x) * g)
        x[at] = kept
        found[at] = (above - below) / (2 * step)
    return found


def agrees(got, function, x, g):
    """A gradient in float64 against central differences."""
    np.testing.assert_allclose(got, slope(function, x, g), rtol=1e-6, atol=1e-7)
