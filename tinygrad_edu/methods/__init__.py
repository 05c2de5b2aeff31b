"""The methods of Tensor, by what they do; each checks its arguments and applies ops."""
