"""nmt audit: planted faults are found where they are, a clean corpus is not accused, nothing is changed."""

import random

import numpy as np
import pytest
from corpora import run_command

from nmt.audit import corpus_audit
from nmt.audit.block import Limits, Sample, Side, find_faults
from nmt.audit.characters import Characters
from nmt.audit.stretches import MIN_EVIDENCE, Evidence, LineSummaries, Rise, StretchFinder
from nmt.data import duplicates

NOUNS = {
    "Hund": "dog",
    "Mann": "man",
    "Turm": "tower",
    "Garten": "garden",
    "Winter": "winter",
    "Fisch": "fish",
    "Ring": "ring",
}
VERBS = {"sieht": "sees", "findet": "finds", "kennt": "knows", "malt": "paints", "trägt": "carries"}
PLACES = {
    "in Berlin": "in Berlin",
    "am See": "at the lake",
    "heute": "today",
    "vor dem alten Haus": "in front of the old house",
}
NAMES = ("Tom", "Eva", "Kim", "Jonas", "Marie")
LIMITS = Limits(1000, 5.0)
FRENCH = "Une petite fille joue avec son chien dans le jardin de la maison."


def make_pairs(number: int, seed: int = 1) -> list[tuple[str, str]]:
    """Invented pairs, no two the same."""
    draw = random.Random(seed)
    pairs: dict[tuple[str, str], None] = {}
    while len(pairs) < number:
        one, two = draw.sample(list(NOUNS), 2)
        verb, place, name = draw.choice(list(VERBS)), draw.choice(list(PLACES)), draw.choice(NAMES)
        times, end = draw.randrange(2, 99), draw.choice(["", f" mit {name}"])
        source = f"Der {one} {verb} {times} mal den {two} {place}{end}."
        target = f"The {NOUNS[one]} {VERBS[verb]} the {NOUNS[two]} {times} times {PLACES[place]}"
        pairs[source, f"{target}{end.replace('mit', 'with')}."] = None
    return list(pairs)


PAIRS = make_pairs(2000)


@pytest.fixture(scope="module")
def sample():
    return Sample(PAIRS)


def test_a_clean_corpus_is_not_accused(sample):
    assert find_faults(PAIRS, LIMITS, sample).faults == {}


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("one side blank", ("Der Hund.", " ")),
        ("both sides blank", ("", "")),
        ("lengths too unlike", ("Der Hund sieht.", "The dog sees " * 20)),
        ("lengths are unusual", ("Der Hund sieht den Mann im Garten.", "A dog.")),
        ("control characters", ("Der Hund\x07 sieht.", "The dog sees.")),
        ("HTML entities, such as &amp;", ("Hund & Mann sehen.", "Dog &amp; man see.")),
        ("characters of a wrong encoding, such as Ã¼ for ü", ("Er trÃ¤gt den Hund.", "He carries the dog.")),
        ("byte order mark inside", ("Der \ufeffHund sieht.", "The dog sees.")),
        ("both sides equal", ("Tom, Eva, Kim.", "Tom, Eva, Kim.")),
        ("mostly copied", ("Ja: the man sees the dog today.", "The man sees the dog today.")),
        ("numbers differ", ("Es sind 1.250 Hunde.", "There are 1,350 dogs.")),
        ("addresses or codes differ", ("Mail an tom@see.de bitte.", "Mail to eva@see.de please.")),
        ("source looks tokenized", ("Der Hund , der den Mann sieht .", "The dog that sees the man.")),
        ("target looks tokenized", ("Der Hund sieht nicht.", "The dog does n't see.")),
        ("source in small letters", ("der hund sieht den mann.", "The dog sees the man.")),
        ("target in capitals", ("Der Hund sieht den Mann.", "THE DOG SEES THE MAN.")),
        ("source in another language", (FRENCH, "The dog sees the man today at the lake.")),
        ("source in another language", ("The man sees the dog in the garden.", "The man sees the fish in the garden.")),
        ("target in another script", ("Der Hund sieht den Mann.", "Собака видит человека.")),
    ],
)  # fmt: skip
def test_a_fault_is_found(sample, name, pair):
    found = find_faults([*PAIRS[:50], pair, *PAIRS[50:90]], LIMITS, sample).faults
    assert found[name].tolist() == [50]


@pytest.mark.parametrize(
    "pair",
    [
        ("Das kostet 1.250,50 Euro.", "That costs 1,250.50 euros."),  # separators of thousands and decimals
        ("Der Zug fährt um 14 Uhr.", "The train leaves at 2 pm."),
        ("Zwei Hunde.", "2 dogs."),
        ("5 Hunde sehen den Mann.", "5 dogs see the man."),  # begins with a digit, so that no capital is missing
        ("Mail an tom@see.de bitte.", "Please mail tom@see.de today."),
        ("Tom sieht Eva im Garten.", "Tom sees Eva in the garden."),
        ("Hm … ?!", "Hm …"),
    ],
)
def test_a_right_pair_is_not_accused(sample, pair):
    assert find_faults([*PAIRS[:50], pair], LIMITS, sample).faults == {}


def test_hashes_agree_where_letters_do():
    def hashes(line: str) -> tuple[int, int]:
        exact, letters = Side([line, "x"]).hashes()
        return int(exact[0]), int(letters[0])

    one, same, other = hashes("Der Hund, ja!"), hashes("der HUND ja"), hashes("Der Hund, je!")
    assert one[0] != same[0] and one[1] == same[1] != other[1]
    assert hashes("?!")[1] == 0 != hashes("?!")[0]
    words = [f"{number:x}" for number in range(20_000)]
    characters = Characters.of(words)
    assert len(np.unique(characters.hashes(np.ones(len(characters.codes), bool)))) == len(words)


