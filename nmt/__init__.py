"""nmt: train a translator from your own sentence pairs, and see where its attention looked."""

import os

# Idle OpenMP threads that spin collapse on shared cores; this must be set before torch is imported,
# and a person's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
