"""CTranslate2 as the engine of search; splitting, joining and forced decoding stay those of the Translator.

K beam. The same search: score = log-probability / length^α with </s> counted in both, a sentence is closed as soon as K
of its hypotheses have ended. Deviations: of the hypotheses that end in its last step all are ranked, not only as
many as make K, which may change the lower ranks of an n-best list, never the first; and a hypothesis with <pad> or <s>,
which our search never keeps, may take up a part of the beam.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch

from nmt.convert.ctranslate2_folder import import_ctranslate2
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.beam_search import Hypothesis
from nmt.decode.constraints import Template, has_loop
from nmt.decode.translator import NBest, Source, Translator
from nmt.errors import UserError

NO_PENALTY = 1e-30  # length^1e-30 = 1; with 0 CTranslate2 closes a sentence by another rule


@dataclass(frozen=True, eq=False)
class CTranslate2Translator(Translator):
    """A translator whose hypotheses come from an exported folder; `open` makes one.

    Some sentences are searched again by PyTorch: one that does not end within its limit, which CTranslate2
    returns unfinished, where our search forces </s> and counts it; one that breaks the constraints of our search, by a
    loop or a lost or doubled placeholder; and one with <pad> or <s> in it. CTranslate2 could suppress those two, but
    does so before the softmax, and other scores lead the search elsewhere.
    """

    engine: Any = None  # ctranslate2.Translator
    lock: Lock = field(default_factory=Lock)  # our own search runs in one thread at a time

    @classmethod
    def open(cls, base: Translator, folder: Path) -> "CTranslate2Translator":
        """The same translator with the engine of an exported folder, on the same device and with PyTorch's threads.

        Raises UserError where CTranslate2 cannot open the folder.
        """
        cuda = base.device.type == "cuda"
        threads = 1 if cuda else torch.get_num_threads()
        try:
            engine = import_ctranslate2().Translator(
                str(folder),
                device="cuda" if cuda else "cpu",
                device_index=(base.device.index or 0) if cuda else 0,
                inter_threads=threads,
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"CTranslate2 cannot open {folder}: {str(error).strip().rstrip('.')}.") from None
        same = {each.name: getattr(base, each.name) for each in fields(Translator)}
        return cls(**same | {"num_processes": 1, "map_batches": partial(map_in_threads, threads)}, engine=engine)

    @cached_property
    def target_ids(self) -> dict[str, int]:
        pieces = self.tokenizers.target.pieces(range(self.tokenizers.target.size))
        return {piece: number for number, piece in enumerate(pieces)}

    def batches(self, sources: Sequence[Source]) -> list[np.ndarray]:
        """Indices of sentences of one length, longest first: CTranslate2 has one limit for a batch."""
        lengths = np.array([len(ids) for ids in sources])
        budget = self.batch_tokens // self.decode.beam
        batches = []
        for length in sorted(set(lengths.tolist()), reverse=True):
            rows = np.flatnonzero(lengths == length)
            size = max(1, budget // (length + 1))
            batches += [rows[start : start + size] for start in range(0, len(rows), size)]
        return batches

    def search_batch(
        self, sources: Sequence[Source], limits: np.ndarray | None = None, forced: Sequence[Template] | None = None
    ) -> NBest:
        """Beam search over one batch, of our own where target columns are forced."""
        if forced is not None:
            with self.lock:
                return super().search_batch(sources, forced=forced)
        if limits is None:
            limits = self.limits(np.array([len(ids) for ids in sources]))
        found: dict[int, list[Hypothesis] | None] = {}
        for limit in set(limits.tolist()) - {1}:  # 1 is </s> alone, for which CTranslate2 has no option
            rows = np.flatnonzero(limits == limit).tolist()
            results = self.run_engine([sources[row] for row in rows], limit)
            found |= {
                row: self.complete_hypotheses(each, sources[row]) for row, each in zip(rows, results, strict=True)
            }
        if missing := [row for row in range(len(sources)) if found.get(row) is None]:
            with self.lock:
                again = super().search_batch([sources[row] for row in missing], limits[missing])
            found |= dict(zip(missing, again, strict=True))
        return [found[row] or [] for row in range(len(sources))]

    def run_engine(self, sources: Sequence[Source], limit: int) -> list[Any]:
        """CTranslate2's results for sentences that have the same limit."""
        try:
            return self.engine.translate_batch(
                [self.tokenizers.source.pieces([int(piece) for piece in ids]) for ids in sources],
                beam_size=self.decode.beam,
                num_hypotheses=self.decode.beam,
                length_penalty=self.decode.length_penalty or NO_PENALTY,
                max_input_length=0,
                min_decoding_length=0,
                max_decoding_length=limit - 1,
                return_end_token=True,
                return_scores=True,
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"CTranslate2 cannot translate this: {str(error).strip().rstrip('.')}.") from None

    def complete_hypotheses(self, result: Any, source: Source) -> list[Hypothesis] | None:
        """The n best of a sentence; None where one of them is not as our search would write it."""
        hypotheses, tokenizers = [], self.tokenizers
        pairs = list(zip(tokenizers.source.placeholders, tokenizers.target.placeholders, strict=False))
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            ids = [self.target_ids[piece] for piece in pieces]
            if ids[-1:] != [EOS] or PAD in ids or BOS in ids:
                return None
            if any(ids.count(of_target) != (of_source in source) for of_source, of_target in pairs):
                return None
            if self.decode.avoid_loops and has_loop([int(piece) for piece in source], ids[:-1]):
                return None
            hypotheses.append(Hypothesis(ids[:-1], score))
        return hypotheses


def map_in_threads(count: int, function: Callable[[np.ndarray], NBest], batches: Sequence[np.ndarray]) -> list[NBest]:
    """`map(function, batches)`; each thread searches a batch of its own."""
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(function, batches))
