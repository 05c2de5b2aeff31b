"""What the run on the GPU found, for the end of the log."""

lines: list[str] = []
