"""Runs scored on test sets: BLEU, chrF, and the alignment error rate where there are gold links."""

import hashlib
import logging
import platform
import time
from functools import partial
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nmt.attention import cpu
from nmt.evaluate.extractor_choice import default_extractor
from nmt.evaluate.gold import GoldAlignments, read_gold_alignments
from nmt.evaluate.layer_selection import LayerSelector
from nmt.evaluate.calibration import fit_calibration, measure_confidence, some_pairs, write_calibration
from nmt.config.schema import DecodeConfig
from nmt.data.corpus import set_files
from nmt.data.language_pairs import target_language
from nmt.data.parallel_text import read_pairs
from nmt.decode.translator import Translator
from nmt.training.distributed import World, share_batches
from nmt.evaluate.bleu_chrf import score, tokenization_warning
from nmt.evaluate.compositional_gap import SAMPLES, SEEN, UNSEEN, Gap, compositional_gap
from nmt.evaluate.loops import is_loop
from nmt.evaluate.significance import SEED
from nmt.data.files import report_write_errors
from nmt.runs.provenance import code_digest
from nmt.runs.results import check_writable, read_json, read_result, refuse_links, write_json, write_result
from nmt.runs.run import Run, load
from nmt.runs.score_log import log_scores
from nmt.view.progress import Progress
from nmt.view.text import visible

log = logging.getLogger("nmt")


@dataclass
class Result:
    """The scores of one test set."""

    name: str
    bleu: float
    chrf: float
    bleu_signature: str
    aer: float | None = None  # where there are gold links
    extractor: str = ""  # which weights the links were read off: layer 1, output
    loops: int = 0  # translations with a span that is repeated as no span of the source is
    gap: Gap | None = None  # of test_unseen, where test_seen was scored with it
    before: float | None = None  # BLEU of the run that the training started from

    def line(self) -> str:
        """SET, BLEU, chrF, signature, and what else there is, with tabs between."""
        aer = "" if self.aer is None else f"\tAER {self.aer:.3f} ({self.extractor})"
        gap = "" if self.gap is None else f"\t{self.gap.text()}"
        loops = f"\tloops {self.loops}" if self.loops else ""
        before = "" if self.before is None else f"\tbefore {self.before:.2f} ({self.bleu - self.before:+.2f})"
        return f"{visible(self.name)}\t{self.bleu:.2f}\t{self.chrf:.2f}\t{self.bleu_signature}{before}{aer}{loops}{gap}"


