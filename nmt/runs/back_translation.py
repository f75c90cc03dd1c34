"""A training with data.mono: more pairs, of which a model of the other direction has written the
sources.

1. The corpus of the true pairs, which is the same without data.mono, as are its test sets.
2. The run NAME-reverse, trained on these pairs in the other direction, configured like the run.
3. The stage `synthetic`: the sentences of data.mono with their translations.
4. The corpus of true and synthetic pairs, from which the run is trained like any other.

All of them are stored and found again, so that the same command goes on after a kill; within the
translation, after the last chunk of lines.

train.max_minutes is the time of all: a quarter for the reverse model, at most a quarter for the
translation, the rest for the run itself. If the text needs longer, a part of its lines that a hash
chooses is translated. The search is greedy: it is several times as fast as a beam, so that more of
the text fits. The sources have no tag <bt>: with up to four times as many synthetic as true pairs,
Tatoeba and Multi30k lost half a point to a point of BLEU by it. True pairs are repeated until they
are about as many as the synthetic ones, at most four times, which gained a point.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config.schema import LIMITS, Config, DataConfig
from nmt.corpus.checksums import cached_digests, json_digest, read_json, write_json
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.filtering import hash_letters, hash_text
from nmt.corpus.language_pairs import is_multilingual
from nmt.corpus.line_chunks import text_chunks
from nmt.corpus.monolingual import find_files, read_sentences
from nmt.corpus.parallel_text import LineWriter, read_lines
from nmt.corpus.split import SideSet
from nmt.corpus.training_plan import SYNTHETIC
from nmt.errors import UserError
from nmt.evaluate.loops import is_loop
from nmt.runs.folders import run_folder
from nmt.runs.run import Run, load
from nmt.training import checkpoint
from nmt.training.restore import load_config
from nmt.view.progress import Progress

log = logging.getLogger("nmt")
LAST = "last.safetensors"
REVERSE = "-reverse"  # after the name of a run
REVERSE_SHARE = 0.25  # of train.max_minutes
TRANSLATION_SHARE = 0.25  # at most
BEAM = 1
MOST_COPIES = 4  # of each true pair


def check_possible(config: Config) -> None:
    """Raise UserError where data.mono cannot be used, before anything is downloaded or trained."""
    by_hand = "write the pairs with `nmt backtranslate` (docs/guides/fine-tuning.md)"
    if config.from_run is not None:
        raise UserError(
            f"data.mono trains two new models, and from=RUN goes on with one; {by_hand}."
        )
    if is_multilingual(config.data):
        raise UserError(f"data.mono is for one source and one target language; {by_hand}.")
    if config.train.guided_alignment:
        raise UserError(
            "data.mono makes pairs without word links, which train.guided_alignment needs for "
            "every pair."
        )
    find_files(config.data)


def reverse_config(config: Config, corpus: Path) -> Config:
    """The configuration of the reverse model.

    It is the same, for the pairs of a corpus folder with the sides exchanged. The training pairs
    are named as two files, since the links beside them are of the other direction. Once the run
    itself has begun, the reverse model keeps its limits: what the run is given later is for the run
    alone. Raises UserError where sources begin with tags, which the reverse model would learn to
    write.
    """
    report = read_report(corpus)
    if report["tags"]:
        raise UserError(
            "data.mono is not possible where sources begin with tags, as here with "
            f"{report['tags'][0]}."
        )
    source, target = set_files(corpus, "train", config.data)
    data = DataConfig(
        kind="files",
        source=config.data.target,
        target=config.data.source,
        train=f"{target}+{source}",
        valid=str(corpus / "valid"),
        test=[str(corpus / name) for name in report["sets"]] or None,
        max_characters=config.data.max_characters,
        max_length_ratio=config.data.max_length_ratio,
        encoding="utf-8",
    )
    train = config.train
    if train.max_minutes is not None:
        train = replace(train, max_minutes=REVERSE_SHARE * train.max_minutes)
    reverse = replace(config, name=f"{config.name}{REVERSE}", data=data, train=train)
    if (run_folder(config) / LAST).exists():
        stored = vars(load_config(run_folder(reverse) / LAST).train)
        kept = {name: stored[name] for name in (*LIMITS, "patience")}
        reverse = replace(reverse, train=replace(train, **kept))
    return reverse


def recipe_of(config: Config, corpus: Path, path: Path) -> dict[str, Any]:
    """What the stage depends on: true pairs, text, the reverse model at `path`, and its search.

    How much of the text fits into the time is found when it is built, and stays when the run is
    given more time.
    """
    files = [file.path for file in find_files(config.data)]
    payload = checkpoint.load(path)
    return {
        "corpus": corpus.name,
        "mono": cached_digests(files, Path(config.data_folder) / "digests.json"),
        "weights": checkpoint.digest(payload),
        "decode": payload["config"]["decode"] | {"beam": BEAM},
    }


def write_synthetic_pairs(
    config: Config, corpus: Path, path: Path, parts: Path, folder: Path
) -> None:
    """Write synthetic.SOURCE, synthetic.TARGET and report.json into a folder.

    Raises UserError where no pair is left. `path`: the checkpoint of the reverse model. `parts`: a
    folder that keeps the chunks that are translated.
    """
    data = config.data
    run = load([path], beam=BEAM)
    held_out = SideSet()  # the targets of the validation and test sets
    for name in ("valid", *read_report(corpus)["sets"]):
        for line in read_lines(set_files(corpus, name, data)[1]):
            held_out.add(line)
    dropped = Counter[str]()
    total = sum(1 for _ in read_sentences(data, held_out, dropped))
    budget = None
    if config.train.max_minutes is not None:
        budget = 60 * TRANSLATION_SHARE * config.train.max_minutes
    parts.mkdir(parents=True, exist_ok=True)
    translated = 0
    written = 0
    reverse_state = checkpoint.load(path.with_name(LAST), with_tensors=False)["train_state"]
    seconds = reverse_state["seconds"]
    source_file, target_file = set_files(folder, SYNTHETIC, data)
    with (
        LineWriter(source_file) as sources,
        LineWriter(target_file) as targets,
        Progress(total, "line", "translating data.mono") as bar,
    ):
        sentences = read_sentences(data, held_out, Counter())
        for lines, translations, spent in translate(run, sentences, total, budget, parts):
            seconds += spent
            translated += len(lines)
            bar.update(len(lines))
            for line, translation in zip(lines, translations, strict=True):
                reason = fault(line, translation)
                if reason:
                    dropped[reason] += 1
                    continue
                sources.write(translation)
                targets.write(line)
                written += 1
    true = read_report(corpus)["audit"]["train"]["kept"]
    copies = min(MOST_COPIES, max(1, round(written / true)))
    report = {
        "lines": total,
        "translated": translated,
        "pairs": written,
        "dropped": dropped,
        "seconds": seconds,
        "copies": copies,
    }
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    log_report(report, config.train.max_minutes)
    if not written:
        raise UserError(
            f"No pair is left of the {translated:,} lines of data.mono that {path.parent} has "
            "translated: it has learnt too little. Train longer, or without data.mono."
        )


def translate(
    run: Run, sentences: Iterator[str], total: int, budget: float | None, parts: Path
) -> Iterator[tuple[list[str], list[str], float]]:
    """Chunks of sentences with their translations and the seconds that these took.

    `budget`: for all, in seconds. The first chunk says how fast the model is. If the `total` does
    not fit, the same share of all later lines is translated, so that no part of the text is left
    out.
    """
    share = 1.0
    spent = 0.0

    def chosen() -> Iterator[str]:
        for sentence in sentences:
            if share >= 1 or hash_text(sentence) / 2**64 < share:
                yield sentence

    for number, lines in enumerate(text_chunks(chosen())):
        path = parts / f"{number}.json"
        part = read_json(path)
        key = json_digest(lines)
        if part is None or part["lines"] != key:  # of another share, where the time has changed
            began = time.monotonic()
            translated = run.translator.translate_chunk(lines)
            translations = [translation.text for translation in translated]
            part = {"lines": key, "translations": translations, "seconds": time.monotonic() - began}
            write_json(path, part)
        spent += part["seconds"]
        yield lines, part["translations"], part["seconds"]
        if budget is not None and number == 0 and total > len(lines):
            share = (budget - spent) / (spent / len(lines) * (total - len(lines)))
        if budget is not None and spent >= budget:
            return


def fault(line: str, translation: str) -> str | None:
    """Why a sentence and its back-translation are no pair to learn from, None if they are."""
    if not translation.strip():
        return "no translation"
    if is_loop(line, translation):
        return "translation loops"
    if hash_letters(line) == hash_letters(translation):
        return "translation is a copy"
    return None


def log_report(report: dict[str, Any], minutes: float | None) -> None:
    lines = report["lines"]
    translated = report["translated"]
    log.info(
        "data.mono: %s lines translated, which are %s pairs",
        f"{translated:,}",
        f"{report['pairs']:,}",
    )
    for reason, number in report["dropped"].items():
        log.info("  dropped %10s  %s", f"{number:,}", reason)
    if translated < lines:
        log.warning(
            "%s of the %s lines of data.mono are translated; the others do not fit into a "
            "quarter of train.max_minutes=%g.",
            f"{translated:,}",
            f"{lines:,}",
            minutes,
        )


def with_rest_of_time(config: Config, synthetic: Path) -> Config:
    """The configuration with the minutes that are left of train.max_minutes.

    The others went into the reverse model and the translation.
    """
    minutes = config.train.max_minutes
    if minutes is None:
        return config
    left = minutes - read_report(synthetic)["seconds"] / 60
    least = (1 - REVERSE_SHARE - TRANSLATION_SHARE) * minutes
    return replace(config, train=replace(config.train, max_minutes=round(max(least, left), 3)))
