"""Trained runs: loading, translating, aligning and scoring."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, tee
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nmt.attention.cpu import keep_freed_memory
from nmt.config.schema import Config, DecodeConfig
from nmt.config.validation import check_decode
from nmt.corpus.checksums import json_digest
from nmt.corpus.language_pairs import choose_pair, is_multilingual, tagged_language
from nmt.corpus.parallel_text import check_sentences
from nmt.data.tokenizer import Tokenizers
from nmt.decode.choice import NearestToReference, minimum_bayes_risk
from nmt.decode.confidence import Calibration
from nmt.decode.forced_decoding import METHODS, IdPair, Layers
from nmt.decode.glossary import open_glossary
from nmt.decode.pair_scores import PairScore, score_pairs
from nmt.decode.parallel import usable_processes
from nmt.decode.sampling import Sampling
from nmt.decode.translation import Translation
from nmt.decode.translator import Translator, default_batch_tokens
from nmt.errors import UserError, check_positive, choose
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.calibration import read_calibration
from nmt.evaluate.estimate import quality_extractor, read_estimator
from nmt.evaluate.extraction import (
    DECODER_STEPS,
    Extractor,
    default_extractor,
    encode_pairs,
    record_words,
    translate_to_pairs,
)
from nmt.evaluate.metrics import STANDARD, Translated, score, scores_in
from nmt.evaluate.verdict import Verdict, read_verdict
from nmt.models.base import EncoderDecoder
from nmt.models.ensemble import Ensemble
from nmt.models.inference import inference_copy
from nmt.runs.provenance import code_digest
from nmt.runs.results import Result, stored_scores
from nmt.runs.versions import version_name, version_of
from nmt.training import checkpoint
from nmt.training.precision import autocast, select_device_or_auto, select_precision
from nmt.training.restore import restore
from nmt.view.text import visible

log = logging.getLogger("nmt")


@dataclass
class Run:
    """A translator loaded from checkpoints, with its configuration and provenance."""

    folder: Path  # that its results are written to
    config: Config
    provenance: dict[str, Any]  # what a translation depends on besides the source and the program
    translator: Translator

    @property
    def name(self) -> str:
        return version_name(self.folder)

    @property
    def weights(self) -> list[str]:
        """The digests of the weights of its members."""
        return [model["weights"] for model in self.provenance["models"]]

    @property
    def made_with(self) -> dict[str, str]:
        """What else a translation depends on: versions, and a digest of the code that makes it."""
        return checkpoint.versions() | {"code": code_digest(__name__)}

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.translator.model.parameters())

    @property
    def verdict(self) -> Verdict | None:
        """What the run can be used for, as measured at the end of its training.

        None for an imported run, and for one that is older or was changed.
        """
        return read_verdict(self.folder, self.weights)

    def __repr__(self) -> str:
        """One line: name, languages, model, size, and the scores of the first test set."""
        data = self.config.data
        models = self.provenance["models"]
        kind = self.config.model.architecture_labels()[0]
        if len(models) > 1:
            kind = f"ensemble of {len(models)}"
        millions = self.parameters / 1e6
        parts = [f"{data.source}-{data.target}", kind, f"{millions:.1f} M parameters"]
        scores = stored_scores(self.folder, models)
        if scores:
            name = min(scores, key=lambda name: (name != "test", name))
            values = []
            for _, metric, value, _ in scores_in(scores[name]):
                values.append(f"{metric.label} {value:.{metric.digits}f}")
            parts.append(f"{name}: {', '.join(values)}")
        return visible(f"<Run {self.name}, {', '.join(parts)}>")

    def translate(
        self, sentences: Iterable[str], beam: int | None = None, nbest: int = 1, prefix: str = ""
    ) -> list[Translation]:
        """Translate sentences; returns one translation for each, in order.

        beam: the default is the run's.
        nbest: the other `nbest` − 1 hypotheses, or samples, are the `alternatives` of each
            translation.
        prefix: every translation begins with this text, which may end within a word.

        A blank sentence stays blank. Raises UserError if `nbest` exceeds the beam or the number of
        samples, and if there are both a prefix and a glossary.
        """
        sentences = check_sentences(sentences)
        check_positive(nbest=nbest)
        translator = self.with_beam(beam).with_prefix(prefix).translator
        if nbest > translator.num_hypotheses:
            raise UserError(
                f"nbest={nbest} needs a beam of {nbest} or more, or as many samples; it is now "
                f"{translator.num_hypotheses}."
            )
        translations = list(translator.translate(sentences))
        for translation in translations:
            del translation.alternatives[nbest - 1 :]
        return translations

    def align(
        self,
        source: str,
        target: str | None = None,
        *,
        layer: Layers | Sequence[int] | None = None,
        head: int | None = None,
        decoder_step: str | None = None,
        method: str = "mean",
        tokenized: bool = False,
    ) -> Alignment:
        """The attention over `source` while the model reads `target`.

        target: the default is the model's own translation.
        layer, head, decoder_step ("output" or "input"), method: which weights the links are read
            from. The default layer is that of the run's heatmaps or the guided head, and the
            default head is the mean.
        tokenized: only spaces separate words.

        Raises UserError for a model without attention, for a layer, head, step or method that the
        model does not have, and for a sentence that is too long.
        """
        source, *_ = check_sentences([source] if target is None else [source, target])
        extractor = self.make_extractor(layer, head, decoder_step, method)
        if target is None:
            pairs = translate_to_pairs(self.translator, [source])
        else:
            pairs = encode_pairs(self.translator, [(source, target)])
        return next(self.align_all(pairs, extractor, tokenized))

    def align_all(
        self, pairs: Iterable[IdPair], extractor: Extractor, tokenized: bool = False
    ) -> Iterator[Alignment]:
        """The alignments of pairs of ids, in order, decoded in batches.

        `encode_pairs` and `translate_to_pairs` give the pairs.
        """
        pairs, ids = tee(pairs)
        for record, pair in zip(self.translator.force_decode_all(pairs), ids, strict=True):
            words = record_words(record, tokenized)
            yield Alignment(record, words, extractor, self.translator, pair)

    def make_extractor(
        self,
        layer: Layers | Sequence[int] | None = None,
        head: int | None = None,
        decoder_step: str | None = None,
        method: str = "mean",
    ) -> Extractor:
        """Which weights are read; None selects the default.

        If a layer or head is given, the default step is "output". Raises UserError for a layer,
        head, step or method that the model does not have.
        """
        model = self.translator.model
        if not model.has_attention:
            raise UserError(f"The model of {self.name} has no attention.")
        choose("decoder step", decoder_step or "output", DECODER_STEPS)
        choose("method", method, METHODS)
        default = default_extractor(self.config.train, model)
        if method == "rollout":
            if layer is not None or head is not None:
                raise UserError(
                    "Attention rollout goes through all layers and heads; leave out layer and head."
                )
            if not model.has_rollout:
                raise UserError(
                    f"Attention rollout needs self-attention with weights; {self.name} has none."
                )
        elif layer is None and head is None:
            return default._replace(decoder_step=decoder_step or default.decoder_step)
        if head is not None and head not in range(model.num_heads):
            raise UserError(
                f"Head {head} does not exist; the model has heads 0 to {model.num_heads - 1}."
            )
        if layer is None:
            layer = default.layer
        numbers: tuple[Any, ...] = (layer,) if isinstance(layer, int) else tuple(layer)
        last = model.num_layers - 1
        for number in numbers or ("",):
            if number not in range(-last - 1, last + 1):
                raise UserError(f"Layer {number} does not exist; the model has layers 0 to {last}.")
        layers = layer if isinstance(layer, int) else numbers
        return Extractor(layers, head, decoder_step or "output", method)

    def score_pairs(self, pairs: Iterable[tuple[str, str]]) -> list[PairScore]:
        """How probable the model finds the target of each pair (source, target), in order.

        Raises UserError for a pair that is longer than the model can read.
        """
        pairs = list(pairs)
        check_sentences(chain.from_iterable(pairs))
        scores = []
        for number, scored in enumerate(score_pairs(self.translator, pairs)):
            if scored is None:
                raise UserError(f"Pair {number} (from 0) is longer than the model can read.")
            scores.append(scored)
        return scores

    def score(
        self,
        sources: Iterable[str],
        *references: Iterable[str],
        beam: int | None = None,
        metrics: Sequence[str] = STANDARD,
    ) -> Result:
        """Translate `sources` and score the translations against one or more references.

        BLEU uses the tokenizer of the target language. If there are several, the tags of all
        sources must name the same one. Raises UserError for an unknown metric, and if a reference
        has more or fewer lines than there are sources.
        """
        sources = check_sentences(sources)
        lines = list(map(check_sentences, references))
        for of_reference in lines:
            if len(of_reference) != len(sources):
                raise UserError(
                    f"{len(sources)} sources cannot be scored against {len(of_reference)} "
                    "references."
                )
        hypotheses = [translation.text for translation in self.translate(sources, beam)]
        language = tagged_language(sources, self.config.data)
        scores = score(Translated(hypotheses, lines, sources), language, metrics)
        return Result("", scores, hypotheses, metrics)

    def in_direction(self, source: str | None = None, target: str | None = None) -> Run:
        """The same run for one of its language pairs; its sentences then need no tag.

        The languages may be codes in any form. If none is given, the run must have only one pair.
        Raises UserError if the run does not have the pair.
        """
        pair = choose_pair(self.config.data, source, target, self.name)
        if not is_multilingual(self.config.data):
            return self
        data = replace(self.config.data, source=pair[0], target=pair[1], pair_tags=False)
        tokenizers = self.translator.tokenizers.in_direction(*pair)
        run = self.with_search({"direction": list(pair)}, tokenizers=tokenizers)
        return replace(run, config=replace(self.config, data=data))

    def with_search(self, settings: dict[str, Any], **changes: Any) -> Run:
        """The same run with a changed translator; its provenance gets the settings."""
        decode = self.provenance["decode"] | settings
        provenance = self.provenance | {"decode": decode}
        return replace(self, provenance=provenance, translator=replace(self.translator, **changes))

    def with_beam(self, beam: int | None) -> Run:
        """The same run with another beam; None changes nothing."""
        if beam is None:
            return self
        check_decode(beam=beam)
        decode = replace(self.translator.decode, beam=beam)
        return self.with_search(asdict(decode), decode=decode)

    def with_glossary(self, path: str | Path) -> Run:
        """The same run with a glossary: lines SOURCE<TAB>TARGET, .csv, .xlsx, .ods or .tbx.

        Raises UserError if the file is invalid or has a term that the tokenizer cannot write, and
        if translations are to begin with a given text.
        """
        languages = self.config.data.source, self.config.data.target
        terms = open_glossary(Path(path), self.translator, languages)
        return self.with_search({"glossary": terms.digest()}, terms=terms)

    def with_prefix(self, prefix: str) -> Run:
        """The same run, whose translations all begin with a given text.

        Raises UserError if the run has a glossary.
        """
        if not prefix.strip():
            return self
        (prefix,) = check_sentences([prefix])
        return self.with_search({"prefix": prefix}, target_prefix=prefix)

    def with_samples(
        self,
        samples: int,
        temperature: float = Sampling.temperature,
        top_k: int | None = Sampling.top_k,
        top_p: float = Sampling.top_p,
        seed: int = Sampling.seed,
    ) -> Run:
        """The same run, which draws so many translations of each sentence in place of the beam.

        temperature, top_k, top_p: restrict the distribution, as `Sampling` says.

        They are drawn in float32, and come best first: the others are the `alternatives` of the
        first. Raises UserError for values that are out of range, and if the run has a glossary.
        """
        sampling = Sampling(samples, temperature, top_k, top_p, seed)
        translator = self.translator
        decode = replace(translator.decode, beam=1)
        dtype = select_precision("fp32", translator.device)
        run = self.with_search(
            asdict(decode) | {"sampling": asdict(sampling)},
            decode=decode,
            sampling=sampling,
            search_model=inference_copy(translator.model, dtype),
            autocast=autocast(translator.device, dtype),
        )
        computed = {"computed": computed_as(dtype, translator.device)}
        return replace(run, provenance=run.provenance | computed)

    def with_choice(self, references: Iterable[str] | None = None) -> Run:
        """The same run, which chooses one of the samples, or of the n best of the beam, by chrF.

        references: one for each line. The candidate nearest to it is chosen; without references,
            the one that is most like all of them (minimum Bayes risk).

        The others are the `alternatives` of the one chosen. Raises UserError if the run has a
        glossary.
        """
        if references is None:
            return self.with_search({"choose": "mbr"}, chooser=minimum_bayes_risk)
        lines = check_sentences(references)
        settings = {"choose": "reference", "reference": json_digest(lines)}
        return self.with_search(settings, chooser=NearestToReference(lines))


def load(
    paths: Sequence[Path],
    beam: int | None = None,
    batch_tokens: int | None = None,
    precision: str | None = None,
    decode: DecodeConfig | None = None,
    packs: bool = True,
) -> Run:
    """Load checkpoints for translation, several as an ensemble.

    `decode`, `precision` (of search), `beam` and `batch_tokens` replace the first run's own. Search
    uses a packed copy of the weights; without `packs`, it is slower and needs half the memory.
    Raises UserError when an ensemble's members do not have the same vocabularies.
    """
    check_decode(beam=beam, batch_tokens=batch_tokens)
    members = list(map(load_member, paths))
    path, config, tokenizers, model, _ = members[0]
    device = select_device_or_auto(config.device)
    for member in members[1:]:
        check_same_vocabulary(member, members[0])
    for member in members:
        warn_of_wide_window(member)
        member.model.to(device)
    folder = path.parent
    if len(members) > 1:
        model = Ensemble([member.model for member in members]).eval()
        names = "+".join(version_name(path.parent) for path in paths)
        folder = Path(os.path.abspath(version_of(folder)[0])).with_name(names)
    decode = replace(decode or config.decode)
    decode.beam = beam or decode.beam
    decode.batch_tokens = batch_tokens or decode.batch_tokens or default_batch_tokens(device)
    if packs:
        keep_freed_memory()
    dtype = select_precision(precision or config.precision, device)
    processes = usable_processes(device)
    provenances = [member.provenance for member in members]
    weights = [provenance["weights"] for provenance in provenances]
    calibration = read_calibration(folder, weights)
    estimator = read_estimator(folder, weights, quality_extractor(config.train, model))
    translator = Translator(
        model,
        tokenizers,
        decode,
        config.tokenizer.max_pieces,
        device,
        autocast(device, dtype),
        inference_copy(model, dtype) if packs else None,
        processes,
        calibration=calibration or Calibration(),
        estimator=estimator,
    )
    provenance: dict[str, Any] = {
        "decode": asdict(decode),
        "models": provenances,
        "computed": computed_as(dtype, device),
    }
    if calibration:
        provenance["calibration"] = list(calibration)  # of confidences
    if processes > 1:
        # the batches depend on it, and in bf16 the scores on the batches
        provenance["processes"] = processes
    return Run(folder, config, provenance, translator)


class Member(NamedTuple):
    """What a checkpoint holds; an ensemble has several."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    model: EncoderDecoder
    provenance: dict[str, Any]


