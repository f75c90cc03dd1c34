"""nmt audit: planted faults are found where they are, and what is damaged is read."""

import json
import random
import re
import shutil
import unicodedata
from itertools import product, zip_longest
from pathlib import Path

import numpy as np
import pytest
from corpora import files_config, pairs, run_command, write_pairs

from nmt.audit import run
from nmt.audit.faults import (
    BOTH,
    HeldOutHashes,
    bags,
    dropped_pairs,
    inspect_chunk,
    other_script,
    pair_faults,
    partly_untranslated,
    same_numbers,
    sequences,
    side_faults,
    unlike_numbers,
)
from nmt.audit.profile import learn_profile
from nmt.audit.report import SetReport, set_html
from nmt.cli import main
from nmt.corpus.filtering import rejection_reason
from nmt.corpus.inspect.language import (
    BIGRAMS,
    in_other_language,
    log_likelihood_ratio,
    usual_scripts,
)
from nmt.corpus.inspect.lines import Lines, lines_of_pairs
from nmt.corpus.inspect.misaligned_blocks import Chunk

LINES = 1000
CLEAN = pairs(1200)[:LINES]
HELD_OUT = pairs(1240)[-40:]
FRENCH = "Plusieurs personnes regardent une voiture devant leur maison blanche."
CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстувшхыз")
WORDS = ["data=files", "data.source=de", "data.target=en"]


def in_source(change):
    """A fault of the source alone."""
    return lambda pair: (change(pair[0]), pair[1])


def in_both(change):
    return lambda pair: (change(pair[0]), change(pair[1]))


def inserted(text: str):
    """A fault within a word."""
    return in_source(lambda side: side[:5] + text + side[5:])