def score_files(
    run: Run,
    name: str,
    source: Path,
    reference: Path,
    gold: GoldAlignments | None = None,
    selector: LayerSelector | None = None,
    world: World | None = None,
) -> Result:
    """Translate a file, score it against its reference, and write hypotheses and result beside the checkpoint.

    With gold links and a selector the references are aligned as well. A stored result of the same provenance is reused.
    """
    folder = run.folder / "evaluate" / name
    pairs = list(read_pairs(source, reference))
    references = [pair[1] for pair in pairs]
    provenance = run.provenance | {"files": fingerprint(pairs), "scoring": code_digest(__name__)}
    if gold is not None and selector is not None:
        provenance["alignment"] = selector.provenance(gold)
    stored = read_result(folder, provenance)
    if world:
        world.broadcast(stored is not None, patient=True)  # for `join_translating`
    if stored is None:
        if warning := tokenization_warning(references):
            log.warning("%s: %s", name, warning)
        with report_write_errors(folder):
            check_writable(folder)  # before the work, not after it
        aligned = {} if gold is None or selector is None else selector.score(gold)  # first, for it may refuse the links
        began = time.monotonic()
        with Progress(len(pairs), "sentence", f"translating {name}") as bar:
            translations = list(run.translator.translate((pair[0] for pair in pairs), bar.update))
        seconds = time.monotonic() - began
        hypotheses = [translation.text for translation in translations]
        language = target_language(run.config.data, name)
        stored = score(hypotheses, references, language) | {"seconds": round(seconds, 2)}
        stored["loops"] = sum(is_loop(pair[0], hypothesis) for pair, hypothesis in zip(pairs, hypotheses, strict=True))
        stored["confidence"] = found = measure_confidence(run.translator, translations, references, language)
        stored |= aligned | {"machine": describe_machine(run.translator), "provenance": provenance}
        with report_write_errors(folder):
            write_result(folder, hypotheses, stored)
        log.info(
            "%s: %d sentences in %.1f s, confidences off by %.3f (ECE), written to %s",
            name, len(pairs), seconds, found["error"], folder,
        )  # fmt: skip
    alignment = stored.get("alignment")
    head = f"head {alignment['head']}, " if alignment and "head" in alignment else ""
    extractor = f"layer {alignment['layer']}, {head}{alignment['decoder_step']}" if alignment else ""
    scores = stored["bleu"], stored["chrf"], stored["bleu_signature"], stored.get("aer")
    return Result(name, *scores, extractor, stored.get("loops", 0))


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
    run: Run, corpus: Path, sets: list[str], selector: LayerSelector | None, world: World | None = None
) -> list[Result]:
    """Score a run on sets of its corpus, with the alignment error rate where the corpus has gold links."""
    results = []
    for name in sets:
        source, reference = set_files(corpus, name, run.config.data)
        results.append(score_files(run, name, source, reference, gold_alignments(run, corpus, name), selector, world))
    by_name = {result.name: result for result in results}
    if {SEEN, UNSEEN} <= by_name.keys():
        by_name[UNSEEN].gap = write_gap(run.folder / "evaluate", corpus, run.config.data.target)
    return results


def write_gap(folder: Path, corpus: Path, language: str) -> Gap:
    """The compositional gap of the translations in `folder`; written there with the provenance of both scores."""
    sets, provenance = {}, {}
    for name in (SEEN, UNSEEN):
        hypotheses, reference = folder / name / "hyp", corpus / f"{name}.{language}"
        pairs = list(read_pairs(hypotheses, reference))
        sets[name] = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        stored = read_json(folder / name / "result.json") or {}
        provenance[name] = {key: stored.get(key) for key in ("bleu_signature", "sha256_of_hyp", "provenance")}
    gap, path = compositional_gap(sets[SEEN], sets[UNSEEN], language), folder / "compositional_gap.json"
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
    scores = []
    for name in sets:
        source, reference = set_files(corpus, name, run.config.data)
        scores.append(score_files(run, f"{name}-before", source, reference, world=world).bleu)
    return scores


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
    selector = make_layer_selector(run, gold_alignments(run, corpus, "valid"))
    results = score_sets(run, corpus, sets, selector, world)
    for result, bleu in zip(results, earlier, strict=False):
        result.before = bleu
    scores = {f"{result.name}_bleu": result.bleu for result in results}
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


def gold_path(corpus: Path, name: str) -> Path:
    """The file of gold links of a set, which may not exist."""
    return corpus / f"{name}.align"


def gold_alignments(run: Run, corpus: Path, name: str) -> GoldAlignments | None:
    """A set of a corpus with its gold links, None where it has none."""
    links = gold_path(corpus, name)
    if not links.exists():
        return None
    source, target = set_files(corpus, name, run.config.data)
    return read_gold_alignments(links, list(read_pairs(source, target)))


def describe_machine(translator: Translator) -> str:
    """The hardware that the seconds of a translation were measured on."""
    if translator.device.type == "cuda":
        return torch.cuda.get_device_name(translator.device)
    processes = translator.num_processes
    parallel = f"processes: {processes}" if processes > 1 else f"threads: {torch.get_num_threads()}"
    return f"CPU {platform.machine()}, {parallel}"


def fingerprint(pairs: list[tuple[str, str]]) -> str:
    """A SHA-256 hash of the text that was scored."""
    return hashlib.sha256("\n".join(f"{source}\t{target}" for source, target in pairs).encode()).hexdigest()
