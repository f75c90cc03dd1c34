"""Runs scored on test sets: the metrics, and the alignment error rate where there are gold links."""

import hashlib
import logging
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nmt.attention import cpu
from nmt.config.schema import Config, DecodeConfig
from nmt.data.corpus import set_files
from nmt.data.files import report_write_errors
from nmt.data.language_pairs import target_language
from nmt.data.parallel_text import read_lines, read_pairs
from nmt.decode.translator import Translator
from nmt.evaluate.calibration import fit_calibration, measure_confidence, some_pairs, write_calibration
from nmt.evaluate.extraction import default_extractor
from nmt.evaluate.aer import GoldAlignments
from nmt.evaluate.aer import LayerSelector
from nmt.evaluate.loops import is_loop
from nmt.evaluate.metrics import STANDARD, Translated, open_scorer, score, scores_in, tokenization_warning
from nmt.evaluate.significance import SAMPLES, SEED, Gap, compositional_gap
from nmt.runs.provenance import code_digest
from nmt.data.checksums import read_json, write_json
from nmt.data.files import refuse_links
from nmt.runs.results import check_writable, read_result, write_result
from nmt.runs.run import Run, load
from nmt.runs.score_log import log_scores
from nmt.runs.test_sets import TestSet, corpus_set
from nmt.training.distributed import World, share_batches
from nmt.view.progress import Progress
from nmt.view.text import visible

SEEN, UNSEEN = "test_seen", "test_unseen"  # known and new combinations of verb and object; their gap is measured
log = logging.getLogger("nmt")


@dataclass
class Result:
    """The scores of one test set."""

    name: str
    stored: dict[str, Any]  # the content of its result.json
    hypotheses: list[str]
    more_metrics: Sequence[str] = ()  # that were asked for, besides BLEU and chrF
    gap: Gap | None = None  # of test_unseen, where test_seen was scored with it
    before: float | None = None  # BLEU of the run that the training started from

    @property
    def scores(self) -> dict[str, float]:
        """The score of each metric, by name."""
        return {name: value for name, _, value, _ in scores_in(self.stored)}

    @property
    def bleu(self) -> float:
        """BLEU, 0 to 100."""
        return self.stored["bleu"]

    @property
    def chrf(self) -> float:
        """chrF, 0 to 100."""
        return self.stored["chrf"]

    @property
    def bleu_signature(self) -> str:
        """How sacreBLEU computed BLEU."""
        return self.stored["bleu_signature"]

    @property
    def aer(self) -> float | None:
        """The alignment error rate, where there are gold links."""
        return self.stored.get("aer")

    @property
    def extractor(self) -> str:
        """Which weights the links were read off, such as `layer 1, output`; empty without gold links."""
        if not (alignment := self.stored.get("alignment")):
            return ""
        head = f"head {alignment['head']}, " if "head" in alignment else ""
        return f"layer {alignment['layer']}, {head}{alignment['decoder_step']}"

    @property
    def loops(self) -> int:
        """How many translations have a span that is repeated as no span of the source is."""
        return self.stored.get("loops", 0)

    def line(self) -> str:
        """SET, BLEU, chrF, signature, and what else there is, with tabs between."""
        parts = [visible(self.name), f"{self.bleu:.2f}", f"{self.chrf:.2f}", self.bleu_signature]
        if self.before is not None:
            parts.append(f"before {self.before:.2f} ({self.bleu - self.before:+.2f})")
        parts += [
            f"{metric.label} {value:.{metric.digits}f} ({signature})"
            for name, metric, value, signature in scores_in(self.stored)
            if name in self.more_metrics
        ]
        if self.aer is not None:
            parts.append(f"AER {self.aer:.3f} ({self.extractor})")
        parts += [f"loops {self.loops}"] if self.loops else []
        return "\t".join([*parts, *([self.gap.text()] if self.gap else [])])