# What must be reported of a pair that is changed so
FAULTS = [
    ("one side blank", in_source(lambda text: " ")),
    ("both sides blank", in_both(lambda text: "")),
    ("not UTF-8", inserted("\udcfc")),
    ("characters of a wrong encoding", inserted("Ã¼")),
    ("byte order mark", in_source(lambda text: "\ufeff" + text)),
    ("control characters", inserted("\x07")),
    ("invisible characters", inserted("\u00ad")),
    ("invisible characters", inserted("\u200e")),
    ("unusual spaces", in_source(lambda text: text.replace(" ", "\u202f", 1))),
    ("quoted as in a table", in_source(lambda text: f'"{text[:5]}""{text[5:]}"')),
    ("unpaired quote", in_source(lambda text: '"' + text)),
    ("HTML entities", in_source(lambda text: text.replace(" ", " &amp; ", 1))),
    ("subwords", in_source(lambda text: text[:2] + "@@ " + text[2:])),
    ("tags", in_source(lambda text: f"<b>{text}</b>")),
    ("characters of a wrong encoding", inserted("e? M?ller")),
    ("all in capitals", in_source(str.upper)),
    ("another script", in_source(lambda text: text.replace("a", "а", 1) + " gаr")),
    ("duplicate", lambda pair: CLEAN[99]),
    ("near duplicate", lambda pair: (CLEAN[109][0].lower(), CLEAN[109][1].rstrip(".") + " !")),
    ("both sides equal", lambda pair: (pair[0], pair[0])),
    ("another script", in_source(lambda text: text.lower().translate(CYRILLIC))),
    ("in the other language", lambda pair: pair[::-1]),
    ("unlike the rest", lambda pair: (pair[0], FRENCH)),
    ("unusual difference of lengths", lambda pair: (pair[0], " ".join([pair[1]] * 4))),
    ("unusual difference of lengths", lambda pair: (pair[0], pair[1][: len(pair[1]) // 4])),
    ("too long", in_both(lambda text: text * (1 + 1001 // len(text)))),
    ("number not on both sides", lambda pair: (f"{pair[0]} (1107)", f"{pair[1]} (1116)")),
    ("looks tokenized", in_both(lambda text: text.replace(".", " ."))),
    ("no capital letters", in_both(str.lower)),
    ("in valid or test", lambda pair: (HELD_OUT[3][0].lower(), HELD_OUT[3][1].replace(".", "!"))),
    ("a side in valid or test", lambda pair: (pair[0], HELD_OUT[4][1])),
]


def rows(text: str) -> dict[tuple[str, str], list[str]]:
    """(set, fault) → the other columns of a table with tabs."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        name, fault, *rest = line.split("\t")
        found.setdefault((name, fault), []).extend(rest)
    return found


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    """audit(pairs, WORD …) → what `nmt audit` of these training pairs printed, and the lines of
    each fault."""
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, "valid", HELD_OUT)

    def call(given, *words: str, line_end: str = "\n"):
        for number, name in enumerate(("de", "en")):
            text = "".join(pair[number] + line_end for pair in given if pair[number] is not None)
            (tmp_path / f"train.{name}").write_bytes(text.encode(errors="surrogateescape"))
        answer = run_command(
            capfd, "audit", *WORDS, "data.train=train", "data.valid=valid", "data.test=null", *words
        )
        (folder,) = sorted(Path("data").glob("audit-*"), key=lambda path: path.stat().st_mtime)[-1:]
        places = rows((folder / "all.tsv").read_text(encoding="utf-8"))
        found = {
            kind: {int(place.rsplit(":", 1)[1]) for place in each}
            for (name, kind), each in places.items()
        }
        return answer, found, folder

    return call


def test_the_pairs_that_pass_are_written_and_the_others_with_their_reasons(audit, capfd):
    """How it is written and unusual spaces are no reason; training takes the result as it is."""
    faulty = list(CLEAN)
    faulty[9] = (CLEAN[9][0], "")
    faulty[19] = (CLEAN[19][0], f"{CLEAN[19][1]}\ta <br> tag")
    faulty[29] = CLEAN[5]
    faulty[39] = (CLEAN[39][0], b"Caf\xe9 noir".decode(errors="surrogateescape"))
    faulty[49] = (CLEAN[49][0].replace(".", " ."), CLEAN[49][1])
    faulty[59] = (CLEAN[59][0].replace(" ", "\u00a0", 1), CLEAN[59][1])
    answer, _, _ = audit(faulty, "--clean", "passed")
    assert (
        answer.code == 0
        and (f"{LINES - 4} pairs pass: nmt train passed.de passed.en") in answer.err
    )
    said = answer.err.partition("These faults reject no pair: ")[2].partition(".\n")[0]
    assert set(said.split(", ")) == {"invisible characters", "looks tokenized", "unusual spaces"}
    kept = [pair for number, pair in enumerate(faulty) if number not in (9, 19, 29, 39)]
    for side, language in enumerate(("de", "en")):
        written = Path(f"passed.{language}").read_text(encoding="utf-8").split("\n")[:-1]
        assert written == [pair[side] for pair in kept]
    others = (
        Path("passed.rejected.tsv").read_bytes().decode(errors="surrogateescape").split("\n")[:-1]
    )
    cells = [line.split("\t") for line in others]
    assert [cell[1] for cell in cells] == [f"train.de:{number}" for number in (10, 20, 30, 40)]
    for (reasons, _, *texts), reason, number in zip(
        cells, ("one side blank", "tags", "duplicate", "not UTF-8"), (9, 19, 29, 39), strict=True
    ):
        assert reason in reasons.split(", ") and texts == [
            text.replace("\t", " ") for text in faulty[number]
        ]
    again, _, _ = audit(faulty, "--clean", "passed")  # of an audit that is there already
    assert (
        "passed.de exists; it is replaced"
    ) in again.err and f"{LINES - 4} pairs pass" in again.err
    words = ["passed.de", "passed.en", "data.valid=valid", "data.test=null"]
    assert f"{LINES - 4} pairs read" in run_command(capfd, "download", *words).err.replace(",", "")
    # A language that no ending tells is named
    Path("pidgin.tsv").write_text("en\tpcm\n" + "".join(f"{a}\t{b}\n" for a, b in kept), "utf-8")
    answer = run_command(capfd, "audit", "pidgin.tsv", "data.target=pcm", "--clean", "x")
    assert answer.err.count("nmt train x.en x.pcm data.source=en data.target=pcm") == 1
    assert run_command(capfd, "audit", *words, "-m", "--clean", "x").code == 2


def test_each_planted_fault_is_found_in_its_line(audit):
    """In lines 600, 610, …; a clean corpus has no fault."""
    assert audit(CLEAN)[1] == {}
    planted = {}
    faulty = list(CLEAN)
    for line, (kind, change) in zip(range(600, LINES, 10), FAULTS, strict=False):
        faulty[line - 1] = change(CLEAN[line - 1])
        planted[line] = kind
    answer, found, folder = audit(faulty)
    for line, kind in planted.items():
        assert line in found[kind], (line, kind)
    assert set().union(*found.values()) == set(planted)
    printed = rows(answer.out)
    for (name, kind), (count, places) in printed.items():
        assert name == "train" and int(count) == len(found[kind])
        assert re.match(rf"\S*train\.(de|en):{min(found[kind])}\b", places)
    page = (folder / "audit.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy\" content=\"default-src 'none'" in page
    assert "<script" not in page and FRENCH in page and "\x07" not in page


def test_entities_are_judged_as_the_characters_that_they_stand_for(audit):
    """The second half of one file is escaped, as Moses and HTML do it: it is no shift, and &#8220;
    is no number."""
    given = list(CLEAN)
    for line in range(LINES // 2, LINES):
        source, target = given[line]
        escaped = target.replace(" the ", " &#8220;the&#8221; ").replace(" a ", " &apos; &#91;a ")
        given[line] = source, f"&lt;i&gt;{escaped}&lt;/i&gt;"
    _, found, _ = audit(given)
    assert found == {"HTML entities": set(range(LINES // 2 + 1, LINES + 1))}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text: f"{text} &amp;quot;", "HTML entities"),
        (lambda text: "▁" + text.replace(" ", " ▁"), "subwords"),
        (lambda text: text.replace("t ", "t@@ ").replace(".", " ."), "subwords"),
        (lambda text: text.replace("s ", " &apos;s ").replace(".", " ."), "HTML entities"),
        (lambda text: text.replace(".", " 。"), "tokenized text"),
        (str.lower, "small letters alone"),
    ],
)
def test_how_all_of_a_text_is_written_is_named_once_and_rejects_no_pair(audit, change, named):
    given = [(change(source), change(target)) for source, target in CLEAN]
    answer, found, _ = audit(given)
    assert f"train has {named} throughout (source and target)" in answer.err
    assert set(found) <= {"unlike the rest"}
    assert len(found.get("unlike the rest", ())) < 3


def test_that_most_pairs_are_rejected_is_said(audit):
    given = [(source, f"<b>{target}</b>") for source, target in CLEAN]
    answer, _, _ = audit([*pairs(99), *given[99:]], "--clean", "passed")
    assert "most of them as 'tags'" in answer.err


def test_what_both_sides_have_says_nothing_of_their_languages(audit):
    """Names and code are on both sides of sound pairs; exchanged pairs and copies are found."""
    given = list(CLEAN)
    names = "in the library of the World Trade Organization and the Wall Street Journal"
    sound = {
        9: (f"Das ist {names}", f"This is {names}"),
        19: ("Die Datei win.about.the.house", "The file win.about.the.house"),
    }
    exchanged = {29, 39, 49}
    for place, pair in sound.items():
        given[place] = pair
    for place in exchanged:
        given[place] = given[place][::-1]
    given[59] = (
        given[59][0],
        f"This is {' '.join(word for word in given[59][0].split()[1:])} {given[69][0]}",
    )
    _, found, _ = audit(given)
    assert found["in the other language"] >= {30, 40, 50, 60}
    assert not {10, 20} & set().union(*found.values())


def test_a_line_is_unlike_the_rest_only_beside_one_that_is_not(audit):
    """Two unlike sides are a rare topic, which says nothing about the pair."""
    given = list(CLEAN)
    german = "Quarzzylinder vexieren Phlox jenseits mythischer Wyxwüsten"
    english = "Quixotic sphinxes vex zephyrs beyond mythic kiwi jungles"
    given[9] = (german, english)
    given[19] = (german, given[19][1])
    given[29] = (given[29][0], english)
    assert audit(given)[1]["unlike the rest"] == {20, 30}


def test_nothing_stays_of_an_audit_that_could_not_begin(audit, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"de": "a", "en": "b"}\n{')
    assert audit(pairs(300))[0].code == 0
    before = sorted(Path("data").glob("audit-*"))
    words = [*WORDS, "data.train=x.jsonl", "data.valid=valid", "data.test=null"]
    assert main(["audit", *words]) == 2 and sorted(Path("data").glob("audit-*")) == before


@pytest.mark.parametrize("longer", [0, 1])
def test_a_file_with_more_lines_is_read_and_reported(audit, longer):
    """A line is lost at 701 of one side: the block begins there, and the last line of the other
    one has no counterpart."""
    clean = [
        (" ".join([de] * (1 + n % 4)), " ".join([en] * (1 + n % 4)))
        for n, (de, en) in enumerate(pairs(LINES))
    ]
    sides = [[pair[side] for pair in clean] for side in (0, 1)]
    del sides[1 - longer][700]
    answer, found, _ = audit(list(zip_longest(*sides)))
    assert answer.code == 0 and abs(min(found["in a misaligned block"]) - 701) <= 5
    assert max(found["in a misaligned block"]) >= LINES - 5
    place = f"train.{('de', 'en')[longer]}:{LINES}"
    assert rows(answer.out)["train", "line without a counterpart"] == ["1", place]


@pytest.mark.usefixtures("audit")
def test_a_line_of_a_table_that_is_not_utf_8_is_reported(capfd):
    """Pair 70 of 100; a training of the same file is refused."""
    given = pairs(100)
    given[69] = (given[69][0] + " \udce4", given[69][1])
    table = [("de", "en"), *given]
    Path("a.tsv").write_bytes(
        "".join("\t".join(row) + "\n" for row in table).encode(errors="surrogateescape")
    )
    words = [*WORDS, "data.valid=valid", "data.test=null", "data.train=a.tsv"]
    found = rows(run_command(capfd, "audit", *words).out)["train", "not UTF-8"]
    assert found[0] == "1" and found[1].endswith(", pair 70")
    assert main(["train", *words, "train.max_steps=1"]) == 2
    assert "is not UTF-8" in capfd.readouterr().err


def test_chunks_of_any_size_have_the_same_result(audit, monkeypatch):
    """Nor have other line ends; of each fault the first places are shown."""
    given = CLEAN[:300]
    given[260] = given[77]
    given[261] = (f"{given[78][0]} 😀", given[78][1])
    given[262] = (f"{given[78][0]} 😁", given[78][1])
    blank = range(56, 300, 40)
    for line in blank:
        given[line - 1] = ("", "x")
    answer, found, folder = audit(given, "data.audit_examples=3")
    assert found["one side blank"] == {*blank} and 261 in found["duplicate"]
    assert {262, 263} <= found["near duplicate"] - found["duplicate"]
    assert found["duplicate"].isdisjoint(blank)  # though all of these are equal
    report = (folder / "report.json").read_bytes()
    fault = json.loads(report)["sets"][0]["faults"]["one side blank"]
    assert fault["pairs"] == len(blank)
    shown = [example["place"] for example in fault["examples"]]
    assert shown == [f"train.de:{line}" for line in blank[:3]]
    again, _, _ = audit(given, "data.audit_examples=3")
    assert again.out == answer.out and (folder / "report.json").read_bytes() == report
    shutil.rmtree(folder)
    monkeypatch.setattr(run, "CHUNK", 100)
    assert audit(given, "data.audit_examples=3")[1] == found
    assert (folder / "report.json").read_bytes() == report
    again, _, other = audit(given, "data.audit_examples=3", line_end="\r\n")
    assert other != folder and again.out == answer.out
    assert (other / "report.json").read_bytes() == report


def test_repeated_pairs_as_by_hand():
    """Every pair against all before it: the same to the letter, or the same near hash and no
    earlier one exactly."""
    near = np.array([1000 * (1 + number * number % 7) for number in range(40)], np.uint64)
    exact = near + np.array([number % 3 for number in range(40)], np.uint64)
    near[near == 5000] = 0  # without words: equal only to the letter
    found = run.find_repeated(exact, near)
    same = {n: [m for m in range(n) if exact[m] == exact[n]] for n in range(40)}
    alike = {n: [m for m in range(n) if near[m] == near[n] != 0] for n in range(40)}
    assert found["duplicate"].T.tolist() == [[n + 1, same[n][0] + 1] for n in range(40) if same[n]]
    assert found["near duplicate"].T.tolist() == [
        [n + 1, alike[n][0] + 1] for n in range(40) if alike[n] and not same[n]
    ]


def test_words_and_hashes_as_by_regular_expressions():
    texts = [
        "",
        "Der Hund, der 25te!",
        "hund der Der",
        "日本語 e\u0301te",
        "H2O \U0001f600 x",
        " ",
        "der\tder hund",
    ]
    found = Lines(texts)
    words = [
        re.findall(r"[日本語]|[0-9]+|[^\W\d_日本語\u0301]+(?:\u0301\w*)?", text.lower())
        for text in texts
    ]
    assert found.words.count.tolist() == [len(each) for each in words]
    for (one, first), (two, second) in product(enumerate(words), enumerate(words)):
        assert (bags(found.words)[one] == bags(found.words)[two]) == (
            sorted(first) == sorted(second)
        )
        assert (sequences(found.words)[one] == sequences(found.words)[two]) == (first == second)
    assert found.blank.tolist() == [not text.strip() for text in texts]


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("53000 Yen", "53,000 yen", True),
        ("am 1.1.2001", "on 2001-01-01", True),
        ("um 15:45", "at 3:45", True),
        ("die 60er", "the 1960s", True),
        ("die 1960er", "the sixties, '60", True),
        ("die 1960er", "the 70s", False),
        ("05 Minuten", "5 minutes", True),
        ("im Jahr 1984", "in 1985", False),
        ("12 Hunde", "dogs", False),
        ("２０００ 円", "2000 yen", True),
        ("3 Hunde", "three dogs", True),
        ("um 15 Uhr", "at 3", True),
        ("um 24 Uhr", "at 12", True),
        ("um 11 Uhr", "at 23", True),
        ("um 15 Uhr", "at 4", False),
        ("25 Hunde", "13 dogs", False),
    ],
)
def test_numbers_with_other_separators_are_the_same(text, other, same):
    assert same_numbers(text, other) == same


@pytest.mark.parametrize(
    ("source", "target", "is_unlike"),
    [
        ("ein Hund", "a dog", False),
        ("5 Hunde", "5 dogs", False),
        ("5 Hunde", "6 dogs", True),  # no number in common
        ("5 Hunde", "five dogs", False),
        ("12 Hunde und 5", "12 dogs and 7", False),  # small ones may be missing
        ("12 Hunde um 1984", "12 dogs in 1985", True),
        ("12 Hunde, 345", "12 dogs", True),
        ("345 Hunde", "three hundred dogs", True),
        ("um 15 Uhr", "at 3", False),
        ("1.000 Hunde", "1,000 dogs", False),
    ],
)
def test_which_numbers_must_be_on_both_sides(source, target, is_unlike):
    """Whichever side is the source, and whatever other pairs there are."""
    pairs_around = [("9 Katzen", "9 cats"), (source, target), ("keine", "none")]
    wanted = [False, is_unlike, False]
    sides = lines_of_pairs(pairs_around)
    assert unlike_numbers(*sides).tolist() == unlike_numbers(*sides[::-1]).tolist() == wanted


def test_lengths_are_judged_as_a_training_judges_them():
    """The audit names every reason that a pair has, training the first one."""
    data = files_config(max_characters=40, max_length_ratio=2.0)
    given = [("a" * first, "b" * second) for first in range(45) for second in range(45)]
    sides = lines_of_pairs(given)
    found = dropped_pairs(data, *sides)
    kinds = ("both sides blank", "one side blank", "too long", "lengths too unlike")
    for number, pair in enumerate(given):
        reason = rejection_reason(*pair, data)
        named = [kind for kind in kinds if found[kind][number]]
        assert next(iter(named), None) == reason


def test_an_unusual_length_is_unlike_that_of_other_pairs(audit):
    """Not unlike the other side's: here every translation has three times the length."""
    given = [(source, " ".join([target] * 3)) for source, target in pairs(300, seed=8)]
    given[7] = (given[7][0], pairs(300, seed=8)[7][1])
    _, found, _ = audit(given)
    assert found["unusual difference of lengths"] == {8}


def test_unusual_characters_are_those_of_unicode():
    """All spaces but the plain one, bytes that are not UTF-8, and what is known to be unseen."""
    names = ["SOFT HYPHEN", "ZERO WIDTH SPACE", "WORD JOINER"]
    names += ["LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "LINE SEPARATOR", "PARAGRAPH SEPARATOR"]
    every = list(map(chr, range(1, 0x10000)))
    wanted = {
        "unusual spaces": [each for each in every if unicodedata.category(each) == "Zs"][1:],
        "invisible characters": ["\t", "\r", *sorted(map(unicodedata.lookup, names))],
        "not UTF-8": [*bytes(range(128, 256)).decode(errors="surrogateescape")],
        "byte order mark": ["\ufeff"],
    }
    texts = [f"ein {each} Wort" for each in every if each != "\n"]
    profile = learn_profile([("ja", "yes")])
    found = side_faults(profile, 0, Lines(texts))
    for kind, characters in wanted.items():
        assert [texts[line][4] for line in np.flatnonzero(found[kind])] == characters, kind


@pytest.mark.parametrize("usual", ["Latin", "Cyrillic"])
def test_a_word_of_mixed_letters_is_found_wherever_they_mix(usual):
    """Letters that look alike: each one in turn is of the other script."""
    alike = str.maketrans("aceopxy", "асеорху")
    words = ["peace", "copy", "cape"]
    if usual == "Cyrillic":
        words = [word.translate(alike) for word in words]
        alike = {value: key for key, value in alike.items()}
    mixed = []
    for word in words:
        for place in range(len(word)):
            mixed.append(word[:place] + word[place].translate(alike) + word[place + 1 :])
    found = other_script(Lines([*mixed, *words]), usual_scripts(Lines(words * 9)))
    assert found.tolist() == [True] * len(mixed) + [False] * len(words)


def test_held_out_sentences_as_by_comparison_with_each():
    """The same words in their order; a line without words is in no set."""
    lines = ["der Hund", "Der Hund!", "Hund, der", "eine Katze", "", "...", "!", "5"]
    every = list(product(lines, repeat=2))

    def words(pair):
        return tuple(" ".join(re.findall(r"\w+", text.lower())) for text in pair)

    def hashes(given):
        source, target = lines_of_pairs(given)
        return sequences(source.words), sequences(target.words)

    generator = random.Random(1)
    for _ in range(20):
        chosen = generator.sample(every, 3)
        held_out = HeldOutHashes()
        for pair in chosen:
            held_out.add(hashes([pair]))
        known = set(map(words, chosen))
        leaked = [all(words(pair)) and words(pair) in known for pair in every]
        sides = [{text for text in side if text} for side in zip(*known, strict=True)]
        one_side = []
        for pair, is_leaked in zip(every, leaked, strict=True):
            source, target = words(pair)
            one_side.append(not is_leaked and (source in sides[0] or target in sides[1]))
        found = held_out.faults(hashes(every))
        assert found["in valid or test"].tolist() == leaked
        assert found["a side in valid or test"].tolist() == one_side


def test_half_of_the_longer_words_are_those_of_the_source():
    source = Lines(["Der kleine Hund läuft schnell durch unseren Garten"] * 3)
    target = Lines(
        [
            "The little dog läuft schnell durch unseren Garten",
            "The little dog runs quickly through our Garten",
            "Who läuft schnell durch these very many other gardens near here",
        ]
    )
    of_source = np.ones(BIGRAMS, np.float32)
    assert partly_untranslated(source, target, of_source).tolist() == [True, False, False]
    # words that are the target's own
    assert not partly_untranslated(source, target, -of_source).any()


def test_each_side_is_in_another_language_by_its_own_margin():
    """The last target is text of the source's language."""
    never = 1e9
    lines = [
        *pairs(200),
        ("Mein Bruder sucht zwei Bücher.", "Die Frau kauft das rote Fahrrad im Garten."),
    ]
    source, target = lines_of_pairs(lines)
    ratio = log_likelihood_ratio(source, target)
    for margins, found in (((never, 0.0), [False, True]), ((0.0, never), [False, False])):
        sides = in_other_language(ratio, source, target, margins)
        assert [bool(side[-1]) for side in sides] == found
    exchanged = in_other_language(-ratio, target, source, (0.0, never))
    assert [bool(side[-1]) for side in exchanged] == [True, False]


def test_both_sides_are_judged_alike():
    """With the sides exchanged, the same lines are in the other language."""
    generator = random.Random(1)
    known = pairs(200)
    ratio = log_likelihood_ratio(*lines_of_pairs(known))
    mixed = []
    for _ in range(300):
        words = [generator.choice(generator.choice(known)).split() for _ in range(4)]
        cut = generator.randrange(4)
        mixed.append((" ".join(sum(words[:cut], [])), " ".join(sum(words[cut:], []))))
    source, target = lines_of_pairs(mixed)
    for margin in (0.0, 5.0, 20.0):
        sides = in_other_language(ratio, source, target, (margin, margin))
        exchanged = in_other_language(-ratio, target, source, (margin, margin))
        for found, same in zip(sides, exchanged[::-1], strict=True):
            np.testing.assert_array_equal(found, same)
            assert 0.05 < found.mean() < 0.95


def test_a_repeated_pair_is_found_in_its_own_file(audit, tmp_path):
    """Also the first pair of a file, which repeats one of the file before it."""
    write_pairs(tmp_path, "more", pairs(3))
    answer, found, _ = audit(pairs(40), "data.train=[train,more]")
    assert answer.code == 0 and found["duplicate"] == {1, 2, 3}


@pytest.mark.parametrize(
    ("source", "target", "is_odd"),
    [
        ("Er sagt „ja“.", 'He says "yes".', False),
        ("Er sagt „ja“.", "He says yes.", False),
        ("Er sagt ja.", 'He says "yes" and "no".', False),
        ("Er sagt „ja.", 'He says "yes".', True),
        ("Er sagt „ja“.", 'He says yes".', True),
        ("Er sagt „ja.", 'He says "yes.', False),  # a quotation over several lines
    ],
)
def test_other_quotation_marks_are_no_fault(source, target, is_odd):
    """One that is open on one side alone is."""
    given = [("ja", "yes"), (source, target)]
    sides = lines_of_pairs(given)
    found = pair_faults(learn_profile(given), files_config(), *sides, np.zeros(2, bool))
    assert found["unpaired quote"].tolist() == [False, is_odd]


def test_the_side_of_a_fault_is_named():
    """That of the target is in its file; a fault of both sides is in that of the source."""
    odd = "ein\u00adWort"
    chunk = Chunk([("ja", "yes"), (odd, "yes"), ("ja", odd), (odd, odd)], slice(0, 4), 11)
    profile = learn_profile(chunk.pairs)
    found = inspect_chunk(profile, files_config(audit_examples=2), None, chunk)
    assert found.faults["invisible characters"] == [(12, 0), (13, 1), (14, BOTH)]
    assert found.texts["invisible characters"] == chunk.pairs[1:3]


@pytest.mark.usefixtures("audit")
def test_a_wrong_language_of_one_of_several_pairs_is_named(capfd):
    """The French side of the training text is German."""
    for name, given in (("train", pairs(300)), ("valid", pairs(340)[300:])):
        for language, side in (("de", 0), ("fr", 0), ("en", 1)):
            text = "".join(f"{pair[side]}\n" for pair in given)
            Path(f"{name}.{language}").write_text(text, encoding="utf-8")
    words = ["data=files", "data.source=de+fr", "data.target=en", "data.train=train"]
    answer = run_command(capfd, "audit", *words, "data.valid=valid", "data.test=null")
    assert answer.code == 0, answer.err
    count, place = rows(answer.out)["train", "languages not as named"]
    assert count == "300" and place.startswith("train.fr")


def test_a_report_counts_and_shows_what_was_found():
    """The most frequent fault first; of each as many examples as wanted, and three places."""
    report = SetReport("train", pairs=400, unjudged=7)
    for number in range(4):
        report.add("tags", 2, [f"a:{number}"], [("<b>", "x")], 3)
    report.add("too long", 20, ["b:1"], ["to 9"], 3)
    report.add("blank", 0, [], [], 3)
    assert list(report.rows()) == [
        ("train", "too long", 20, "b:1"),
        ("train", "tags", 8, "a:0, a:1, a:2"),
    ]
    report.origins += [
        {"origin": "a", "pairs": 300, "tokenized text": "source", "subwords": "target"},
        {"origin": "b", "pairs": 100, "problem": "it looks like fr"},
    ]
    first, tokenized, subwords, second, last = report.notes()
    assert first == "300 pairs of a"
    assert "tokenized text throughout (source)" in tokenized and "detokenize" in tokenized
    assert "subwords throughout (target)" in subwords
    assert second == "100 pairs of b; it looks like fr"
    assert last.startswith("7 pairs")
    page = set_html(report)
    assert re.findall(r"<td[^>]*>([^<]*)</td>", page) == [
        "too long",
        "20",
        "5 %",
        "tags",
        "8",
        "2 %",
    ]
    assert page.count("&lt;b&gt;") == 3
    assert page.count("b:1 to 9") == 1
    assert "No fault was found" in set_html(SetReport("test"))
