"""Pairs of which a run has written one side (nmt backtranslate, nmt distil), and the tags of
sources."""

import pytest
from corpora import Trained, corpus_of, pairs, run_command, small, write_corpus, write_pairs

from nmt.corpus.corpus_folder import read_report
from nmt.corpus.tags import leading_tags, sentence_start
from nmt.data.tokenizer import Tokenizers
from nmt.decode.translator import Translator

SENTENCES = [pair[0] for pair in pairs(40, seed=3)]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "mono.de"
    path.write_bytes(
        "".join(f"{line}\n" for line in [*SENTENCES, "", "Ende"]).encode() + b"\xff\xfe\n"
    )
    return path


def lines(path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_both_sides_are_aligned_and_tagged(trained: Trained, text, tmp_path, capfd, succeeds):
    words = ["backtranslate", str(trained.folder), str(text), "--output"]
    answer = succeeds(*words, str(tmp_path / "bt"), "--tag")
    assert answer.out == "" and "Line 43 is not UTF-8" in answer.err
    german = lines(tmp_path / "bt.de")
    english = lines(tmp_path / "bt.en")
    assert german == [*SENTENCES, "", "Ende", ""] and len(english) == len(german)
    assert english[40] == english[42] == ""
    assert all(line.startswith("<bt> ") for line in english[:40])
    untagged = [line.removeprefix("<bt> ") for line in english]
    succeeds(*words, str(tmp_path / "plain"))
    assert lines(tmp_path / "plain.en") == untagged
    distil = ["distil", str(trained.folder), str(text), "--output", str(tmp_path / "kd")]
    succeeds(*distil)
    assert lines(tmp_path / "kd.de") == german and lines(tmp_path / "kd.en") == untagged
    translated = run_command(capfd, "translate", str(trained.folder), "--input", str(text))
    assert translated.out.split("\n")[:-1] == untagged


def test_continued_after_an_interruption_it_is_the_same(
    trained: Trained, text, tmp_path, capfd, succeeds, monkeypatch
):
    monkeypatch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", 10)
    words = ["backtranslate", str(trained.folder), str(text), "--output"]
    part = [*words, str(tmp_path / "part")]
    succeeds(*words, str(tmp_path / "whole"))
    real = Translator.translate_chunk
    done = []

    def until_the_third(self, texts, start, *rest):
        done.append(start)
        if len(done) == 3:
            raise KeyboardInterrupt
        return real(self, texts, start, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate_chunk", until_the_third)
        assert run_command(capfd, *part).code == 130
    assert (tmp_path / "part.en.part").exists()
    assert not (tmp_path / "part.en").exists() and not (tmp_path / "part.de").exists()
    assert "--resume continues" in run_command(capfd, *part).err
    assert run_command(capfd, *part, "--tag", "--resume").code == 2, "with another tag"
    monkeypatch.setattr(Translator, "translate_chunk", until_the_third)
    succeeds(*part, "--resume")
    assert done == [1, 11, 21, 21, 31, 41]
    for language in ("de", "en"):
        assert lines(tmp_path / f"part.{language}") == lines(tmp_path / f"whole.{language}")
    assert not list(tmp_path.glob("*.part*"))


def test_a_tag_is_one_piece_and_stays_one(tmp_path, succeeds):
    corpus = write_corpus(tmp_path, train=240)
    new = [*pairs(60, seed=5), ("5 Hunde", "5 dogs")]
    write_pairs(tmp_path, "bt", [(f"<bt> {german}", english) for german, english in new])
    words = [*corpus, f"data.train=[{tmp_path / 'train'},{tmp_path / 'bt'}]"]
    succeeds("tokenize", *small(tmp_path, words, "train.max_steps=1"))
    folder = corpus_of(tmp_path)
    assert read_report(folder)["tags"] == ["<bt>"]
    tokenizers = Tokenizers.load(next((tmp_path / "data").glob("tokenizer-*")))
    assert "<bt>" in tokenizers.source.tags
    assert tokenizers.source.pieces(tokenizers.source.encode("<bt> Die"))[:2] == ["▁", "<bt>"]
    (protected,) = tokenizers.protect_sources(["<bt> 5 DIE KATZE"])
    assert protected.text == "<bt> \uf100 die katze"


def test_what_cannot_be_is_refused(trained: Trained, text, tmp_path, refused):
    words = [str(trained.folder), "--output"]
    assert "Give FILE" in refused("backtranslate", *words, str(tmp_path / "bt"))
    assert "would overwrite" in refused("distil", *words, str(tmp_path / "mono"), str(text))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mono.de"]


@pytest.mark.parametrize(
    "text, tags, sentence",
    [
        ("<2fr> <bt> Hallo <bt>", ["<2fr>", "<bt>"], "Hallo <bt>"),
        ("<2pt-br> a", ["<2pt-br>"], "a"),
        (">>fra<<a", [">>fra<<"], "a"),
        (">>fra<< <bt> a", [">>fra<<", "<bt>"], "a"),
        ("<b> a", [], "<b> a"),
        ("a <bt>", [], "a <bt>"),
        ("<bt>a", [], "<bt>a"),
        ("", [], ""),
    ],
)
def test_tags_before_a_source(text, tags, sentence):
    assert leading_tags(text) == tags
    assert text[sentence_start(text, tags) :] == sentence
