"""Pegasus: what `nmt export --format hf` writes of a pre-norm Transformer."""

from nmt.convert.pretrained.family import Family


class Pegasus(Family):
    label = "what `nmt export --format hf` wrote"
    norm = "pre"
    positions = "sinusoidal"
    has_learned_positions = True
