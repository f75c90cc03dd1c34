"""How good is it now: loss and translations of the validation set, and pictures of a few of its sentences."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from nmt.config import TrainConfig
from nmt.data.batches import collate, in_order
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import PAD, Tokenizers
from nmt.decode.translator import AttentionRecord, Translator
from nmt.evaluate.scores import score
from nmt.evaluate.words import focus_in_words, merge
from nmt.train.loss import cross_entropy
from nmt.train.stop_signal import StopSignal, TrainingDiverged
from nmt.view.heatmap import grid, heatmap
from nmt.view.tensorboard import TensorBoardLogger


@dataclass
class Report:
    """One validation."""

    loss: float  # mean −log p of a target piece
    bleu: float
    chrf: float
    hypotheses: list[list[int]]

    def better_than(self, best: float | None, metric: str) -> bool:
        """Whether this beats `best` in the chosen metric."""
        return best is None or (self.bleu > best if metric == "bleu" else self.loss < best)

    def value(self, metric: str) -> float:
        """The chosen metric."""
        return self.bleu if metric == "bleu" else self.loss

    def __str__(self) -> str:
        return f"validation loss {self.loss:.3f}, BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}"

    def scalars(self) -> dict[str, float]:
        """For the curves."""
        perplexity = math.exp(min(self.loss, 50.0))
        return {
            "loss/valid": self.loss,
            "perplexity/valid": perplexity,
            "bleu/valid": self.bleu,
            "chrf/valid": self.chrf,
        }


class Validation:
    """The validation set, ready to be looked at again and again."""

    def __init__(
        self, pairs: ParallelDataset, tokenizers: Tokenizers, language: str, tokens: int, stop: StopSignal
    ) -> None:
        self.pairs, self.tokenizers, self.language, self.stop = pairs, tokenizers, language, stop
        self.sources = [pairs.source(row) for row in range(len(pairs))]
        self.references = [pairs.texts(row)[1] for row in range(len(pairs))]
        self.groups = in_order(np.maximum(pairs.source_lengths, pairs.target_lengths), tokens)

    def run(self, translator: Translator, short: bool = False) -> Report:
        """Loss, then search. `short` holds hypotheses to their references' lengths: what a trained model would cost."""
        model, training = translator.model, translator.model.training
        model.eval()
        try:
            loss = self.loss(translator)
            if not math.isfinite(loss):
                raise TrainingDiverged(f"validation loss {loss:.4g}")
            limits = self.pairs.target_lengths.astype(np.int64) + 1 if short else None
            found: list[list[int]] = [[] for _ in self.sources]
            for rows in translator.batches(self.sources):
                self.stop.check()
                some = translator.search_batch([self.sources[row] for row in rows], limits[rows] if short else None)  # type: ignore[index]
                for row, hypotheses in zip(rows, some, strict=True):
                    found[row] = hypotheses[0].ids
        finally:
            model.train(training)
        texts = [self.tokenizers.target.decode(ids) for ids in found]
        scores = score(texts, self.references, self.language)
        return Report(loss, scores["bleu"], scores["chrf"], found)

    @torch.inference_mode()
    def loss(self, translator: Translator) -> float:
        """Mean −log p of a real target piece, </s> counted, without smoothing."""
        total, tokens = 0.0, 0
        for rows in self.groups:
            self.stop.check()
            batch = collate([self.sources[row] for row in rows], [self.pairs.target(row) for row in rows])
            batch = batch.to(translator.device)
            with translator.autocast:
                decoded = translator.model(batch.source, batch.mask, batch.target)
                _, nll = cross_entropy(decoded.hidden, translator.model.output, batch.output, PAD, 0.0)
            total, tokens = total + nll.item(), tokens + batch.tokens
        return total / tokens

    def show(
        self, journal: TensorBoardLogger, translator: Translator, report: Report, train: TrainConfig, step: int
    ) -> None:
        """A table and the heatmaps of a few sentences, always the same ones."""
        rows = range(min(train.pictures, len(self.pairs)))
        table = [(*self.pairs.texts(row), self.tokenizers.target.decode(report.hypotheses[row])) for row in rows]
        journal.table("translations", table, step)
        training = translator.model.training
        translator.model.eval()
        try:
            for row in rows:
                if translator.model.has_attention and report.hypotheses[row]:
                    look = translator.look(self.sources[row].tolist(), report.hypotheses[row])
                    draw(journal, look, str(row + 1), train, step)
        finally:
            translator.model.train(training)


def draw(journal: TensorBoardLogger, look: AttentionRecord, name: str, train: TrainConfig, step: int) -> None:
    """The heatmap of one pair, and of every head when asked for."""
    pieces, layer = (look.source_pieces, look.target_pieces), train.picture_layer
    matrix, source, target = merge(look.chosen(layer, None), *pieces)
    if not target:  # a young model may write pieces without a word in them
        return
    focus = None
    if look.centre is not None and look.reach is not None:
        focus = focus_in_words(look.centre, look.reach, *pieces)
    journal.picture(f"alignment/{name}", heatmap(matrix, source, target, focus=focus), step)
    if train.picture_heads:
        heads = [merge(look.chosen(layer, head), *pieces)[0] for head in range(look.heads)]
        journal.picture(f"heads/{name}", grid(heads, source, target), step)
