"""Write the phrasebook anew: python -m generator, in data/phrasebook (`make phrasebook`)."""

import argparse
import sys
from pathlib import Path

from generator.splits import PAIRS, SEED, write_edition
from generator.tables import PhrasebookError

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m generator", description=__doc__)
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, help="training pairs (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parents[1],
        help="folder (default: %(default)s)",
    )
    options = parser.parse_args()
    try:
        write_edition(options.output, options.pairs, options.seed)
    except PhrasebookError as error:
        sys.exit(str(error))