def shifted(shift: int | None, first: int, size: int) -> list[tuple[str, str]]:
    """The pairs with the targets of a stretch shifted, or shuffled where `shift` is None."""
    targets = [target for _, target in PAIRS]
    stretch = targets[first - (shift or 0) : first - (shift or 0) + size]
    if shift is None:
        random.Random(2).shuffle(stretch)
    targets[first : first + size] = stretch
    return [(source, target) for (source, _), target in zip(PAIRS, targets, strict=True)]


@pytest.mark.parametrize(("shift", "block"), [(1, 4096), (1, 64), (-3, 64), (None, 256), (5, 7)])
def test_a_shifted_stretch_is_found_with_its_ends(sample, shift, block):
    """Whatever the size of the blocks is in which the pairs come."""
    pairs, finder = shifted(shift, 700, 80), StretchFinder(sample.evidence)
    for start in range(0, len(pairs), block):
        sides = zip(*pairs[start : start + block], strict=True)
        finder.add(*(LineSummaries.of(Characters.of([line.lower() for line in side])) for side in sides))
    [found] = finder.finish()
    assert found.shift == shift
    assert abs(found.first - 700) <= 6 and abs(found.last - 779) <= 6
    assert found.evidence > MIN_EVIDENCE


def test_evidence_is_for_the_own_translation(sample):
    source, target = (LineSummaries.of(Characters.of([pair[side].lower() for pair in PAIRS])) for side in (0, 1))
    evidence = Evidence(source, target)
    assert evidence.of(source, target).mean() > 1 > -1 > evidence.of(source[1:], target[:-1]).mean()


def test_a_rise_ends_at_its_highest_point():
    values = np.array([-1.0, -2, 20, 20, -3, 10, -50, 4, -9, 40])
    whole = Rise()
    assert whole.add(values) + whole.end() == [(2, 5, 47.0), (9, 9, 40.0)]
    parts = Rise()
    found = [each for value in values for each in parts.add(np.array([value]))]
    assert found + parts.end() == [(2, 5, 47.0), (9, 9, 40.0)]


@pytest.fixture
def corpus(tmp_path):
    """Files of a corpus with faults in known lines."""
    train = PAIRS[:1500]
    train[9] = ("", "The dog.")
    train[99] = PAIRS[50]
    train[199] = (PAIRS[60][0].lower(), PAIRS[60][1].rstrip(".") + "!")
    train[299] = PAIRS[1900]
    sets = {"train": train, "valid": PAIRS[1800:1850], "test": PAIRS[1890:1910]}
    for name, pairs in sets.items():
        for side, language in enumerate(("de", "en")):
            lines = [pair[side].encode() for pair in pairs]
            if name == "train" and language == "de":
                lines[399] = b"Der Hund tr\xe4gt den Mann am See."
            (tmp_path / f"{name}.{language}").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\r\n")
    with open(tmp_path / "train.en", "ab") as file:
        file.write(b"One line more.\n")
    names = [f"data.{name}={tmp_path / name}" for name in sets]
    return ["data=files", "data.source=de", "data.target=en", *names, f"data_folder={tmp_path / 'data'}"]


@pytest.mark.parametrize("processes", [1, 2])
def test_the_command_says_which_line_has_what(capfd, tmp_path, corpus, monkeypatch, processes):
    monkeypatch.setattr(corpus_audit, "usable_processors", lambda: processes)
    monkeypatch.setattr(corpus_audit, "PAIRS", 300)
    monkeypatch.setattr(duplicates, "HELD_PAIRS", 400)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    answer = run_command(capfd, "audit", *corpus, "--html", str(tmp_path / "page.html"))
    assert answer.code == 0
    rows = [line.split("\t") for line in answer.out.splitlines()]
    file = tmp_path / "train.de"
    assert {(name, fault, int(pairs), where) for name, fault, pairs, _, where in rows if name == "train"} == {
        ("train", "one side blank", 1, f"{file}:10"),
        ("train", "duplicate", 1, f"{file}:100"),
        ("train", "near-duplicate: the same letters", 1, f"{file}:200"),
        ("train", "source in small letters", 1, f"{file}:200"),
        ("train", "both sides also in valid or test", 1, f"{file}:300"),
        ("train", "not UTF-8", 1, f"{file}:400"),
        ("train", "characters of a wrong encoding, such as Ã¼ for ü", 1, f"{file}:400"),
        ("train", "lines that only one file has", 1, f"{file}:1501"),
    }
    assert before == {name: (tmp_path / name).read_bytes() for name in before}
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page and PAIRS[1900][1] in page and "<script" not in page


def test_a_small_corpus_is_audited_without_a_sample(capfd, tmp_path):
    for language, text in (("de", "Ja.\nNein.\n"), ("en", "Yes.\n\n")):
        (tmp_path / f"train.{language}").write_text(text, encoding="utf-8")
    words = ["data=files", "data.source=de", "data.target=en", f"data.train={tmp_path / 'train'}", "data.test=null"]
    answer = run_command(capfd, "audit", *words, f"data_folder={tmp_path / 'data'}")
    assert answer.code == 0 and answer.out == f"train\tone side blank\t1\t50.000\t{tmp_path / 'train.de'}:2\n"
