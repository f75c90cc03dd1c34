"""Batches of word pairs, which take the place of some batches of the corpus (train.noise_words)."""

from functools import cached_property

import numpy as np

from nmt.data.dataset import ParallelDataset
from nmt.data.plan import plan_batches


class WordBatches:
    """The word pairs in batches of one length; `share`: the probability that one replaces a batch of the corpus."""

    def __init__(self, pairs: ParallelDataset, share: float, budget: int, seed: int) -> None:
        self.pairs, self.share, self.budget, self.seed = pairs, share, budget, seed

    @cached_property
    def batches(self) -> list[np.ndarray]:
        """The rows of each batch."""
        return list(plan_batches(self.pairs.source_lengths, self.pairs.target_lengths, self.budget, self.seed, 0))

    @cached_property
    def probabilities(self) -> np.ndarray:
        """That of each batch: every pair is equally likely."""
        sizes = np.array([len(rows) for rows in self.batches])
        return sizes / sizes.sum()

    def draw(self, generator: np.random.Generator) -> np.ndarray | None:
        """The rows of a batch, or None where the batch of the corpus stays."""
        if generator.random() >= self.share:
            return None
        return self.batches[int(generator.choice(len(self.batches), p=self.probabilities))]
