"""nmt: train a translator from your own sentence pairs, and see where its attention looked."""

import os

# Idle OpenMP threads that spin for ever collapse on shared cores; those that sleep at once wake up late and cost a
# quarter of the speed. So: spin for a short while, then sleep. This must be set before torch is imported, and a
# person's own setting wins.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")  # turns; GNU's OpenMP
    os.environ.setdefault("KMP_BLOCKTIME", "1")  # milliseconds; LLVM's and Intel's

__version__ = "0.1.0"
