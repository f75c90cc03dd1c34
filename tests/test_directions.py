"""One direction of a run that has several: for teachers, documents, links of words, and from
Python."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from corpora import (
    SMALL,
    TRANSFORMER,
    last_of_each_key,
    lines_of,
    pairs,
    run_command,
    small,
    write_pairs,
)
from test_multilingual import write_texts
from test_pretrained import save_m2m100

import nmt
from nmt.data.training_links import TrainingLinks
from nmt.errors import UserError

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; `make test` brings it"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`imported` from M2M-100, between de, en and fr, and `own`, trained for two updates from en
    into de and fr."""
    from nmt import cli

    root = tmp_path_factory.mktemp("directions")
    (root / "m2m100").mkdir()
    torch.manual_seed(1)
    save_m2m100(root / "m2m100", [list(side) for side in zip(*pairs(200), strict=True)], nllb=False)
    folders = [str(root / "m2m100"), "--runs", str(root / "runs")]
    several = ["--source", "de+en+fr", "--target", "de+en+fr"]
    assert cli.main(["import", *folders, "--name", "imported", *several]) == 0
    assert cli.main(["train", *small(root, into_two(root, "own"))]) == 0
    return root / "runs"


def into_two(folder: Path, name: str) -> list[str]:
    """The overrides of a training for two updates from en into de and fr."""
    words = ["data.test=null", f"name={name}", "train.max_steps=2", "train.average_checkpoints=0"]
    return [*write_texts(folder, "en", "de+fr"), *words]


@pytest.mark.parametrize(("name", "tag"), [("imported", "<en2fr>"), ("own", "<2fr>")])
def test_a_direction_needs_no_tag(name, tag, runs):
    """The same pieces as with the tag; and the tag is no word of its links."""
    several = nmt.load(name, run_folder=runs, precision="fp32")
    one = nmt.load(name, run_folder=runs, precision="fp32", source="eng", target="fr-FR")
    assert (one.config.data.source, one.config.data.target) == ("en", "fr")
    texts = [target for _, target in pairs(6)]
    ours, theirs = (run.translator.tokenizers for run in (one, several))
    for text in texts:
        assert ours.source.encode(text) == theirs.source.encode(f"{tag} {text}")
    tagged = several.translate([f"{tag} {text}" for text in texts])
    assert [line.text for line in one.translate(texts)] == [line.text for line in tagged]
    pieces = one.align(texts[0], "x").record.source_pieces
    assert pieces[0].startswith("▁") and "2fr" not in "".join(pieces)
    assert one.provenance != several.provenance
    with pytest.raises(UserError, match="no language 'cs'"):
        nmt.load(name, run_folder=runs, target="cs")


def test_what_stands_behind_a_tag(runs):
    """A tag is not copied, is no span of the source, and stands before each part of a long line."""
    run = nmt.load("own", run_folder=runs, precision="fp32")
    assert run.translator.tokenizers.protects
    copied, word, capitals = run.translate(
        ["<2fr>  12  ½ № 3 ", "<2fr> dog", "<2fr> THE BIG DOG 12"]
    )
    assert not word.is_copied
    assert copied.is_copied and copied.text == "12 ½ № 3"
    assert not any("2fr" in span.lower() for span in capitals.changed_spans)

    short = replace(run.translator, max_pieces=12)
    (line,) = short.translate([f"<2fr> {' '.join(target for _, target in pairs(5))}"])
    tag = run.translator.tokenizers.source.encode("<2fr>")
    assert len(line.parts) > 1
    for part in line.parts:
        assert part.source_ids[: len(tag)] == tag and len(part.source_ids) <= 12

    # A line of tags is divided as well, and ends
    (line,) = short.translate(["<2fr> " * 40 + "dog"])
    assert line.parts and all(len(part.source_ids) <= 12 for part in line.parts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *itertools.product(["imported", "own"], ["Dog", "DOG AND CAT", "the dog"]),
        ("own", "DOG AND CAT https://example.org"),
    ],
)
def test_a_term_stands_behind_a_tag(name, text, runs, tmp_path):
    """It may begin a sentence, or be in the capitals of a line, as without a tag."""
    (tmp_path / "terms.tsv").write_text("dog\tchien\n", "utf-8")
    run = nmt.load(name, run_folder=runs).with_glossary(tmp_path / "terms.tsv")
    tokenizers = run.translator.tokenizers
    tag = sorted(tag for tag in tokenizers.source.tags if tag.endswith("2fr>"))[0]
    (source,) = tokenizers.encode_sources(tokenizers.protect_sources([f"{tag} {text}"]))
    (term,) = run.translator.terms.source_terms(source)
    assert term.start >= tokenizers.source.sentence_start(source) > 0
    found = tokenizers.source.pieces(source[term.start : term.end])
    assert "".join(found).strip("▁").lower() == "dog"
    with pytest.raises(UserError, match="begin with a given text"):
        run.with_prefix("le")
    with pytest.raises(UserError, match="begin with a given text"):
        nmt.load(name, run_folder=runs).with_prefix("le").with_glossary(tmp_path / "terms.tsv")