def load_member(path: Path) -> Member:
    payload = checkpoint.load(path)
    return Member(path, *restore(path, payload), checkpoint_provenance(path, payload))


def computed_as(dtype: torch.dtype, device: torch.device) -> str:
    """The number format and the device of a search, for its provenance."""
    return f"{str(dtype).removeprefix('torch.')} on {device.type}"


def check_same_vocabulary(member: Member, first: Member) -> None:
    """Raise UserError unless a member of an ensemble has the first one's vocabularies."""
    for side, of_first in zip(member.tokenizers, first.tokenizers, strict=True):
        if side.model != of_first.model:
            raise UserError(
                f"{member.path} has another vocabulary than {first.path}; an ensemble needs one "
                "tokenizer for all."
            )


def warn_of_wide_window(member: Member) -> None:
    """Log a warning where a window that training narrows is still wider than its radius."""
    reach = member.model.window_reach
    if reach is not None and reach > member.config.model.window_radius:
        log.warning(
            "The window of %s reaches ±%.3g positions and has not yet narrowed to its radius, ±%d.",
            member.path,
            reach,
            member.config.model.window_radius,
        )


def checkpoint_provenance(path: Path, payload: checkpoint.Payload) -> dict[str, Any]:
    """Where a checkpoint comes from.

    It has the update, a digest of the weights, seed, corpus, versions and configuration.
    """
    provenance = {
        "checkpoint": f"{version_name(path.parent)}/{path.name}",
        "origin": payload.get("origin") or f"update {payload['train_state']['step']}",
        "weights": checkpoint.digest(payload),
        "seed": payload["config"]["seed"],
        "corpus_hash": payload["corpus_hash"],
        "trained_with": payload["versions"],
        "config": payload["config"],
    }
    if "parent" in payload:
        provenance["parent"] = payload["parent"]
    return provenance
