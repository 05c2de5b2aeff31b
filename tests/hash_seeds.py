"""What a program prints under several hash seeds, which a set or a dict by hash would let differ."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def printed(program: str) -> set[str]:
    """The different outputs of two hash seeds, one of them tried twice."""
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "2")
    }