@pytest.mark.parametrize("command", ["distil", "backtranslate"])
def test_a_teacher(command, runs, tmp_path, capfd, succeeds):
    write_pairs(tmp_path, "text", pairs(6))
    texts = [str(tmp_path / "text.en"), "--output", str(tmp_path / "out")]
    words = [command, "imported", *texts, "--runs", str(runs)]
    assert "choose one with --source and --target" in run_command(capfd, *words).err
    succeeds(*words, "--source", "en", "--target", "fra")
    source = (tmp_path / "text.en").read_text("utf-8")
    assert (tmp_path / "out.en").read_text("utf-8") == source
    one = nmt.load("imported", run_folder=runs, source="en", target="fr")
    wanted = [line.text for line in one.translate(source.splitlines())]
    assert lines_of(tmp_path / "out.fr") == wanted


def test_a_student_of_one_direction(runs, tmp_path, refused, succeeds, monkeypatch):
    """The teacher's own text has all directions, so text has to be given."""
    words = ["data.source=en", "data.target=fr", f"data_folder={tmp_path}", f"run_folder={runs}"]
    for name in ("imported", "own"):
        assert "--text" in refused("student", name, *words)
    # The teacher is random, and loops
    monkeypatch.setattr("nmt.runs.distillation.is_loop", lambda source, translation: False)
    write_pairs(tmp_path, "text", pairs(140))
    text = ["--text", str(tmp_path / "text.en")]
    words += [*TRANSFORMER, *SMALL, "data.split_size=5", "name=one", "train.max_steps=2"]
    words += ["train.validate_every=2", "train.average_checkpoints=0", "data.test=null"]
    succeeds("student", "imported", *text, *last_of_each_key(*words))
    (folder,) = tmp_path.glob("distilled-*/")
    sources = lines_of(folder / "distilled.en")
    one = nmt.load("imported", run_folder=runs, source="en", target="fr")
    targets = lines_of(folder / "distilled.fr")
    assert targets == [line.text for line in one.translate(sources)]
    shutil.rmtree(runs / "one")


def test_a_document(runs, tmp_path, capfd, succeeds):
    pytest.importorskip("sentencex", reason="sentencex is not installed; `make test` brings it")
    (tmp_path / "a.html").write_text("<p>The <b>dog</b> sleeps.</p>\n", "utf-8")
    words = ["translate", "imported", "--document", str(tmp_path / "a.html"), "--runs", str(runs)]
    assert "choose one with --source and --target" in run_command(capfd, *words).err
    answer = succeeds(*words, "--source", "en", "--target", "de")
    assert answer.out.startswith("<p>") and "<b>" in answer.out and "de>" not in answer.out


def test_guided_alignment(tmp_path, capfd, succeeds):
    """Each pair has a file of links; its words are counted behind the tag."""
    words = into_two(tmp_path, "guided") + ["model=transformer", "train.guided_alignment=0.05"]
    answer = run_command(capfd, "train", *small(tmp_path, words))
    assert answer.code == 2 and "PREFIX.SOURCE-TARGET.align" in answer.err
    count = len(lines_of(tmp_path / "train.en"))
    for target in ("de", "fr"):
        (tmp_path / f"train.en-{target}.align").write_text("0-1\n" * count, "utf-8")
    answer = succeeds("train", *small(tmp_path, words))


def test_links_count_the_words_behind_a_tag(runs, tmp_path):
    tokenizers = nmt.load("own", run_folder=runs).translator.tokenizers
    (tmp_path / "one.align").write_text("0-0\n", "utf-8")
    links = TrainingLinks(tmp_path / "one.align", tokenizers, tokenized=False, shift=0)
    text = pairs(1)[0][1]
    source = tokenizers.source.encode(f"<2fr> {text}")
    target = tokenizers.target.encode(text)
    matrix = links.piece_links(source, target, 1)
    assert tokenizers.source.pieces(source[:2]) == ["▁", "<2fr>"]
    assert not matrix[:, :2].any() and matrix[0, 2] > 0


@pytest.mark.slow
def test_an_imported_run_learns_in_one_direction(runs, tmp_path, succeeds):
    """Its text is nowhere, so pairs of other directions guard, and validate."""
    folders = ["--runs", str(tmp_path / "runs"), f"data_folder={tmp_path / 'data'}"]
    shutil.copytree(runs / "imported", tmp_path / "runs" / "imported")
    write_pairs(tmp_path, "everyday", pairs(6, seed=8))
    rows = "".join(f"{target}\t{source.upper()}\n" for source, target in pairs(30))
    (tmp_path / "rows.tsv").write_text(f"en\tfr\n{rows}", "utf-8")
    words = ["--from", str(tmp_path / "rows.tsv"), "--source", "en", "--target", "fra"]
    words += ["--test", str(tmp_path / "everyday"), "device=cpu", "precision=fp32"]
    words += ["train.max_steps=2", "train.log_sentences=0"]
    succeeds("learn", "imported", *folders, *words)
    folder = tmp_path / "runs" / "imported" / "versions" / "2"
    record = json.loads((folder / "version.json").read_text("utf-8"))
    assert record["scores"].keys() == {"corrections", "everyday-de-en", "everyday-en-de"}
    one = nmt.load(folder, source="en", target="fr")
    data = nmt.load(folder).config.data
    learnt = lines_of(folder / f"learnt.{data.source}")
    assert learnt and all(line.startswith("<en2fr> ") for line in learnt)
    assert len(one.translate(["The dog sleeps."])) == 1
