"""Short descriptions of a system's attention and architecture for the cells of a table."""

from nmt.compare.systems import System

NONE = "–"


def attention_labels(system: System) -> list[str]:
    """When it attends (of a Transformer: layers and heads), score and window of a system's attention."""
    if len(system.paths) > 1:
        return [f"ensemble of {len(system.paths)}", NONE, NONE]
    return system.config.model.attention_labels()


def architecture_labels(system: System) -> list[str]:
    """Architecture, number of layers and hidden size of a system; dashes for an ensemble."""
    return [NONE] * 3 if len(system.paths) > 1 else system.config.model.architecture_labels()
