"""Test sets, of the corpus of a run or files of one's own, and the scores of runs on them."""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from nmt.config.schema import Config, DecodeConfig, flatten
from nmt.corpus.checksums import json_digest
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.files import report_write_errors, write_atomic
from nmt.corpus.language_pairs import target_language
from nmt.corpus.parallel_text import read_lines, read_pairs
from nmt.corpus.training_plan import LEARNT, OLD
from nmt.errors import UserError
from nmt.evaluate import calibration, estimate
from nmt.evaluate.aer import GoldAlignments, LayerSelector, read_gold_alignments
from nmt.evaluate.calibration import (
    fit_calibration,
    measure_confidence,
    some_pairs,
    write_calibration,
)
from nmt.evaluate.estimate import Estimator, fit_estimator, quality_extractor, write_estimate
from nmt.evaluate.extraction import default_extractor
from nmt.evaluate.loops import is_loop
from nmt.evaluate.measured import was_measured
from nmt.evaluate.metrics import (
    STANDARD,
    Translated,
    copies_warning,
    open_scorer,
    score,
    tokenization_warning,
)
from nmt.evaluate.significance import compositional_gap
from nmt.evaluate.verdict import (
    TrainingFigures,
    TrainingText,
    few_new_pairs,
    judge,
    measure,
    write_verdict,
)
from nmt.runs.folders import existing_corpus
from nmt.runs.provenance import code_digest
from nmt.runs.results import Result, check_writable, read_result, write_result
from nmt.runs.run import Run, load
from nmt.training.checkpoint import versions
from nmt.training.restore import load_config
from nmt.view.progress import Progress
from nmt.view.tensorboard import TensorBoardLogger

# of a set that is scored: half of the 95 % interval of BLEU is about 70 / √sentences
FEW_SENTENCES = 200
# known and new combinations of verb and object; their gap is measured
SEEN = "test_seen"
UNSEEN = "test_unseen"
log = logging.getLogger("nmt")


