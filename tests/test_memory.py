"""A translation memory for documents: what is in it is reused exactly, what is near is suggested in
XLIFF."""

import random
import re
import time
from dataclasses import replace
from difflib import SequenceMatcher

import pytest
from corpora import Trained, run_command
from documents import translated_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import field, run
from pair_files import tmx_of
from test_packages import word as word_file
from test_packages import word_text

import nmt
from nmt.audit.faults import unlike_pairs
from nmt.config.schema import DataConfig
from nmt.documents.memory import LEAST, TranslationMemory
from nmt.documents.report import NEW, band_of
from nmt.documents.translation import ModelTranslator
from nmt.documents.word_weights import WeightReader

DATA = DataConfig("files", "de", "en", "train", "split", None, 1000, 5.0)
MEMORY = {
    "Eins. Zwei.": "One, two.",
    "Drei vier.": "Three four!",
    "%s liegt in {ort}.": "In {ort} lies %s.",
    "%s oder %s.": "%s or %s.",
    "Ja %s.": "Yes.",
}


def reused(extension: str, text: str, memory: TranslationMemory) -> tuple[str, int]:
    """A document in capitals or from the memory, and how often it is from there."""
    data, counts = translated_bytes(extension, text.encode(), memory=memory)
    return data.decode(), counts["from the memory"]


@pytest.mark.parametrize(
    ("text", "wanted", "count"),
    [
        ("<p>Eins. Zwei.</p>", "<p>One, two.</p>", 1),  # the whole segment
        ("<p>Fünf. Drei vier.</p>", "<p>FÜNF. Three four!</p>", 1),  # a sentence of it
        ("<p>Drei <b>vier</b>.</p>", "<p>Three <b>four</b>!</p>", 1),
        ("<p>%s liegt in {ort}.</p>", "<p>In {ort} lies %s.</p>", 1),
        ("<p>%s oder %s.</p>", "<p>%s or %s.</p>", 1),
        ("<p>Ja %s.</p>", "<p>JA %s.</p>", 0),  # its placeholder would be lost
        ("<p>drei vier.</p>", "<p>DREI VIER.</p>", 0),
    ],
)
def test_what_is_in_the_memory_is_reused(text, wanted, count):
    assert reused(".html", text, TranslationMemory(MEMORY.items())) == (wanted, count)


XLIFF = (
    "<xliff version='1.2'><file><trans-unit id='1'><source>{}</source></trans-unit></file></xliff>"
)
PO = 'msgid ""\nmsgstr ""\n\nmsgid "{}"\nmsgstr ""\n'
ANDROID = "<resources xmlns:xliff='x'><string name='a'>{}</string></resources>"
ADDRESS = ("https://a.de/?x=1&amp;y=2", "https://a.de/?x=1&y=2")


@pytest.mark.parametrize(
    ("extension", "document", "first", "second"),
    [
        (".html", "<p>{}</p>", ADDRESS, ("<code>a &lt; <i>b</i></code>", "a < b")),
        (
            ".html",
            "<p>{}</p>",
            ("&lt;?php x() ?&gt;", "<?php x() ?>"),
            ("{{ x < y }}", "{{ x < y }}"),
        ),
        (".md", "{}\n", ("`git pull`", "git pull"), ("{kbd}`Strg`", "Strg")),
        (".txt", "{}\n", ("%s", "%s"), ("&amp;", "&amp;")),
        (".po", PO, ("<code>git</code>", "git"), ADDRESS[1:] * 2),
        (".xlf", XLIFF, ADDRESS, ('<mrk mtype="protected">X</mrk>', "X")),
        (".xlf", XLIFF, ("&lt;%= x %&gt;", "<%= x %>"), ("&lt;code&gt;y&lt;/code&gt;", "y")),
        (".xml", ANDROID, ('<xliff:g id="z">A\\\'s</xliff:g>', "A's"), ("%1$s", "%1$s")),
    ],
)
def test_a_text_is_looked_up_as_a_reader_sees_it(extension, document, first, second):
    """And its units are written as they were."""
    source = "Erst {} dann {} hier"
    target = "Now {1} then {0} there"
    (old, shown), (other_old, other_shown) = first, second
    memory = TranslationMemory(
        [(source.format(shown, other_shown), target.format(shown, other_shown))]
    )
    text = document.format(source.format(old, other_old))
    translated, count = reused(extension, text, memory)
    assert count == 1 and target.format(old, other_old) in translated


