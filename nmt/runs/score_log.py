"""The scores of a run in TensorBoard, with its settings and the reliability diagrams of its confidences."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.evaluate.calibration import diagrams
from nmt.config.schema import Config, flatten
from nmt.data.files import report_write_errors
from nmt.data.checksums import read_json, write_json
from nmt.data.files import refuse_links
from nmt.view.tensorboard import TensorBoardLogger


def log_scores(folder: Path, config: Config, scores: Mapping[str, float], sets: Sequence[str]) -> None:
    """Write the scores to the log of the run `folder`, each once; raises UserError where a link leads elsewhere.

    scores: by name, such as test_bleu. sets: the test sets whose diagrams are drawn.
    """
    marker, logged = folder / "evaluate" / "tensorboard.json", {f"test/{name}": each for name, each in scores.items()}
    refuse_links(marker)
    if not sets or read_json(marker) == logged:
        return
    with report_write_errors(marker.parent):
        logger = TensorBoardLogger.for_scores(folder / "tensorboard")
        logger.hyperparameters(flatten(config), logged)
        for name, diagram in diagrams(marker.parent, sets):
            logger.figure(f"confidence/{name}", diagram, 0)
        logger.close()
        write_json(marker, logged)
