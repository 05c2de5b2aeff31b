"""The writer of `tinygrad_edu.files` by the name that earlier programs import it from."""

from tinygrad_edu.files import write_atomically

__all__ = ["write_atomically"]