def test_tags_that_are_text_in_the_memory_are_tags_of_the_document():
    """A unit with other tags on its sides, and one with a name in brackets, are found as they
    are."""
    memory = TranslationMemory(
        [
            ("Drei <b class='x'>vier</b>.", "Three <b class='x'>four</b>!"),
            ("Nimm <code>git</code>.", "Take <code>git</code>!"),
            ("Sechs <i>sieben</i>.", "Six seven!"),
            ("Nur <datei> hier.", "Only <file> here!"),
        ]
    )
    for document, wanted in {
        "<p>Drei <b>vier</b>.</p>": "<p>Three <b>four</b>!</p>",
        "<p>Nimm <code>git</code>.</p>": "<p>Take <code>git</code>!</p>",
        "<p>Drei &lt;b class='x'&gt;vier&lt;/b&gt;.</p>": "four",
    }.items():
        translated, count = reused(".html", document, memory)
        assert count == 1 and wanted in translated
    for document in ("<p>Sechs <i>sieben</i>.</p>", "<p>Nur hier.</p>"):
        assert reused(".html", document, memory)[1] == 0


def test_a_date_of_word_is_looked_up_as_it_is_shown():
    memory = TranslationMemory([("Heute, 1.2., bei R&D.", "At R&D today, 1.2.!")])
    text = run("Heute, ") + field("DATE", run("1.2.")) + run(", bei R&amp;D.")
    data, counts = translated_bytes(".docx", word_file(text), memory=memory)
    assert counts["from the memory"] == 1
    assert "".join(re.findall("<w:t[ >][^<]*", word_text(data))).count("R&amp;D today, ") == 1
    assert "1.2." in word_text(data)


def test_a_memory_that_cannot_say_where_a_unit_belongs_is_not_used():
    """It is suggested, where the format has a place for it."""
    memory = TranslationMemory([("Nimm a", "Take a cat"), ("Klicke hier", "Click here")])
    assert reused(".html", "<p>Nimm <code>a</code></p>", memory)[1] == 0
    translated, count = reused(".xlf", XLIFF.format('Klicke <x id="1"/> hier'), memory)
    assert count == 0 and 'match-quality="80%"' in translated


def test_a_reused_target_that_equals_its_source_is_written():
    translated, _ = reused(".xlf", XLIFF.format("OK"), TranslationMemory([("OK", "OK")]))
    assert ">OK</target>" in translated


def similarity(first: str, second: str) -> float:
    return SequenceMatcher(None, first.split(), second.split(), autojunk=False).ratio()


words = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=9)
edits = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["", "a", "b", "x y"])), max_size=3)


@settings(max_examples=300)
@given(words, st.lists(edits, max_size=12), st.lists(words, max_size=12))
def test_the_nearest_is_the_nearest_of_all(text, changes, others):
    """The index leaves out only what is not near: the same as the comparison with every unit."""
    sources = {" ".join(other) for other in others}
    for places in changes:
        changed = list(text)
        for place, word in places:
            changed[place : place + 1] = word.split()
        sources.add(" ".join(changed))
    text = " ".join(text)
    wanted = (LEAST, "", "")
    for source in sources - {text, ""}:
        wanted = max(wanted, (similarity(source, text), source, source.upper()))
    memory = TranslationMemory((source, source.upper()) for source in sources)
    assert memory.nearest(text) == (wanted if wanted[1] else None)


def test_a_large_memory_is_searched_quickly():
    """Words as frequent as in language, by Zipf's law: a query compares few of 20,000 units."""
    generator = random.Random(1)
    words = generator.choices(
        [f"w{n}" for n in range(5000)], [1 / n for n in range(1, 5001)], k=240_000
    )
    sources = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
    memory = TranslationMemory((source, source) for source in sources)
    memory.nearest("w1")  # builds the index
    start = time.process_time()
    for source in sources[:50]:
        near = source.rpartition(" ")[0]
        found = memory.nearest(near)
        assert found and found.source == source and found.similarity == pytest.approx(22 / 23)
    assert time.process_time() - start < 10  # 50 × 20,000 comparisons would take minutes


