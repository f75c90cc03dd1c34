"""Validation: loss, translations and scores of the validation set, and a few heatmaps."""

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
from nmt.decode.translator import Query, Translator
from nmt.evaluate.aer import GoldAlignments, alignment_error_rates
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import default_extractor, fitting_pairs, record_words
from nmt.evaluate.metrics import STANDARD, Translated, direction, find_metric, score
from nmt.models.inference import inference_copy
from nmt.models.lora import has_lora
from nmt.training.distributed import StopSignal, World
from nmt.training.loss import token_losses
from nmt.training.state import TrainingDiverged
from nmt.view.tensorboard import TensorBoardLogger

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
        text = f"validation loss {self.scores['loss']:.3f}"
        for name, value in self.scores.items():
            if name != "loss":
                metric = find_metric(name)
                text += f", {metric.label} {value:.{metric.digits}f}"
        return text

    def scalars(self) -> dict[str, float]:
        """The scores by TensorBoard tag."""
        perplexity = math.exp(min(self.scores["loss"], 50.0))
        scores = {"perplexity": perplexity} | self.scores
        return {f"{name}/valid": value for name, value in scores.items()}


class Validation:
    """Validates the translator's model on the validation set, and leaves it in evaluation mode.

    `max_positions`: the most padded positions of a batch for the loss. `dtype`: that of search,
    which uses a copy of the model. `gold`: the links of the set, where they are known. The
    processes of a training share out the batches; all get the same result.
    """

    def __init__(
        self,
        pairs: ParallelDataset,
        translator: Translator,
        config: Config,
        max_positions: int,
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
        self.metrics = list(STANDARD)
        if config.train.metric not in ("loss", *STANDARD):
            self.metrics.append(config.train.metric)
        self.dtype = dtype
        self.world = world
        self.model = translator.model
        self.source_texts: list[str] = []
        self.references: list[str] = []
        for row in range(len(pairs)):
            source, reference = pairs.texts(row)
            self.source_texts.append(source)
            self.references.append(reference)
        tokenizers = translator.tokenizers
        if tokenizers.protects or tokenizers.target.prefixes:
            # Encoded as in translation. The stored ids will not do: there a span is a placeholder
            # only if the reference has it too, and they do not say with which prefix a translation
            # begins
            protected = tokenizers.protect_sources(self.source_texts)
            self.sources = tokenizers.encode_sources(protected)
        else:
            stored = pairs.sentences("source", np.arange(len(pairs)))
            self.sources = [Encoded(ids.tolist()) for ids in stored.rows()]
        self.batches = batches_by_length(
            np.maximum(pairs.source_lengths, pairs.target_lengths), max_positions
        )
        self.gold = gold
        self.gold_rows = fitting_pairs(translator, gold.pairs[:AER_PAIRS]) if gold else []

    def run(self, reference_lengths: bool = False) -> ValidationResult:
        """Loss and search over the whole set.

        Raises TrainingDiverged if the loss is not finite, Interrupted after a signal.

        `reference_lengths`: hypotheses end at the length of their reference, so that an untrained
        model, whose translations do not end, takes the time of a trained one.
        """
        self.model.eval()
        loss = self.loss()
        if not math.isfinite(loss):
            raise TrainingDiverged(f"validation loss {loss:.4g}")
        hypotheses = self.search(reference_lengths)
        texts = [self.translator.tokenizers.target.decode(ids) for ids in hypotheses]
        translated = Translated(texts, [self.references], self.source_texts)
        by_metric = score(translated, self.language, self.metrics)
        scores = {"loss": loss} | {name: by_metric[name] for name in self.metrics}
        return ValidationResult(scores, hypotheses)

    def search(self, reference_lengths: bool) -> list[list[int]]:
        """The best hypothesis of each source, in the order of the set."""
        search_model = None
        if not has_lora(self.model):  # with LoRA a copy might not fit into the memory
            search_model = inference_copy(self.model, self.dtype)
        translator = replace(self.translator, search_model=search_model)

        queries = list(map(Query, self.sources))
        if reference_lengths:
            lengths = self.pairs.target_lengths.tolist()
            pairs = zip(self.sources, lengths, strict=True)
            queries = [Query(source, limit=length + 1) for source, length in pairs]  # </s>

        def search_rows(rows: np.ndarray) -> NBest:
            if self.stop.signal:
                return []  # `check` raises below
            return translator.search_batch([queries[row] for row in rows])

        batches = translator.batches(queries)
        results = self.world.map(search_rows, batches)
        self.stop.check()
        best: list[list[int]] = [[] for _ in self.sources]
        for rows, nbest in zip(batches, results, strict=True):
            for row, hypotheses in zip(rows, nbest, strict=True):
                best[row] = self.sources[row].like(hypotheses[0].ids)
        return best

    @torch.inference_mode()
    def loss(self) -> float:
        """Mean −log p of a target piece, </s> counted, without label smoothing."""

        def batch_loss(rows: np.ndarray) -> tuple[float, int]:
            """−log p of a batch, summed, and its number of target pieces."""
            if self.stop.signal:
                return 0.0, 0  # `check` raises below
            sources = self.pairs.sentences("source", rows)
            targets = self.pairs.sentences("target", rows)
            batch = collate(sources, targets).to(self.translator.device)
            with self.translator.autocast:
                decoded = self.model(batch.source, batch.mask, batch.target)
                _, nll = token_losses(
                    decoded.hidden, self.model.output, batch.output, batch.real, 0.0
                )
            return nll.sum().item(), batch.tokens

        results = self.world.map(batch_loss, self.batches)
        self.stop.check()
        return sum(nll for nll, _ in results) / sum(tokens for _, tokens in results)

    def log_examples(self, logger: TensorBoardLogger, result: ValidationResult, step: int) -> None:
        """Log the first `train.log_sentences` sentences with their translations and attention."""
        table = []
        for row in range(min(self.train.log_sentences, len(self.pairs))):
            translation = self.translator.tokenizers.target.decode(result.hypotheses[row])
            table.append((*self.pairs.texts(row), translation))
        logger.table("translations", table, step)
        self.log_attention(logger, step, result.hypotheses)

    def log_attention(
        self,
        logger: TensorBoardLogger,
        step: int,
        hypotheses: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Log the alignment error rate where links are known, and heatmaps of the first sentences.

        The heatmap of the reference has the same words every time, so that the weights can be
        compared; that of the translation is drawn where there are hypotheses. Without dropout and
        random numbers, so that the training does not change.
        """
        if not self.model.has_attention:
            return
        self.model.eval()
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
                pair = (self.sources[row], hypotheses[row])
                self.log_heatmap(logger, step, row, "translation", pair)

    def log_heatmap(
        self, logger: TensorBoardLogger, step: int, row: int, name: str, pair: IdPair
    ) -> None:
        """Log the weights between the first MAX_WORDS words of a sentence and its translation."""
        record = self.translator.force_decode(pair)
        extractor = default_extractor(self.train, self.model)
        alignment = Alignment(record, record_words(record), extractor)
        if not alignment.word_pair.target:  # early in training the pieces may hold no word
            return
        figure = alignment.figure(title=self.name, target_name=name, max_words=MAX_WORDS)
        logger.figure(f"alignment/{row + 1}/{name}", figure, step)
        if self.train.heatmap_all_heads and name == "reference":
            figure = alignment.figure(
                every_head=True, title=self.name, target_name=name, max_words=MAX_WORDS
            )
            logger.figure(f"heads/{row + 1}", figure, step)
