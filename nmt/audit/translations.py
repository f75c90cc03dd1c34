"""Pairs whose sides a model finds no more probable together than pairs put together at random.

A model of the corpus's direction gives the cross-entropy of a target y given its source x, per
piece and </s>,

    H(y | x) = −log p(y | x) / (T + 1),

and that given a stranger, the source of another pair; H'(y) is the mean over two strangers. What
the own source tells of y is

    gain = 1 − H(y | x) / H'(y),

which is near 0 where y does not translate x, however rare its words are. With a model of the other
direction as well, H and H' are the means of both, as in dual conditional cross-entropy filtering
(Junczys-Dowmunt 2018). Deviation: that compares H(y | x) itself, which is large for correct pairs
of another field, too.

The threshold is learned from a sample, without labels. The gain of a random pair is that of one
stranger over two others. Half of the random gains are below their median m, and hardly any of
correct pairs. So of all pairs a share π = 2 P(gain ≤ m) is random. A random pair that stays is as
bad as c = 3 correct pairs that go, so the threshold t maximises

    (1 + c) π P(random gain ≤ t) − P(gain ≤ t).

A target that only repeats its source tells all of it. It is improbable where the model of the
corpus's direction writes something else, which it finds more probable per piece.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.corpus.checks import Pair
from nmt.corpus.checksums import read_json, text_digest, write_json
from nmt.corpus.filtering import hash_letters
from nmt.corpus.inspect.misaligned_blocks import MIN_PAIRS
from nmt.decode.pair_scores import score_pairs
from nmt.errors import UserError
from nmt.runs.run import Run
from nmt.view.progress import Progress

IMPROBABLE = "improbable translation"
CHECKED = 2000  # pairs of a chunk, the strangers of each other
SAMPLE_PAIRS = 4000  # training pairs, evenly spread, from which the threshold is learned
COST = 3  # c: of a random pair that stays, in correct pairs that go
STRANGERS = 2  # against one, a pair is judged less reliably
MOST_TRIED = 20  # neighbours in the order of length that may be strangers


@dataclass
class TranslationCheck:
    """Judges chunks of pairs; `parts` is a folder that keeps the gains of chunks that are done."""

    forward: Run | None
    backward: Run | None
    parts: Path
    threshold: float = -math.inf  # the largest gain of an improbable pair

    def learn(self, pairs: Sequence[Pair]) -> None:
        """Set the threshold by a sample of the training pairs; raises UserError if it is small."""
        if len(pairs) < MIN_PAIRS:
            raise UserError(
                f"--forward and --backward need {MIN_PAIRS} training pairs or more; there are "
                f"{len(pairs)}."
            )
        gains = []
        with Progress(len(pairs), "pair", "translations of a sample") as bar:
            for start in range(0, len(pairs), CHECKED):
                chunk = pairs[start : start + CHECKED]
                gains.append(self.gains(chunk, random=True))
                bar.update(len(chunk))
        self.threshold = threshold(*np.concatenate(gains, axis=1))

    def judge(self, pairs: Sequence[Pair]) -> tuple[list[int], int]:
        """The rows of improbable pairs, and the number of pairs that cannot be judged."""
        gains = self.gains(pairs)[0]
        rows = {*np.flatnonzero(gains <= self.threshold).tolist(), *self.untranslated(pairs)}
        return sorted(rows), int(np.isnan(gains).sum())

    def untranslated(self, pairs: Sequence[Pair]) -> list[int]:
        """The rows of pairs with the same letters on both sides that the model would translate."""
        if self.forward is None:
            return []
        rows = []
        for row, (source, target) in enumerate(pairs):
            if hash_letters(source) and hash_letters(source) == hash_letters(target):
                rows.append(row)
        if not rows:
            return []
        sources = [as_unicode(pairs[row][0]) for row in rows]
        copies = cross_entropies(self.forward, list(zip(sources, sources, strict=True)))
        translations = self.forward.with_beam(1).translator.translate(sources)
        found = []
        for row, source, copy, translation in zip(rows, sources, copies, translations, strict=True):
            is_other = hash_letters(translation.text) != hash_letters(source)
            of_pieces = translation.searched
            if is_other and of_pieces and -sum(of_pieces) / len(of_pieces) < copy:
                found.append(row)
        return found

    def gains(self, pairs: Sequence[Pair], random: bool = False) -> np.ndarray:
        """[1 N]: the gain of each pair; [2 N] with those of random pairs. From `parts` if there.

        NaN where a side is blank or too long for a model, or there are too few strangers.
        """
        pairs = [(as_unicode(source), as_unicode(target)) for source, target in pairs]
        text = "\0".join("\t".join(pair) for pair in pairs)
        digest = text_digest(text)[:16]
        path = self.parts / f"{digest}-{1 + random}.json"
        kept = read_json(path)
        if kept is None:
            entropies = self.cross_entropies(pairs, STRANGERS + random)
            values = []
            for first in range(1 + random):
                of_strangers = entropies[first + 1 : first + 1 + STRANGERS].mean(axis=0)
                values.append((1 - entropies[first] / of_strangers).tolist())
            kept = {"gains": values}
            self.parts.mkdir(parents=True, exist_ok=True)
            write_json(path, kept)
        return np.array(kept["gains"])

    def cross_entropies(self, pairs: Sequence[Pair], count: int) -> np.ndarray:
        """[1 + count N], in nats: with the own source, then with the sources of strangers."""
        exchanged = [(target, source) for source, target in pairs]
        others = strangers(pairs, count)  # [count N]
        of_models = []
        for run, sides in ((self.forward, pairs), (self.backward, exchanged)):
            if run is None:
                continue
            entropies = [cross_entropies(run, sides)]
            for rows in others:
                alien = [(sides[row][0], side[1]) for row, side in zip(rows, sides, strict=True)]
                entropies.append(cross_entropies(run, alien))
            of_models.append(entropies)
        result: np.ndarray = np.mean(of_models, axis=0)
        is_blank = np.array([not (source.strip() and target.strip()) for source, target in pairs])
        is_known = ~is_blank & (others != np.arange(len(pairs))).all(axis=0)
        return np.where(is_known, result, np.nan)


def threshold(gains: np.ndarray, random_gains: np.ndarray) -> float:
    """The t with the largest (1 + c) π P(random gain ≤ t) − P(gain ≤ t); −∞ if none is above 0."""
    gains = np.sort(gains[~np.isnan(gains)])
    random_gains = np.sort(random_gains[~np.isnan(random_gains)])
    if not len(gains) or not len(random_gains):
        return -math.inf
    random_share = min(1.0, 2 * float(np.mean(gains <= np.median(random_gains))))
    below = np.arange(1, len(gains) + 1) / len(gains)
    random_below = np.searchsorted(random_gains, gains, side="right") / len(random_gains)
    benefit = (1 + COST) * random_share * random_below - below
    best = int(benefit.argmax())
    return float(gains[best]) if benefit[best] > 0 else -math.inf


def cross_entropies(run: Run, pairs: Sequence[Pair]) -> np.ndarray:
    """−log p of each target by its pieces and </s>, in nats; NaN for a pair that is too long."""
    values = []
    for score in score_pairs(run.translator, pairs):
        of_pieces = [math.nan] if score is None else score.log_probabilities
        values.append(-sum(of_pieces) / len(of_pieces))
    return np.array(values)


def strangers(pairs: Sequence[Pair], count: int) -> np.ndarray:
    """[count N]: for each pair, others whose sides have other letters than its and each other's.

    They are the next ones in the order of the sources' lengths, of at most MOST_TRIED; where there
    are too few, the pair itself.
    """
    letters = [tuple(map(hash_letters, pair)) for pair in pairs]
    order = sorted(range(len(pairs)), key=lambda row: len(pairs[row][0]))
    result = np.tile(np.arange(len(pairs)), (count, 1))
    for position, row in enumerate(order):
        seen = [letters[row]]
        for step in range(1, min(MOST_TRIED, len(pairs) - 1) + 1):
            if len(seen) > count:
                break
            other = order[(position + step) % len(order)]
            sides = zip(letters[other], *seen, strict=True)
            if all(own not in taken for own, *taken in sides):
                result[len(seen) - 1, row] = other
                seen.append(letters[other])
    return result


def as_unicode(text: str) -> str:
    """The text with a ? for each lone surrogate, which stands for a byte that is not UTF-8."""
    return text.encode(errors="replace").decode()
