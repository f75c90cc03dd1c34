"""Text in, text out, in order, without holding more of it than a window.

L layers, H heads, S source pieces, T target pieces.
"""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from nmt.config import DecodeConfig
from nmt.data.batches import Ids, collate, in_order, mask, pad
from nmt.data.tokenizer import EOS, Tokenizers
from nmt.decode.attention_record import AttentionRecord, IdPair, look_batches, windows
from nmt.decode.beam_search import Hypothesis, force_decode, search
from nmt.decode.parallel import shared
from nmt.evaluate.words import SPACELESS
from nmt.models.base import EncoderDecoder

log = logging.getLogger("nmt")
WINDOW = 2000  # sentences that are sorted by length and translated together
Answer = list[list[Hypothesis]]  # the n best of each sentence of a batch
SENTENCE_ENDS = "。！？"  # no space follows them
EACH, SMALLEST = 4, 512  # batches for each of several workers, if that leaves so many positions to a batch


@dataclass
class Translation:
    """What came of one line; `alternatives` holds the n best, itself first, `parts` what a cut line is made of."""

    text: str
    score: float
    source_ids: list[int]
    ids: list[int]
    alternatives: list["Translation"] = field(default_factory=list)
    parts: list["Translation"] = field(default_factory=list)


class Translator:
    """A model with its tokenizers, and how to search."""

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizers: Tokenizers,
        decode: DecodeConfig,
        max_pieces: int,
        device: torch.device,
        autocast: torch.autocast,
        searched: EncoderDecoder | None = None,
    ) -> None:
        """`searched` is the model as `prepared` makes it, where its weights do not change any more."""
        self.workers = 1  # processes that share the batches of a file
        self.model, self.tokenizers, self.decode = model, tokenizers, decode
        self.searched = searched or model
        self.max_pieces, self.device, self.autocast = max_pieces, device, autocast

    def translate(self, lines: Iterable[str], window: int | None = None) -> Iterator[Translation]:
        """One translation for each line, in order; a blank line stays blank."""
        remaining, window = iter(lines), window or WINDOW
        start = 1
        while texts := list(itertools.islice(remaining, window)):
            ids = self.tokenizers.source.encode_all(texts)
            parts = [self.cut(row, start + number) for number, row in enumerate(ids)]
            found = iter(self.search([part for row in parts for part in row]))
            for row in parts:
                yield self.whole([(part, next(found)) for part in row])
            start += len(texts)

    def cut(self, ids: list[int], line: int) -> list[list[int]]:
        """A sentence longer than those kept for training in parts that are not, cut between words where possible."""
        if len(ids) <= self.max_pieces:
            return [ids] if ids else []
        pieces = self.tokenizers.source.pieces(ids)
        parts, start = [], 0
        while len(ids) - start > self.max_pieces:
            stop = split_position(pieces, start, start + self.max_pieces)
            parts.append(ids[start:stop])
            start = stop
        log.warning(
            "Line %d has %d pieces, more than tokenizer.max_pieces=%d; it is translated in %d parts.",
            line, len(ids), self.max_pieces, len(parts) + 1,
        )  # fmt: skip
        return [*parts, ids[start:]]

    def whole(self, parts: list[tuple[list[int], list[Hypothesis]]]) -> Translation:
        """The parts of one line put together; the n best are given for a line of one part, a blank line has none."""
        if not parts:
            return Translation("", 0.0, [], [])
        if len(parts) == 1:
            source, found = parts[0]
            ranked = [self.one(source, hypothesis) for hypothesis in found]
            ranked[0].alternatives = ranked
            return ranked[0]
        best = [self.one(source, found[0]) for source, found in parts]
        alpha = self.decode.length_penalty
        lengths = [len(part.ids) + 1 for part in best]
        likely = sum(part.score * length**alpha for part, length in zip(best, lengths, strict=True))
        joined = Translation(
            together([part.text for part in best if part.text]),
            likely / sum(lengths) ** alpha,
            [piece for part in best for piece in part.source_ids],
            [piece for part in best for piece in part.ids],
        )
        joined.alternatives, joined.parts = [joined], best
        return joined

    def one(self, source: list[int], hypothesis: Hypothesis) -> Translation:
        """A hypothesis as text."""
        return Translation(self.tokenizers.target.decode(hypothesis.ids), hypothesis.score, source, hypothesis.ids)

    def search(self, sources: Sequence[Sequence[int] | Ids]) -> list[list[Hypothesis]]:
        """Beam search over sentences in any order: their n best each."""
        found: list[list[Hypothesis]] = [[] for _ in sources]
        batches = self.batches(sources)

        def one(number: int) -> Answer:
            return self.search_batch([sources[row] for row in batches[number]])

        for rows, found_here in zip(batches, self.done(one, len(batches)), strict=True):
            for row, hypotheses in zip(rows, found_here, strict=True):
                found[row] = hypotheses
        return found

    def done(self, one: Callable[[int], Answer], number: int) -> Iterable[Answer]:
        """What becomes of each batch, in order."""
        alone = min(self.workers, number) <= 1
        return map(one, range(number)) if alone else shared(one, number, self.workers)

    def batches(self, sources: Sequence[Sequence[int] | Ids]) -> list[np.ndarray]:
        """Rows to search together, longest first; of many sentences enough batches for every worker."""
        lengths = np.array([len(ids) for ids in sources])
        budget = self.decode.batch_tokens // self.decode.beam
        if self.workers > 1:
            share = int((lengths + 1).sum()) // (EACH * self.workers)
            budget = min(budget, max(share, SMALLEST))
        return in_order(lengths, budget)

    def search_batch(
        self, sources: Sequence[Sequence[int] | Ids], limits: np.ndarray | None = None
    ) -> list[list[Hypothesis]]:
        """One batch; `limits`: most pieces of each hypothesis, </s> counted."""
        source = pad([np.append(ids, EOS) for ids in sources])
        if limits is None:
            limits = self.limits(np.array([len(ids) for ids in sources]))
        real = mask(source)
        source, real = source.to(self.device), None if real is None else real.to(self.device)
        with self.autocast:
            return search(
                self.searched, source, real, self.decode.beam, self.decode.length_penalty, torch.as_tensor(limits)
            )

    def limits(self, lengths: np.ndarray) -> np.ndarray:
        """Most pieces of a hypothesis for sources of these lengths, </s> counted."""
        return (self.decode.max_ratio * lengths + self.decode.max_extra).astype(np.int64) + 1

    def look(self, source: Sequence[int], target: Sequence[int]) -> AttentionRecord:
        """Forced decoding of a pair."""
        return self.look_batch([(source, target)])[0]

    def looks(self, pairs: Iterable[IdPair]) -> Iterator[AttentionRecord]:
        """Forced decoding of pairs, in order; a window of them is sorted by length and looked at in batches."""
        for window in windows(pairs):
            found: list[AttentionRecord | None] = [None] * len(window)
            for rows in look_batches(window, self.decode.batch_tokens):
                for row, look in zip(rows, self.look_batch([window[row] for row in rows]), strict=True):
                    found[row] = look
            yield from (look for look in found if look is not None)

    def look_batch(self, pairs: Sequence[IdPair]) -> list[AttentionRecord]:
        """Forced decoding of some pairs at once, padding cut off again.

        Without bf16, whatever the run's precision: there two nearly equal weights change places with the batch, and the
        links of a pair shall not depend on its neighbours.
        """
        batch = collate(*([np.asarray(pair[side], dtype=np.int64) for pair in pairs] for side in (0, 1)))
        batch = batch.to(self.device)
        with torch.autocast(self.device.type, enabled=False):
            found = force_decode(self.model, batch.source, batch.mask, batch.target, batch.output)
        likely, looked, rolled, centre = (None if part is None else part.float().cpu().numpy() for part in found)
        assert likely is not None
        reach = None if centre is None else self.model.window_reach
        looks = []
        for row, (source, target) in enumerate(pairs):
            height, width = len(target) + 1, len(source) + 1
            looks.append(
                AttentionRecord(
                    self.tokenizers.source.pieces(source),
                    self.tokenizers.target.pieces(target),
                    likely[row, :height].tolist(),
                    None if looked is None else looked[row, :, :, :height, :width].copy(),
                    None if rolled is None else rolled[row, :height, :width].copy(),
                    None if centre is None else centre[row, :height].copy(),
                    reach,
                )
            )
        return looks


def together(texts: list[str]) -> str:
    """Parts as one line, with spaces between them where their script has any."""
    line = ""
    for text in texts:
        spaced = line and not SPACELESS.search(line[-1] + text[0]) and line[-1] not in SENTENCE_ENDS
        line += f" {text}" if spaced else text
    return line


def split_position(pieces: list[str], start: int, stop: int) -> int:
    """Where to end a part: after the last sentence end in its second half, else before the last word, else anywhere."""
    middle = (start + stop) // 2
    for place in range(stop, middle, -1):
        last = pieces[place - 1][-1]
        if last in SENTENCE_ENDS or (pieces[place].startswith("▁") and last in ".!?;"):
            return place
    for place in range(stop, middle, -1):
        if pieces[place].startswith("▁"):
            return place
    return stop