def score_set(
    run: Run,
    test_set: TestSet,
    selector: LayerSelector | None = None,
    metrics: Sequence[str] = (),
    world: World | None = None,
) -> Result:
    """Translate a set, score it against its references, and write hypotheses and result beside the checkpoint.

    metrics: besides BLEU and chrF. With gold links and a selector the references are aligned as well. A stored result
    of the same provenance is reused; metrics that it lacks are computed from its translations.
    """
    name, folder = test_set.name, run.folder / "evaluate" / test_set.name
    language = target_language(run.config.data, name)
    metrics = list(dict.fromkeys([*STANDARD, *metrics]))
    for metric in metrics:
        open_scorer(metric, language)  # raises UserError before the work, not after it
    provenance = run.provenance | {"files": fingerprint(test_set), "scoring": code_digest(__name__)}
    if test_set.gold is not None and selector is not None:
        provenance["alignment"] = selector.provenance(test_set.gold)
    stored = read_result(folder, provenance)
    if world:
        world.broadcast(stored is not None, patient=True)  # for `join_translating`
    if stored is None:
        hypotheses, measured = translate_set(run, test_set, selector)
        measured["provenance"] = provenance
    else:
        hypotheses, measured = list(read_lines(folder / "hyp")), stored
    translated = Translated(hypotheses, test_set.reference_lines, test_set.sources)
    result = measured | score(translated, language, metrics, measured)
    if result != stored:
        with report_write_errors(folder):
            write_result(folder, hypotheses, result)
    if stored is None:
        log.info(
            "%s: %d sentences in %.1f s, confidences off by %.3f (ECE), written to %s",
            name, len(hypotheses), result["seconds"], result["confidence"]["error"], folder,
        )  # fmt: skip
    return Result(name, result, hypotheses, metrics[len(STANDARD) :])


def translate_set(run: Run, test_set: TestSet, selector: LayerSelector | None) -> tuple[list[str], dict[str, Any]]:
    """The translations of a set, and all that is measured while they are made."""
    name, folder, references = test_set.name, run.folder / "evaluate" / test_set.name, test_set.reference_lines[0]
    if warning := tokenization_warning(references):
        log.warning("%s: %s", name, warning)
    with report_write_errors(folder):
        check_writable(folder)  # before the work, not after it
    # First, for it may refuse the links.
    measured = {} if test_set.gold is None or selector is None else selector.score(test_set.gold)
    began = time.monotonic()
    with Progress(len(references), "sentence", f"translating {name}") as bar:
        translations = list(run.translator.translate(test_set.sources, bar.update))
    measured["seconds"] = round(time.monotonic() - began, 2)
    hypotheses = [translation.text for translation in translations]
    measured["loops"] = sum(map(is_loop, test_set.sources, hypotheses))
    language = target_language(run.config.data, name)
    measured["confidence"] = measure_confidence(run.translator, translations, references, language)
    measured["machine"] = describe_machine(run.translator)
    return hypotheses, measured


def calibrate(run: Run, corpus: Path) -> Run:
    """The run with confidences that fit its validation set, fitted now and kept in its folder if they are not yet."""
    if "calibration" in run.provenance:
        return run
    sides = set_files(corpus, "valid", run.config.data)
    pairs = some_pairs(list(read_pairs(*sides)))
    calibration = fit_calibration(run.translator, pairs)
    with report_write_errors(run.folder):
        weights = [model["weights"] for model in run.provenance["models"]]
        write_calibration(run.folder, weights, calibration, len(pairs))
    provenance = run.provenance | {"calibration": list(calibration)}
    return replace(run, provenance=provenance, translator=replace(run.translator, calibration=calibration))


def score_sets(
    run: Run,
    corpus: Path,
    sets: list[str],
    selector: LayerSelector | None,
    metrics: Sequence[str] = (),
    world: World | None = None,
) -> list[Result]:
    """Score a run on sets of its corpus, with the alignment error rate where the corpus has gold links."""
    results = [score_set(run, corpus_set(run.config, corpus, name), selector, metrics, world) for name in sets]
    by_name = {result.name: result for result in results}
    if {SEEN, UNSEEN} <= by_name.keys():
        by_name[UNSEEN].gap = write_gap(run.folder / "evaluate", corpus, run.config)
    return results


def write_gap(folder: Path, corpus: Path, config: Config) -> Gap:
    """The compositional gap of the translations in `folder`; written there with the provenance of both scores."""
    sets, provenance = {}, {}
    for name in (SEEN, UNSEEN):
        pairs = list(read_pairs(folder / name / "hyp", set_files(corpus, name, config.data)[1]))
        sets[name] = Translated([hypothesis for hypothesis, _ in pairs], [[reference for _, reference in pairs]])
        stored = read_json(folder / name / "result.json") or {}
        provenance[name] = {key: stored.get(key) for key in ("bleu_signature", "sha256_of_hyp", "provenance")}
    gap, path = compositional_gap(sets[SEEN], sets[UNSEEN], config.data.target), folder / "compositional_gap.json"
    content = {**gap._asdict(), "samples": SAMPLES, "seed": SEED, "provenance": provenance}
    refuse_links(path)
    with report_write_errors(folder):
        if read_json(path) != content:
            write_json(path, content)
    return gap


