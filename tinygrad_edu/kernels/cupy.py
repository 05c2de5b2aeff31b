"""Kernels for CuPy arrays: erf so far; the fused ops run as their definitions there."""

from cupyx.scipy.special import erf

__all__ = ["erf"]
