"""Beam search that asks the device only once in a while, so that a CUDA graph can repeat its columns.

Names as in nmt/decode/beam_search.py, which finds the same hypotheses. There the host waits for every column, and sentences
that are done leave. Here a stretch of columns runs in tensors of one shape and writes down what it chose; the host
reads that afterwards. A sentence that is done goes on, unread, until its stretch ends.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from nmt.data.tokenizer import EOS
from nmt.decode.beam_search import (
    Beams,
    Candidates,
    Hypothesis,
    advance,
    collect,
    going,
    largest,
    normalised,
    open_beams,
    ranked,
    step,
)
from nmt.models.base import EncoderDecoder, Memory, select

ROOM = 64  # most columns of a stretch
READ = 8  # columns after which the host reads; a divisor of ROOM
WARM = 2  # columns before a graph is recorded: libraries allocate at their first call


@torch.inference_mode()
def search_in_stretches(
    model: EncoderDecoder, source: Tensor, mask: Tensor | None, beam: int, alpha: float, limit: Tensor
) -> list[list[Hypothesis]]:
    """As `search`; column by column until there are `beam` hypotheses, and where a model has no steady state."""
    finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    beams, steady = step(model, finished, open_beams(model, source, mask, limit), beam, alpha), True
    while beams.sentences:  # the first column was another: one hypothesis, and a state that may lie in the memory
        columns = room(beams)
        state = model.steady(beams.state, columns) if steady and beams.scores.size(1) == beam else None
        if state is None:
            steady = steady and beams.scores.size(1) < beam
            beams = step(model, finished, beams, beam, alpha)
        else:
            beams.state = state
            beams = Stretch(model, beams, beam, columns).run(finished, alpha)
    return ranked(finished)


def room(beams: Beams) -> int:
    """The columns of the next stretch: as many as the longest sentence may still need, in whole READs, at most ROOM."""
    needed = max(beams.limits) - beams.tokens.size(2) + 1
    return min(ROOM, -(-needed // READ) * READ)


class Stretch:
    """So many columns of some sentences; it ends when half of them are done. The state of `beams` is written into."""

    def __init__(self, model: EncoderDecoder, beams: Beams, beam: int, columns: int) -> None:
        device, length = beams.scores.device, beams.tokens.size(2)
        self.model, self.memory, self.state, self.beam, self.columns = model, beams.memory, beams.state, beam, columns
        self.scores, self.last = beams.scores.clone(), beams.tokens[:, :, -1].clone()
        self.limits = torch.tensor(beams.limits, device=device)[:, None, None]
        self.length = torch.tensor(length, device=device)
        self.column_number = torch.zeros(1, dtype=torch.long, device=device)
        self.written: list[Tensor] = []  # [columns N …]: the extensions of each column, and those that went on
        nothing = Memory(torch.empty(len(beams.sentences), 0), None, {})
        self.read = Beams(beams.sentences, beams.limits, beams.tokens.cpu(), beams.scores.cpu(), {}, nothing, [])
        self.table = beams.table
        self.places = {sentence: row for row, sentence in enumerate(beams.sentences)}

    def run(self, finished: list[list[Hypothesis]], alpha: float) -> Beams:
        """Column after column; what is left of the sentences then."""
        column = self.column
        for number in range(self.columns):
            if number == WARM:
                column = recorded(self.column, self.scores.device)
            column()
            if (number + 1) % READ == 0:
                self.catch_up(number + 1 - READ, finished, alpha)
                if 2 * len(self.read.sentences) <= len(self.places):
                    break
        return self.rest()

    def column(self) -> None:
        """One piece more of every hypothesis; nothing here waits for the device or depends on what it finds."""
        decoded = self.model.decode(self.last.reshape(-1, 1), self.state, self.memory)
        log_probabilities = normalised(self.model.logits(decoded.hidden[:, -1]), self.scores, self.table)
        pieces = torch.arange(log_probabilities.size(2), device=self.scores.device)
        log_probabilities.masked_fill_((self.limits <= self.length) & (pieces != EOS), float("-inf"))
        extensions = largest(self.scores, log_probabilities, 2 * self.beam)
        chosen = going(extensions, self.beam)
        self.write([*extensions, *chosen])
        sentences = torch.arange(len(self.scores), device=self.scores.device)
        rows = (sentences[:, None] * self.scores.size(1) + chosen.parents).flatten()
        for name, tensor in decoded.state.items():
            self.state[name].copy_(tensor.index_select(0, rows))
        self.scores.copy_(chosen.scores)
        self.last.copy_(chosen.tokens)
        self.length += 1

    def write(self, parts: list[Tensor]) -> None:
        """For the host, at the place of this column."""
        if not self.written:
            self.written = [part.new_empty(self.columns, *part.shape) for part in parts]
        for written, part in zip(self.written, parts, strict=True):
            written.index_copy_(0, self.column_number, part[None])
        self.column_number += 1

    def catch_up(self, first: int, finished: list[list[Hypothesis]], alpha: float) -> None:
        """Read READ columns from the first on, as `search` would have."""
        columns = [written[first : first + READ].cpu() for written in self.written]
        for column in range(READ):
            rows = self.still_open()
            parts = [part[column, rows] for part in columns]
            collect(finished, self.read, Candidates(*parts[:3]), self.beam, alpha)
            self.read = advance(finished, self.read, Candidates(*parts[3:]), self.beam, {})

    def still_open(self) -> Tensor:
        """Where the sentences stand here that the host has not seen the end of."""
        return torch.tensor([self.places[sentence] for sentence in self.read.sentences], dtype=torch.long)

    def rest(self) -> Beams:
        """The sentences that are left."""
        device, width, read = self.scores.device, self.scores.size(1), self.read
        sentences = self.still_open().to(device)
        rows = (sentences[:, None] * width + torch.arange(width, device=device)).flatten()
        state, memory = select(self.state, rows), self.memory.rows(sentences)
        tokens, scores = read.tokens.to(device), self.scores[sentences]
        return Beams(read.sentences, read.limits, tokens, scores, state, memory, self.table)


def recorded(column: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """A CUDA graph of `column`, which is not run by this; elsewhere itself.

    `torch.cuda.graph` waits for the device and gives the memory that is not in use back to it, so that a recording
    costs more than a column: what that leaves of the gain is for `make bench-gpu` to say.
    """
    if device.type != "cuda":
        return column
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device):
        # Other threads, such as the one that prepares batches, may use the device meanwhile.
        with torch.cuda.graph(graph, stream=recording_stream(device), capture_error_mode="thread_local"):
            column()
    return graph.replay


@cache
def recording_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all recordings: cuBLAS keeps a workspace for each stream it has met."""
    return torch.cuda.Stream(device)
