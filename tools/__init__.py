"""Programs a person runs: python -m tools.NAME."""
