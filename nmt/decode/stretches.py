"""Beam search that asks the device only once in a while, so that a CUDA graph can repeat its columns.

Names as in nmt/decode/search.py, which finds the same hypotheses. There the host waits for every column, and sentences
that are done leave. Here a stretch of columns runs in tensors of one shape and writes down what it chose; the host
reads that afterwards. A sentence that is done goes on, unread, until its stretch ends.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.data.tokenizer import EOS
from nmt.decode.search import (
    Beams,
    Extensions,
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
from nmt.models.base import EncoderDecoder, Memory, State, select

ROOM = 64  # columns of a stretch
READ = 8  # columns after which the host reads; a divisor of ROOM
WARM = 2  # columns before a graph is recorded: libraries allocate at their first call


@torch.inference_mode()
def search_in_stretches(
    model: EncoderDecoder, source: Tensor, mask: Tensor | None, beam: int, alpha: float, limit: Tensor
) -> list[list[Hypothesis]]:
    """As `search`; column by column where a model has no steady state, or there are fewer hypotheses than `beam`."""
    finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    beams = step(model, finished, open_beams(model, source, mask, limit), beam, alpha)
    while beams.sentences:
        state = model.steady(beams.state, ROOM) if beams.scores.size(1) == beam else None
        if state is None:
            beams = step(model, finished, beams, beam, alpha)
        else:
            beams = Stretch(model, beams, state, beam).run(finished, alpha)
    return ranked(finished)


class Stretch:
    """At most ROOM columns of some sentences; it ends when half of them are done."""

    def __init__(self, model: EncoderDecoder, beams: Beams, state: State, beam: int) -> None:
        device, length = beams.scores.device, beams.tokens.size(2)
        self.model, self.memory, self.beam = model, beams.memory, beam
        self.state = {name: tensor.clone() for name, tensor in state.items()}
        self.scores, self.last = beams.scores.clone(), beams.tokens[:, :, -1].clone()
        self.limits = torch.tensor(beams.limits, device=device)[:, None, None]
        self.length, self.place = torch.tensor(length, device=device), torch.zeros(1, dtype=torch.long, device=device)
        self.written: list[Tensor] = []  # [ROOM N …]: the extensions of each column, and those that went on
        nothing = Memory(torch.empty(len(beams.sentences), 0), None, {})
        self.read = Beams(beams.sentences, beams.limits, beams.tokens.cpu(), beams.scores.cpu(), {}, nothing)
        self.rows = {sentence: row for row, sentence in enumerate(beams.sentences)}

    def run(self, finished: list[list[Hypothesis]], alpha: float) -> Beams:
        """Column after column; what is left of the sentences then."""
        column = self.column
        for number in range(ROOM):
            if number == WARM:
                column = recorded(self.column, self.scores.device)
            column()
            if (number + 1) % READ == 0:
                self.catch_up(number + 1 - READ, finished, alpha)
                if 2 * len(self.read.sentences) <= len(self.rows):
                    break
        return self.rest()

    def column(self) -> None:
        """One piece more of every hypothesis; nothing here waits for the device or depends on what it finds."""
        decoded = self.model.decode(self.last.reshape(-1, 1), self.state, self.memory)
        log_probabilities = normalised(self.model.logits(decoded.hidden[:, -1]), self.scores)
        pieces = torch.arange(log_probabilities.size(2), device=self.scores.device)
        log_probabilities.masked_fill_((self.limits <= self.length) & (pieces != EOS), float("-inf"))
        extensions = largest(self.scores, log_probabilities, 2 * self.beam)
        chosen = going(extensions, self.beam)
        self.write([*extensions, *chosen])
        sentences = torch.arange(len(self.scores), device=self.scores.device)
        rows = (sentences[:, None] * self.scores.size(1) + chosen.parents).flatten()
        for name, tensor in select(decoded.state, rows).items():
            self.state[name].copy_(tensor)
        self.scores.copy_(chosen.scores)
        self.last.copy_(chosen.tokens)
        self.length += 1

    def write(self, parts: list[Tensor]) -> None:
        """For the host, at the place of this column."""
        if not self.written:
            self.written = [part.new_empty(ROOM, *part.shape) for part in parts]
        for written, part in zip(self.written, parts, strict=True):
            written.index_copy_(0, self.place, part[None])
        self.place += 1

    def catch_up(self, first: int, finished: list[list[Hypothesis]], alpha: float) -> None:
        """Read READ columns from the first on, as `search` would have."""
        columns = [written[first : first + READ].cpu() for written in self.written]
        for column in range(READ):
            rows = self.still_open()
            parts = [part[column, rows] for part in columns]
            collect(finished, self.read, Extensions(*parts[:3]), self.beam, alpha)
            self.read = advance(finished, self.read, Extensions(*parts[3:]), self.beam, {})

    def still_open(self) -> Tensor:
        """Where the sentences stand here that the host has not seen the end of."""
        return torch.tensor([self.rows[sentence] for sentence in self.read.sentences], dtype=torch.long)

    def rest(self) -> Beams:
        """The sentences that are left."""
        device, width, read = self.scores.device, self.scores.size(1), self.read
        sentences = self.still_open().to(device)
        rows = (sentences[:, None] * width + torch.arange(width, device=device)).flatten()
        state, memory = select(self.state, rows), self.memory.rows(sentences)
        return Beams(read.sentences, read.limits, read.tokens.to(device), self.scores[sentences], state, memory)


def recorded(column: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """A CUDA graph of `column`, which is not run by this; elsewhere itself."""
    if device.type != "cuda":
        return column
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        column()
    return graph.replay
