"""Validation: loss, translations and scores of the validation set, and heatmaps of a few of its
sentences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from nmt.config.schema import Config
from nmt.data.batches import batches_by_length, collate
from nmt.data.dataset import ParallelDataset
from nmt.data.text_filter import Encoded
from nmt.decode.beam_search import NBest
from nmt.decode.forced_decoding import IdPair
from nmt.decode.translator import Translator
from nmt.evaluate.aer import GoldAlignments, alignment_error_rates
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import default_extractor, fitting_pairs, record_words
from nmt.evaluate.metrics import STANDARD, Translated, direction, find_metric, score
from nmt.models.inference import inference_copy
from nmt.training.distributed import StopSignal, World
from nmt.training.loss import token_losses
from nmt.training.state import TrainingDiverged
from nmt.view.tensorboard import TensorBoardLogger

# Attention finds its place in the first hundreds of updates, before most validations.
EARLY_UPDATES = frozenset({50, 100, 200, 400})
AER_PAIRS = 100  # with gold links, of the validation set; enough for a curve
MAX_WORDS = 30  # of either side in a heatmap: a translation that loops has hundreds


@dataclass
class ValidationResult:
    """The scores and translations of one validation."""

    scores: dict[str, float]  # loss (the mean −log p of a target piece), then the metrics
    hypotheses: list[list[int]]  # target ids, in the order of the validation set

    def better_than(self, best: float | None, metric: str) -> bool:
        """Whether this is better than the score `best` of train.metric; None is always beaten."""
        return best is None or direction(metric) * (self.scores[metric] - best) > 0

    def __str__(self) -> str:
        metrics = (
            (find_metric(name), value) for name, value in self.scores.items() if name != "loss"
        )
        texts = (f", {metric.label} {value:.{metric.digits}f}" for metric, value in metrics)
        return f"validation loss {self.scores['loss']:.3f}{''.join(texts)}"

    def scalars(self) -> dict[str, float]:
        """The scores by TensorBoard tag."""
        perplexity = math.exp(min(self.scores["loss"], 50.0))
        return {
            f"{name}/valid": value
            for name, value in [("perplexity", perplexity), *self.scores.items()]
        }


class Validation:
    """Validates the translator's model on the validation set.

    `tokens` is the padded size of a batch for the loss, `dtype` the number format of search, which
    has a copy of the model made for it. `gold`: the links of the set, where they are known. The
    processes of a training share out the batches; all get the same result.
    """

    def __init__(
        self,
        pairs: ParallelDataset,
        translator: Translator,
        config: Config,
        tokens: int,
        dtype: torch.dtype,
        stop: StopSignal,
        world: World,
        gold: GoldAlignments | None = None,
    ) -> None:
        self.pairs = pairs
        self.translator = translator
        self.stop = stop
        self.name = config.name
        self.language = config.data.target
        self.train = config.train
        self.metrics = [*STANDARD, *({config.train.metric} - {"loss", *STANDARD})]
        self.dtype = dtype
        self.world = world
        self.model = translator.model
        texts = [pairs.texts(row) for row in range(len(pairs))]
        self.sources = [Encoded(pairs.source(row).tolist()) for row in range(len(pairs))]
        tokenizers = translator.tokenizers
        if (
            tokenizers.protects or tokenizers.target.prefixes
        ):  # in use any span is a placeholder, not only one of both sides
            self.sources = tokenizers.encode_sources(
                tokenizers.protect_sources([each for each, _ in texts])
            )
        self.texts = [source for source, _ in texts]
        self.references = [target for _, target in texts]
        self.batches = batches_by_length(
            np.maximum(pairs.source_lengths, pairs.target_lengths), tokens
        )
        self.gold = gold if self.model.has_attention else None
        self.gold_rows = fitting_pairs(translator, gold.pairs[:AER_PAIRS]) if gold else []

    def run(self, reference_lengths: bool = False) -> ValidationResult:
        """Loss and search over the whole set; raises TrainingDiverged if the loss is not finite.

        `reference_lengths`: hypotheses end at the length of their reference, so that an untrained
        model, whose translations do not end, takes the time of a trained one.
        """
        training = self.model.training
        self.model.eval()
        try:
            loss = self.loss()
            if not math.isfinite(loss):
                raise TrainingDiverged(f"validation loss {loss:.4g}")
            hypotheses = self.search(reference_lengths)
        finally:
            self.model.train(training)
        texts = [self.translator.tokenizers.target.decode(ids) for ids in hypotheses]
        scores = score(
            Translated(texts, [self.references], self.texts), self.language, self.metrics
        )
        return ValidationResult(
            {"loss": loss} | {name: scores[name] for name in self.metrics}, hypotheses
        )

    def search(self, reference_lengths: bool) -> list[list[int]]:
        """The best hypothesis of each source, in the order of the set."""
        limits = self.pairs.target_lengths.astype(np.int64) + 1
        translator = replace(self.translator, search_model=inference_copy(self.model, self.dtype))

        def search_rows(rows: np.ndarray) -> NBest:
            if self.stop.signal:
                return []
            sources = [self.sources[row] for row in rows]
            return translator.search_batch(sources, limits[rows] if reference_lengths else None)

        batches = translator.batches(self.sources)
        found = self.world.map(search_rows, batches)
        self.stop.check()
        best: list[list[int]] = [[] for _ in self.sources]
        for rows, nbest in zip(batches, found, strict=True):
            for row, hypotheses in zip(rows, nbest, strict=True):
                best[row] = self.sources[row].like(hypotheses[0].ids)
        return best

    @torch.inference_mode()
    def loss(self) -> float:
        """Mean −log p of a target piece, </s> counted, without label smoothing."""
        nll = np.zeros(len(self.batches))
        tokens = np.zeros(len(self.batches))
        for number in range(self.world.rank, len(self.batches), self.world.size):
            if self.stop.signal:
                break
            rows = self.batches[number]
            batch = collate(
                *([side(row) for row in rows] for side in (self.pairs.source, self.pairs.target))
            )
            batch = batch.to(self.translator.device)
            with self.translator.autocast:
                decoded = self.model(batch.source, batch.mask, batch.target)
                _, batch_nll = token_losses(
                    decoded.hidden, self.model.output, batch.output, batch.real, 0.0
                )
            nll[number], tokens[number] = batch_nll.sum().item(), batch.tokens
        self.stop.check()
        by_batch = zip(*self.world.gather([*nll.tolist(), *tokens.tolist()]), strict=True)
        sums = [sum(values) for values in by_batch]  # each is 0 in all processes but one
        return sum(sums[: len(nll)]) / sum(sums[len(nll) :])

    def log_examples(self, logger: TensorBoardLogger, result: ValidationResult, step: int) -> None:
        """Log the first `train.log_sentences` sentences with their translations, and the attention
        of both."""
        rows = range(min(self.train.log_sentences, len(self.pairs)))
        decode = self.translator.tokenizers.target.decode
        logger.table(
            "translations",
            [(*self.pairs.texts(row), decode(result.hypotheses[row])) for row in rows],
            step,
        )
        self.log_attention(logger, step, result.hypotheses)

    def log_attention(
        self,
        logger: TensorBoardLogger,
        step: int,
        hypotheses: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Log the alignment error rate where links are known, and heatmaps of the first sentences.

        The heatmap of the reference has the same words every time, so that the weights can be
        compared; that of the translation is drawn where there are hypotheses. Nothing of the
        training changes: no dropout, no random number.
        """
        if not self.model.has_attention:
            return
        training = self.model.training
        self.model.eval()
        try:
            if self.gold is not None and self.gold_rows:
                extractor = default_extractor(self.train, self.model)
                rates = alignment_error_rates(
                    self.translator, self.gold, [extractor], rows=self.gold_rows
                )
                logger.scalars({"aer/valid": rates[extractor].aer}, step)
            for row in range(min(self.train.log_sentences, len(self.pairs))):
                [reference] = self.translator.tokenizers.encode_pairs([self.pairs.texts(row)])
                self.log_heatmap(logger, step, row, "reference", reference)
                if hypotheses is not None:
                    self.log_heatmap(
                        logger, step, row, "translation", (self.sources[row], hypotheses[row])
                    )
        finally:
            self.model.train(training)

    def log_heatmap(
        self, logger: TensorBoardLogger, step: int, row: int, name: str, pair: IdPair
    ) -> None:
        """Log the weights of a sentence and its reference or translation, as the first MAX_WORDS
        words of both."""
        record = self.translator.force_decode(pair)
        alignment = Alignment(
            record, record_words(record), default_extractor(self.train, self.model)
        )
        if not alignment.word_pair.target:  # early in training the pieces may hold no word
            return
        figure = alignment.figure(title=self.name, target_name=name, max_words=MAX_WORDS)
        logger.figure(f"alignment/{row + 1}/{name}", figure, step)
        if self.train.heatmap_all_heads and name == "reference":
            figure = alignment.figure(
                every_head=True, title=self.name, target_name=name, max_words=MAX_WORDS
            )
            logger.figure(f"heads/{row + 1}", figure, step)