def test_suggestions_in_xliff():
    memory = TranslationMemory([("Ein roter alter Hund.", "A red old dog.")])
    translated, _ = reused(".xlf", XLIFF.format("Ein alter Hund."), memory)
    wanted = (
        '<alt-trans match-quality="89%"><source>Ein roter alter Hund.</source><target>A red '
        "old dog.</target>"
    )
    assert f"EIN ALTER HUND.</target>{wanted}</alt-trans></trans-unit>" in translated
    segmented = (
        '<trans-unit id="1"><source>Ja. Ein alter Hund.</source><seg-source><mrk mtype="seg" '
        'mid="a">Ja.</mrk> <mrk mtype="seg" mid="b">Ein alter Hund.</mrk></seg-source></trans-unit>'
    )
    document = f"<xliff version='1.2'><file>{segmented}</file></xliff>"
    translated, _ = reused(".xlf", document, memory)
    (attributes,) = re.findall("<alt-trans(.*?)>", translated)
    assert sorted(attributes.split()) == ['match-quality="89%"', 'mid="b"']
    new = (
        '<unit id="1"><segment><source>Ein alter '
        "Hund.</source></segment><segment><source>Ja</source></segment></unit>"
    )
    name = "urn:oasis:names:tc:xliff:document:2.0"
    source = f"<xliff xmlns='{name}' version='2.0'><file id='f'>{new}</file></xliff>"
    translated, _ = reused(".xlf", source, memory)
    wanted = '<mtc:match ref="#s1" matchQuality="89"><source>Ein roter alter Hund.</source>'
    assert f'<mtc:matches xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0">{wanted}' in translated
    assert translated.count('<segment id="s1" ') == 1
    assert '<segment state="translated"><source>Ja' in translated


def many_units(count: int) -> list[tuple[str, str]]:
    """Units whose sides have lengths that go together, and no word in common."""
    generator = random.Random(2)
    units = []
    for _ in range(count):
        size = generator.randint(1, 14)
        sides = [
            " ".join(generator.choices(words, k=size))
            for words in (["ab", "abc", "abcdef"], ["xy", "xyz", "xyzuvw"])
        ]
        units.append((sides[0], sides[1]))
    return units


