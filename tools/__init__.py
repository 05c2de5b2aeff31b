"""Programs a person runs: python -m tools.NAME."""

import os
import signal
import sys
from typing import Any


def _leave(number: int, frame: Any) -> None:
    name = sys.orig_argv[sys.orig_argv.index("-m") + 1].rpartition(".")[2]
    os.write(2, f"{name}: stopped before it began\n".encode())
    os._exit(128 + number)


# Importing what a tool needs takes most of a second; Ctrl-C in it shall leave no trace of imports. `tools.cli.run`
# puts the usual handler back. While Python looks for a module to run, "-m" stands in place of the program's name.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _leave)