@dataclass
class TestSet:
    """Source sentences with one or more references, and gold links of the first, if any."""

    __test__ = False  # pytest collects no class of this name
    name: str
    source: Path
    references: list[Path]
    gold: GoldAlignments | None = field(default=None, repr=False)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Each source sentence with its first reference.

        Raises UserError if the numbers of lines differ.
        """
        return list(read_pairs(self.source, self.references[0]))

    @property
    def sources(self) -> list[str]:
        return [source for source, _ in self.pairs]

    @cached_property
    def reference_lines(self) -> list[list[str]]:
        """The lines of each reference."""
        references = [[target for _, target in self.pairs]]
        for path in self.references[1:]:
            references.append([target for _, target in read_pairs(self.source, path)])
        return references


def corpus_set(config: Config, corpus: Path, name: str) -> TestSet:
    """A set of a corpus, with its gold links where it has some."""
    source, target = set_files(corpus, name, config.data)
    test_set = TestSet(name, source, [target])
    links = corpus / f"{name}.align"
    if links.exists():
        test_set.gold = read_gold_alignments(links, test_set.pairs)
    return test_set


def write_set(name: str, folder: Path, pairs: Iterable[Sequence[str]]) -> TestSet:
    """Pairs of sentences as a set of its own, in two files of a folder; raises UserError."""
    paths = [folder / f"{name}.{side}" for side in ("source", "reference")]
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_pairs(paths, pairs)
    return TestSet(name, paths[0], paths[1:])


def write_pairs(paths: Sequence[Path], pairs: Iterable[Sequence[str]]) -> None:
    """Write the two sides of pairs to a file each, one line for each pair; raises OSError."""
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        write_atomic(path, "".join(f"{line}\n" for line in lines))


def warn_of_size(name: str, size: int) -> None:
    """Log a warning where a set has so few sentences that its scores say little."""
    if size < FEW_SENTENCES:
        log.warning(
            "%s has %d pairs: by chance alone, its BLEU is off by some %d points.",
            name,
            size,
            70 / size**0.5,
        )


def corpus_hashes(run: Run) -> set[str]:
    """The hashes of the corpora that its members were trained on."""
    return {model["corpus_hash"] for model in run.provenance["models"]}


def corpus_of(run: Run) -> Path | None:
    """The corpus that all members of a run were trained on, None where it is gone."""
    return existing_corpus(run.config, corpus_hashes(run), run.folder)


def sets_of_split(split: str | None, name: str, run: Run) -> list[TestSet]:
    """The sets of the corpus of a run that --split selects.

    Raises UserError where the run has none, or its corpus is gone. It is never prepared again: what
    a stranger's checkpoint names would be downloaded, or copied, where it says.
    """
    corpus = corpus_of(run)
    if corpus is None:
        raise UserError(
            f"The corpus that {name} was trained on is not in {run.config.data_folder}, or not "
            "that of all its members; give --source and --reference, or prepare it with `nmt "
            "download` and the words of the training."
        )
    sets = read_report(corpus)["sets"]
    if split not in (None, "test", "valid", *sets):
        possible = ", ".join(dict.fromkeys(["test", "valid", *sets]))
        raise UserError(f"--split {split} is not possible; choose one of {possible}.")
    if split not in (None, "test"):
        sets = [split]
    if not sets:
        raise UserError(f"The corpus of {name} has no test set; give --source and --reference.")
    return [corpus_set(run.config, corpus, chosen) for chosen in sets]


def score_set(
    run: Run, test_set: TestSet, selector: LayerSelector | None = None, metrics: Sequence[str] = ()
) -> Result:
    """Translate a set, score it against its references, and write hypotheses and result.

    They are written beside the checkpoint. metrics: besides BLEU and chrF. With gold links and a
    selector the references are aligned as well. A stored result of the same provenance is reused;
    metrics that it lacks are computed from its translations.
    """
    name = test_set.name
    folder = run.folder / "evaluate" / name
    beam = run.translator.decode.beam
    if beam != run.config.decode.beam:
        folder = folder.with_name(f"{name}-beam-{beam}")
    language = target_language(run.config.data, name)
    metrics = list(dict.fromkeys([*STANDARD, *metrics]))
    for metric in metrics:
        open_scorer(metric, language)  # raises UserError before the work, not after it
    scored_with = versions() | {"code": code_digest(__name__)}
    provenance = run.provenance | {"files": fingerprint(test_set), "scored_with": scored_with}
    if test_set.gold is not None and selector is not None:
        provenance["alignment"] = selector.provenance(test_set.gold)
    for lines in test_set.reference_lines:
        for warning in (tokenization_warning(lines), copies_warning(test_set.sources, lines)):
            if warning:
                log.warning("%s: %s", name, warning)
    stored = read_result(folder, provenance)
    measured = stored or {"provenance": provenance}
    if stored:
        hypotheses = list(read_lines(folder / "hyp"))
    else:
        references = test_set.reference_lines[0]
        with report_write_errors(folder):
            check_writable(folder)  # before the work, not after it
        if test_set.gold is not None and selector is not None:
            measured |= selector.score(test_set.gold)  # first, for it may refuse the links
        began = time.monotonic()
        with Progress(len(references), "sentence", f"translating {name}") as bar:
            translations = list(run.translator.translate(test_set.sources, bar.update))
        measured["seconds"] = round(time.monotonic() - began, 2)
        hypotheses = [translation.text for translation in translations]
        measured["loops"] = sum(map(is_loop, test_set.sources, hypotheses))
        measured["confidence"] = measure_confidence(run.translator, translations, references)
    translated = Translated(hypotheses, test_set.reference_lines, test_set.sources)
    result = measured | score(translated, language, metrics, measured)
    if result != stored:
        with report_write_errors(folder):
            write_result(folder, hypotheses, result)
    if stored is None:
        log.info(
            "%s: %d sentences in %.1f s, confidences off by %.3f (ECE), written to %s",
            name,
            len(hypotheses),
            result["seconds"],
            result["confidence"]["error"],
            folder,
        )
    return Result(name, result, hypotheses, metrics)


def score_sets(
    run: Run,
    test_sets: Sequence[TestSet],
    selector: LayerSelector | None,
    metrics: Sequence[str] = (),
) -> list[Result]:
    """Score a run on several sets.

    test_unseen also has the gap to test_seen if both are among them.
    """
    results = []
    translated = {}
    for test_set in test_sets:
        result = score_set(run, test_set, selector, metrics)
        results.append(result)
        translated[result.name] = Translated(result.hypotheses, test_set.reference_lines)
    for result in results:
        if result.name == UNSEEN and SEEN in translated:
            language = run.config.data.target
            result.gap = compositional_gap(translated[SEEN], translated[UNSEEN], language)
    return results


def calibrate(run: Run, corpus: Path) -> Run:
    """The run with confidences and estimates that fit its validation set, with its own search.

    They are fitted now, and kept in its folder, unless they were before with the same weights,
    search, pairs and code.
    """
    pairs = some_pairs(list(read_pairs(*set_files(corpus, "valid", run.config.data))))
    code = [code_digest(function.__module__) for function in (fit_calibration, fit_estimator)]
    key = json_digest([run.weights, asdict(run.config.decode), pairs, code])
    files = [run.folder / calibration.FILE, run.folder / estimate.FILE]
    if "calibration" in run.provenance and all(was_measured(path, key) for path in files):
        return run

    translator = run.with_beam(run.config.decode.beam).translator
    translations = list(translator.translate(source for source, _ in pairs))
    references = [target for _, target in pairs]
    fitted = fit_calibration(translator, translations, references)
    translator = replace(translator, calibration=fitted)
    extractor = quality_extractor(run.config.train, translator.model)
    fitted_estimate = fit_estimator(translator, translations, references, extractor)
    with report_write_errors(run.folder):
        write_calibration(run.folder, run.weights, fitted, len(pairs), key)
        write_estimate(run.folder, run.weights, fitted_estimate, len(pairs), key)
    estimator = None
    if fitted_estimate:
        regression, _ = fitted_estimate
        estimator = Estimator(regression, extractor)
        log.info(
            "The expected chrF of a sentence is off by %.0f on average (correlation %.2f, "
            "cross-validated on %d validation pairs).",
            regression.error,
            regression.correlation,
            len(pairs),
        )
    provenance = run.provenance | {"calibration": list(fitted)}
    translator = replace(run.translator, calibration=fitted, estimator=estimator)
    return replace(run, provenance=provenance, translator=translator)


def score_trained(
    path: Path,
    corpus: Path,
    sets: list[str],
    decode: DecodeConfig,
    training: TrainingFigures,
    before: Path | None = None,
) -> list[Result]:
    """Score a finished training on every test set of its corpus.

    Settings and scores are written to TensorBoard. Without a test set it is judged by its
    validation set. `before`: the checkpoint that the training started from, scored as well; what
    that writes is in the new run's folder.
    """
    config = load_config(path)
    packs = not config.train.lora  # LoRA is for models of which a copy might not fit in the memory
    if before and all(name.startswith(OLD) for name in sets):
        sets = ["valid", *sets]  # something new is always compared with before
    test_sets = [corpus_set(config, corpus, name) for name in sets]
    bleu_before = {}
    if before:  # first, so that one model is in memory at a time
        earlier = replace(load([before], decode=decode, packs=packs), folder=path.parent)
        for test_set in test_sets:
            set_before = replace(test_set, name=f"{test_set.name}-before", gold=None)
            bleu_before[test_set.name] = score_set(earlier, set_before).bleu
        del earlier
    run = calibrate(load([path], decode=decode, packs=packs), corpus)
    selector = make_layer_selector(run)
    metrics = [] if run.config.train.metric == "loss" else [run.config.train.metric]
    results = score_sets(run, test_sets, selector, metrics)
    for result, test_set in zip(results, test_sets, strict=True):
        result.before = bleu_before.get(test_set.name)
    judge_trained(run, corpus, test_sets, results, training)

    scores = {}
    for result in results:
        for name, value in result.values.items():
            scores[f"test/{result.name}_{name}"] = value
        if result.aer is not None:
            scores[f"test/{result.name}_aer"] = result.aer
    with report_write_errors(path.parent):
        logger = TensorBoardLogger.for_scores(path.parent / "tensorboard")
        logger.hyperparameters(flatten(run.config), scores)
        logger.close()
    return results


def judge_trained(
    run: Run,
    corpus: Path,
    test_sets: Sequence[TestSet],
    results: Sequence[Result],
    training: TrainingFigures,
) -> None:
    """Write what a run is fit for into its folder.

    It is judged by its new test sets where it has some, else by its validation set.
    """
    learnt = None
    judged = []
    for test_set, result in zip(test_sets, results, strict=True):
        if test_set.name == LEARNT:
            learnt = test_set
        elif not test_set.name.startswith(OLD):
            judged.append((test_set, result))
    if not judged and learnt is None:
        valid = corpus_set(run.config, corpus, "valid")
        judged.append((valid, score_set(run, valid)))
    text = TrainingText.read(set_files(corpus, "train", run.config.data)[1])
    figures = []
    for test_set, result in judged:
        language = target_language(run.config.data, test_set.name)
        translated = Translated(result.hypotheses, test_set.reference_lines, test_set.sources)
        figures.append(measure(result.stored, test_set.name, translated, text, language))
    with report_write_errors(run.folder):
        if learnt is not None and not judged:
            verdict = few_new_pairs(len(learnt.pairs))
        else:
            verdict = judge(figures, training)
        write_verdict(run.folder, run.weights, verdict, figures, training)


def make_layer_selector(run: Run) -> LayerSelector | None:
    """What chooses layer and decoder step of a run, on its validation set if that has gold links.

    None for a model without attention.
    """
    model = run.translator.model
    if not model.has_attention:
        return None
    corpus = corpus_of(run)
    valid = corpus_set(run.config, corpus, "valid").gold if corpus else None
    return LayerSelector(run.translator, default_extractor(run.config.train, model), valid)


def fingerprint(test_set: TestSet) -> str:
    """A SHA-256 hash of the text that is scored: sources and references."""
    return json_digest([test_set.sources, *test_set.reference_lines])