def test_units_that_are_no_translations_are_not_used(tmp_path, caplog):
    """Those that copy their source, and 500 whose targets are those of their neighbours; a short
    copy is a name."""
    units = dict(many_units(2000))
    sources = list(units)
    targets = list(units.values())
    targets[700:1200] = targets[701:1201]
    lines = ["de\ten"]
    lines += [f"{source}\t{target}" for source, target in zip(sources, targets, strict=True)]
    lines += ["ab abc abcdef ab abc\tab abc abcdef ab abc", "abc\tabc"]
    (tmp_path / "memory.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    memory = TranslationMemory.open(tmp_path / "memory.tsv", DATA, unlike_pairs)
    kept = memory.targets.keys()
    assert (
        len(kept & set(sources[720:1180])) == 0
        and "ab abc abcdef ab abc" not in kept
        and "abc" in kept
    )
    assert len(kept & set(sources[:690] + sources[1210:])) >= 0.98 * (len(sources) - 520)
    assert "units are not used: " in caplog.text and "1 are not translated" in caplog.text


@pytest.mark.parametrize(
    ("source", "target"), [("de-DE", "en-US"), ("de_AT", "en"), ("DE", "en-gb")]
)
def test_languages_of_a_memory_may_have_regions(tmp_path, source, target):
    (tmp_path / "a.tmx").write_text(tmx_of([("Ein Hund", "A dog")], (source, target)))
    assert TranslationMemory.open(tmp_path / "a.tmx", DATA, unlike_pairs).targets == {
        "Ein Hund": "A dog"
    }


UNREVIEWED = (
    "<xliff version='1.2'><file source-language='de' target-language='en'><body>"
    "<trans-unit id='1'><source>Ein Hund</source><target state='{}'>A dog</target></trans-unit>"
    "<trans-unit id='2'><source>Eine Katze</source><target>A cat</target></trans-unit>"
    "</body></file></xliff>"
)
CAT = {"Eine Katze": "A cat"}


@pytest.mark.parametrize(
    ("name", "content", "left_out"),
    [
        ("a.xlf", UNREVIEWED.format("needs-review-translation"), 1),
        ("b.xlf", UNREVIEWED.format("translated").replace("A dog", ""), 1),
        ("a.tsv", "de\ten\nEin Hund\nEin Hund\t\nEine Katze\tA cat\n", 2),
        # in the columns that the run was trained on, other texts
        ("b.tsv", "de\ten\tx\ty\nEine Katze\tA cat\tEin Hund\tA dog\n", 0),
        ("c.tsv", "de\ten\nEine Katze\tA cat\n".encode("utf-16"), 0),
    ],
)
def test_units_that_are_not_used_are_counted(name, content, left_out, tmp_path, caplog):
    """The columns and the encoding of the run's own text are not those of its memory."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    data = replace(DATA, columns=[3, 4], encoding="cp1252")
    with caplog.at_level("INFO", "nmt"):
        assert TranslationMemory.open(path, data, unlike_pairs).targets == CAT
    counts = re.findall(r": (\d+) left out", caplog.text)
    assert sum(map(int, counts)) == left_out


def test_the_command(trained: Trained, capfd, tmp_path):
    """The report counts what was reused; a memory of no known kind or of other languages is
    refused."""
    unit = ("Ein Junge malt.", "He is here.")
    (tmp_path / "a.txt").write_text("Ein Junge malt.\n\nEine Frau malt.\n")
    for name, language in (("en.tmx", "en"), ("fr.tmx", "fr"), ("en.doc", "en")):
        (tmp_path / name).write_text(tmx_of([unit], ("de", language)))

    def translate(memory: str):
        files = ["--document", str(tmp_path / "a.txt"), "--memory", str(tmp_path / memory)]
        return run_command(capfd, "translate", "tiny", "--runs", trained.runs, *files)

    answer = translate("en.tmx")
    assert answer.code == 0 and answer.out.startswith("He is here.\n\n")
    assert (
        "1 sentences translated, 1 to review, 1 from the memory; left as they are: none"
    ) in answer.err
    assert "has no unit in de and en" in translate("fr.tmx").err
    assert "not a file of pairs" in translate("en.doc").err


@pytest.mark.parametrize(
    ("changed", "band"),
    [
        (1, "95–99 %"),
        (2, "85–94 %"),
        (3, "85–94 %"),
        (4, "75–84 %"),
        (5, "75–84 %"),
        (6, "50–74 %"),
        (10, "50–74 %"),
        (11, NEW),
    ],
)
def test_a_band_begins_at_its_least_similarity(changed, band):
    """Of 20 words: a changed one is 5 %."""
    words = [f"wort{number}" for number in range(20)]
    memory = TranslationMemory([(" ".join(words), "x")])
    text = " ".join([*words[changed:], *(f"neu{number}" for number in range(changed))])
    assert band_of(text, memory) == band
    assert band_of(text, None) == NEW


def test_the_words_of_a_reused_translation_are_weighed_by_forced_decoding(trained: Trained):
    """So its tags are placed as those of a new one. One that is too long has no weights."""
    run = nmt.load("tiny", run_folder=trained.runs)
    reader = WeightReader([(run.make_extractor(layer=0), 1.0)])
    translator = ModelTranslator(run.translator, reader)
    source, target = "Ein Hund ist da.", "A dog is there."
    found = translator.weigh(source, target)
    assert [source[slice(*word)] for word in found.source] == ["Ein", "Hund", "ist", "da", "."]
    assert [target[slice(*word)] for word in found.target] == ["A", "dog", "is", "there", "."]
    assert found.weights.sum(1) == pytest.approx(1)
    wanted = reader.read([run.align(source, target).record], source, target)
    assert found.weights == pytest.approx(wanted.weights, abs=1e-5)
    assert translator.weigh(source, "A dog " * run.translator.max_pieces) is None
