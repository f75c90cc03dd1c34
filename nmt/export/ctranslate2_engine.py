"""CTranslate2 in the place of our own search; text, cutting and looking stay as they are.

K beam. The same search: score = log-probability / length^α with </s> counted in both, a sentence is closed as soon as K
of its hypotheses have ended. What differs: of those that end in its last step all are ranked, not only as many as make
K, which may change the lower ranks of an n-best list, never the first; and a beginning with <pad> or <s>, which we
never keep, may take a place in the beam.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch

from nmt.data.batches import Ids
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Answer, Translator
from nmt.errors import UserError
from nmt.export.ctranslate2_model import library

NO_PENALTY = 1e-30  # length^1e-30 = 1; with 0 CTranslate2 closes a sentence by another rule


class Ctranslate2(Translator):
    """A translator whose hypotheses come from an exported folder.

    Searched once more by our own model: a sentence that does not end within its limit, which CTranslate2 gives back
    unfinished, where we force </s> and count it; and one with <pad> or <s> in it. CTranslate2 could suppress those two,
    but does so before the softmax, and with other scores a search takes other ways.
    """

    def __init__(self, plain: Translator, folder: Path) -> None:
        made = plain.model, plain.tokenizers, plain.decode, plain.max_pieces, plain.device, plain.autocast
        super().__init__(*made, plain.searched)
        source, target = (one.pieces(range(one.size)) for one in self.tokenizers)
        self.source_pieces, self.target_ids = source, {piece: number for number, piece in enumerate(target)}
        self.end, self.never = target[EOS], {target[PAD], target[BOS]}
        self.threads = 1 if self.device.type == "cuda" else torch.get_num_threads()
        self.ours = Lock()  # our own search is for one thread
        self.engine = self.open(folder)

    def open(self, folder: Path) -> Any:
        """The engine on the device and with the threads that our own would have, each at a batch of its own."""
        cuda = self.device.type == "cuda"
        try:
            return library().Translator(
                str(folder),
                device="cuda" if cuda else "cpu",
                device_index=(self.device.index or 0) if cuda else 0,
                inter_threads=self.threads,
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"CTranslate2 cannot open {folder}: {str(error).strip().rstrip('.')}.") from None

    def done(self, one: Callable[[int], Answer], number: int) -> Iterable[Answer]:
        with ThreadPoolExecutor(self.threads) as threads:
            return list(threads.map(one, range(number)))

    def batches(self, sources: Sequence[Sequence[int] | Ids]) -> list[np.ndarray]:
        """Rows of one source length, longest first: the limit is one number for a batch."""
        lengths = np.array([len(ids) for ids in sources])
        most = self.decode.batch_tokens // self.decode.beam
        found = []
        for length in sorted(set(lengths.tolist()), reverse=True):
            rows = np.flatnonzero(lengths == length)
            size = max(1, most // (length + 1))
            found += [rows[start : start + size] for start in range(0, len(rows), size)]
        return found

    def search_batch(
        self, sources: Sequence[Sequence[int] | Ids], limits: np.ndarray | None = None
    ) -> list[list[Hypothesis]]:
        """One batch; `limits`: most pieces of each hypothesis, </s> counted."""
        if limits is None:
            limits = self.limits(np.array([len(ids) for ids in sources]))
        found: list[list[Hypothesis] | None] = [None] * len(sources)
        for limit in set(limits.tolist()) - {1}:  # 1 is </s> alone, for which CTranslate2 has no option
            rows = np.flatnonzero(limits == limit).tolist()
            for row, result in zip(rows, self.ask([sources[row] for row in rows], limit), strict=True):
                found[row] = self.ended(result)
        unended = [row for row, hypotheses in enumerate(found) if hypotheses is None]
        if unended:
            with self.ours:
                again = super().search_batch([sources[row] for row in unended], limits[unended])
            for row, hypotheses in zip(unended, again, strict=True):
                found[row] = hypotheses
        return [hypotheses for hypotheses in found if hypotheses is not None]

    def ask(self, sources: Sequence[Sequence[int] | Ids], limit: int) -> list[Any]:
        """CTranslate2's results for sentences that share a limit."""
        try:
            return self.engine.translate_batch(
                [[self.source_pieces[piece] for piece in ids] for ids in sources],
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

    def ended(self, result: Any) -> list[Hypothesis] | None:
        """The n best of a sentence; None where one of them was cut off at the limit, or is none that we would write."""
        if any(pieces[-1:] != [self.end] or self.never & set(pieces) for pieces in result.hypotheses):
            return None
        ids = [[self.target_ids[piece] for piece in pieces[:-1]] for pieces in result.hypotheses]
        return [Hypothesis(*one) for one in zip(ids, result.scores, strict=True)]