def score_before(
    path: Path, folder: Path, corpus: Path, sets: list[str], decode: DecodeConfig, world: World
) -> list[float]:
    """BLEU of the run that a training started from on the same sets; what it writes goes to `folder`, the new run's."""
    run = replace(load_in_all(path, decode, world), folder=folder)
    if not world.is_main:
        join_translating(run, corpus, sets, world)
        return []
    test_sets = (replace(corpus_set(run.config, corpus, name), name=f"{name}-before", gold=None) for name in sets)
    return [score_set(run, test_set, world=world).bleu for test_set in test_sets]


def score_trained(
    path: Path, corpus: Path, sets: list[str], decode: DecodeConfig, world: World, before: Path | None = None
) -> list[Result]:
    """Score a finished training on every test set of its corpus, and write settings and scores to TensorBoard.

    `before`: the checkpoint that the training started from, scored as well. The processes of `world` translate
    together; process 0 alone scores, writes and has results.
    """
    earlier = score_before(before, path.parent, corpus, sets, decode, world) if before else []
    run = load_in_all(path, decode, world)
    if not world.is_main:
        join_translating(run, corpus, sets, world)
        return []
    run = calibrate(run, corpus)
    selector = make_layer_selector(run, corpus_set(run.config, corpus, "valid").gold)
    metrics = [] if run.config.train.metric == "loss" else [run.config.train.metric]
    results = score_sets(run, corpus, sets, selector, metrics, world)
    for result, bleu in zip(results, earlier, strict=False):
        result.before = bleu
    scores = {f"{result.name}_{metric}": value for result in results for metric, value in result.scores.items()}
    scores |= {f"{result.name}_aer": result.aer for result in results if result.aer is not None}
    log_scores(path.parent, run.config, scores, [result.name for result in results])
    return results


def load_in_all(path: Path, decode: DecodeConfig, world: World) -> Run:
    """The same checkpoint in every process, in the number format and with the matrices of process 0, which times them.

    It is read after process 0 has read it, that is, after the last save.
    """
    if world.size == 1:
        return load([path], decode=decode)
    run = load([path], decode=decode) if world.is_main else None
    is_bf16 = world.broadcast(run is not None and run.provenance["computed"].startswith("bfloat16"), patient=True)
    column_major = world.broadcast(world.is_main and cpu.uses_column_major())
    if run is None:
        cpu.fix_layout(bool(column_major))
        run = load([path], precision="bf16" if is_bf16 else "fp32", decode=decode)
    run.provenance.pop("processes", None)
    return replace(run, translator=replace(run.translator, map_batches=partial(share_batches, world), num_processes=1))


def join_translating(run: Run, corpus: Path, sets: list[str], world: World) -> None:
    """The part of a process other than 0 in `score_sets`: to translate with it the sets that have no score yet."""
    for name in sets:
        source, reference = set_files(corpus, name, run.config.data)
        if not world.broadcast(0, patient=True):
            for _ in run.translator.translate(pair[0] for pair in read_pairs(source, reference)):
                pass


def make_layer_selector(run: Run, valid: GoldAlignments | None) -> LayerSelector | None:
    """What chooses layer and decoder step of a run, on `valid` if given; None for a model without attention."""
    if not run.translator.model.has_attention:
        return None
    return LayerSelector(run.translator, default_extractor(run.config.train, run.translator.model), valid)


def describe_machine(translator: Translator) -> str:
    """The hardware that the seconds of a translation were measured on."""
    if translator.device.type == "cuda":
        return torch.cuda.get_device_name(translator.device)
    processes = translator.num_processes
    parallel = f"processes: {processes}" if processes > 1 else f"threads: {torch.get_num_threads()}"
    return f"CPU {platform.machine()}, {parallel}"


def fingerprint(test_set: TestSet) -> str:
    """A SHA-256 hash of the text that is scored: sources and references."""
    lines = zip(test_set.sources, *test_set.reference_lines, strict=True)
    return hashlib.sha256("\n".join(map("\t".join, lines)).encode()).hexdigest()
