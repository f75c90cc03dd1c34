"""What is new in a batch in each epoch: the pieces that are sampled, and noise in the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from nmt.data.noise import Noise, NoisyPair, add_noise
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import Tokenizer, Tokenizers

Ids = np.ndarray  # int32, one sentence


@dataclass(frozen=True)
class Variation:
    """Subword sampling of strength `sampling` (0 = off) and noise; `longest`: most pieces of a source and a target."""

    tokenizers: Tokenizers
    sampling: float
    noise: Noise
    longest: tuple[int, int]

    def vary(
        self, texts: list[tuple[str, str]], stored: tuple[list[Ids], list[Ids]], seed: int
    ) -> tuple[list[Ids], list[Ids]]:
        """New pieces of some pairs, a pure function of the arguments; merged pairs are fewer.

        A sentence that gets longer than any of the corpus is replaced by the stored one: the model may have no
        embedding for later positions.
        """
        protected = self.tokenizers.protect_pairs(texts)
        pairs = [NoisyPair(source.text, target.text, [row], False) for row, (source, target) in enumerate(protected)]
        if self.noise:
            plain, marks = [(pair.source, pair.target) for pair in pairs], self.tokenizers.source.marks
            noisy = add_noise(plain, self.noise, marks, Random(seed + 2), self.tokenizers.source.tags)
            pairs = [part for pair in noisy for part in self.fitting(pair, pairs, stored)]
        clean = [[joined([ids[row] for row in pair.rows]) for pair in pairs] for ids in stored]
        sources = self.encode(self.tokenizers.source, [pair.source for pair in pairs], pairs, clean[0], seed)
        targets = self.encode(self.tokenizers.target, [pair.target for pair in pairs], pairs, clean[1], seed + 1)
        if self.noise:  # else each side by itself
            sides = zip(sources, targets, strict=True)
            too_long = [len(one) > self.longest[0] or len(other) > self.longest[1] for one, other in sides]
            sources, targets = (
                [old if long else new for old, new, long in zip(before, after, too_long, strict=True)]
                for before, after in ((clean[0], sources), (clean[1], targets))
            )
        return keep_within(self.longest[0], sources, clean[0]), keep_within(self.longest[1], targets, clean[1])

    def encode(
        self, tokenizer: Tokenizer, texts: list[str], pairs: list[NoisyPair], clean: list[Ids], seed: int
    ) -> list[Ids]:
        """One side of the pairs: sampled pieces, or the stored ones of what has not changed."""
        if self.sampling:
            return [np.asarray(ids) for ids in tokenizer.sample_all(texts, self.sampling, seed)]
        new = iter(tokenizer.encode_all([text for text, pair in zip(texts, pairs, strict=True) if pair.changed], 1))
        return [np.asarray(next(new)) if pair.changed else ids for pair, ids in zip(pairs, clean, strict=True)]

    def fitting(
        self, pair: NoisyPair, originals: Sequence[NoisyPair], stored: tuple[list[Ids], list[Ids]]
    ) -> list[NoisyPair]:
        """A merged pair, or its original pairs if it would be longer than any of the corpus."""
        sides = zip(stored, self.longest, strict=True)
        if all(sum(len(ids[row]) for row in pair.rows) <= limit for ids, limit in sides):
            return [pair]
        return [originals[row] for row in pair.rows]


def joined(rows: list[Ids]) -> Ids:
    """The ids of several sentences as one."""
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def with_spans(
    tokenizers: Tokenizers, texts: list[tuple[str, str]], sources: list[Ids], targets: list[Ids]
) -> tuple[list[Encoded], list[Encoded]]:
    """The ids of training pairs with what their placeholders stand for, so that their words can be counted."""
    pairs = tokenizers.protect_pairs(texts)
    return tuple(  # type: ignore[return-value]
        [
            Encoded(row.tolist(), pair[side].spans, pair[side].capitals, pair[side].apart)
            for row, pair in zip(ids, pairs, strict=True)
        ]
        for side, ids in enumerate((sources, targets))
    )


def keep_within(limit: int, new: list[Ids], stored: list[Ids]) -> list[Ids]:
    """The new sentences, but the stored one in place of each that has more than `limit` pieces."""
    return [ids if len(ids) <= limit else stored_ids for ids, stored_ids in zip(new, stored, strict=True)]
