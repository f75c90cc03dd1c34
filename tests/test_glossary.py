"""Terms of a glossary: the file, where they match, and that every translation has them while the
rest stays."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import small_config
from corpora import Trained, run_command
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import nmt
from nmt.config.schema import DecodeConfig
from nmt.data.text_filter import PLACEHOLDERS, Encoded, Protected
from nmt.data.tokenizer import UNK, Tokenizers
from nmt.decode.beam_search import Hypothesis
from nmt.decode.constraints import Template
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.glossary import Entry, Glossary, Term, find_target, open_glossary
from nmt.decode.term_search import (
    ANCHOR,
    MissingTerm,
    TermSpan,
    encode_term,
    find_term_span,
    forms,
    is_form,
    search_again,
    sentence_templates,
    templates_for_span,
)
from nmt.decode.translation import Translation
from nmt.decode.translator import Query, Translator
from nmt.errors import UserError
from nmt.models.build import build

SENTENCE = "Ein Junge malt das rote Fahrrad im Garten."
OTHER = "Mein Bruder sucht zwei Bücher."
LINES = {"Fahrrad": "big hat", "Bücher": "flowers"}


def read_glossary(path: Path) -> Glossary:
    """A tokenizer of characters, which knows no `#`."""
    tokenizer = SimpleNamespace(
        lowercase=False, encode=lambda text: [UNK if sign == "#" else sign for sign in text]
    )
    both = SimpleNamespace(source=tokenizer, target=tokenizer)
    return open_glossary(path, SimpleNamespace(tokenizers=both, max_pieces=64))  # type: ignore[arg-type]


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "terms.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_terms(folder: Path, terms: dict[str, str]) -> Path:
    return write(folder, "".join(f"{source}\t{target}\n" for source, target in terms.items()))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Hund\tdog\tanimal\n", "line 1"),
        ("Hund\tdog\nKatze cat\n", "line 2"),
        ("\tdog\n", "line 1"),
        ("Hund\tdog|\n", "line 1"),
        ("Hund\tdog\nK\xe4fer\tbeetle\n".encode("latin-1"), "line 2"),
        ("Hund\tdog\n\nHund\thound\n", "line 3.*'Hund'.*line 1"),
        ("Hund\tdog|#1\n", "line 1.*'#1'"),
        ("Fahrrad\t" + "h" * 65, "line 1.*=64"),
        ("\n \n", "no terms"),
    ],
)
def test_a_wrong_file_gives_one_sentence(text, names, tmp_path):
    with pytest.raises(UserError, match=names):
        read_glossary(write(tmp_path, text))


def test_byte_order_mark_line_ends_and_spaces_do_not_matter(tmp_path):
    plain = read_glossary(write(tmp_path, "Hund\tdog\nrotes Rad\tred  bike|bicycle\n"))
    spaced = "Hund \tdog\r\n\r\nrotes  Rad\tred bike| bicycle |red bike\r\nHund\tdog"
    other = read_glossary(write(tmp_path, b"\xef\xbb\xbf " + spaced.encode()))
    assert plain.digest() == other.digest()
    assert plain.entries["rotes Rad"].targets == ("red bike", "bicycle")
    assert read_glossary(write(tmp_path, "Hund\tcat\n")).digest() != plain.digest()
    assert read_glossary(write_terms(tmp_path, {"Hund": "h" * 64})).entries


@pytest.mark.parametrize(
    ("terms", "text", "found"),
    [
        ("Hund", "Der Hund und Hunde, Jagdhund; (Hund)", "Hund|Hund"),
        ("alter Hund|Hund|alter", "Ein alter Hund, ein Hund.", "alter Hund|Hund"),
        ("alter Hund|Hund ist da", "Ein alter Hund ist da.", "alter Hund"),
        ("alt|Hund", "alt Hund", "alt|Hund"),
        ("laufen", "Laufen ist gut. Laufen! Das Laufen, laufen", "Laufen|Laufen|laufen"),
        ("Hund|laufen", "DER HUND WILL LAUFEN", "HUND|LAUFEN"),
        ("Hund", "der hund will laufen", "hund"),
        ("kız|izin|Straße|λόγος", "KIZ İZİN STRASSE ΛΌΓΟΣ", "KIZ|İZİN|STRASSE|ΛΌΓΟΣ"),
        ("Hund", "Der hund will laufen", ""),
        ("HUND", "Hund ist da", ""),
        ("İ", "i̇ ist da", "i̇"),  # in small letters it has two characters
        ("犬|の", "私の犬です", "の|犬"),
        ("C++", "Ich mag C++ sehr", "C++"),
        ("किताब", "किताबें और किताब", "किताब"),  # a vowel sign goes on with the word
        ("राम", "रामा और रामी, राम।", "राम"),
        ("pate", "paté pate", "pate"),  # an accent of its own, too
        ("ami", "l'ami", "ami"),
        ("ami", "l’ami", "ami"),
    ],
)
def test_where_terms_match(terms, text, found, tmp_path):
    glossary = read_glossary(write_terms(tmp_path, dict.fromkeys(terms.split("|"), "x")))
    matches = [text[match.start : match.end] for match in glossary.find_terms(text)]
    assert "|".join(matches) == found
    assert not matches or glossary.find_terms(text)[-1].end == text.rindex(matches[-1]) + len(
        matches[-1]
    )


@pytest.mark.parametrize(
    ("term", "text", "found"),
    [
        ("bank", "The banks are closed.", "banks"),
        ("bank", "The bank, a riverbank", "bank"),
        ("bank", "Bank holiday", "Bank"),
        ("bank", "It is. Banking", "Banking"),
        ("bank", "A bankruptcy, bank1", ""),
        ("bank", "the Bank, the BANK", ""),
        ("BANK", "the bank", ""),
        ("cat", "cats", ""),  # too short for an ending
        ("big cats", "big catsup", "big catsup"),
        ("犬", "私の犬です", "犬"),
    ],
)
def test_where_a_translation_has_a_term(term, text, found):
    spans = [text[start:end] for start, end in find_target(term, text, any_case=False)]
    assert "|".join(spans) == found


def test_a_term_is_found_in_capitals():
    """Those of ß are two letters, those of ς and ı are also those of σ and i."""
    for term in ("Straße", "λόγος", "kız"):
        assert list(find_target(term, term.upper(), any_case=True)) == [(0, len(term.upper()))]
    assert not list(find_target("Straße", "STRASSE", any_case=False))


TERM = "12,50 kg"
NO_TERM = "3.456 m"


@given(st.lists(st.sampled_from(["Rad", "Hund", TERM, NO_TERM]), max_size=9))
def test_the_model_reads_terms_and_no_placeholders_for_them(texts):
    tokenizers = SimpleNamespace(source=SimpleNamespace(lowercase=False))
    entries = {source: Entry(source, ("x",), 1) for source in ("Hund", TERM)}
    glossary = Glossary(entries, tokenizers)  # type: ignore[arg-type]
    spans: dict[str, str] = {}
    before: list[str] = []
    after: list[str] = []
    for placeholder, text in zip(PLACEHOLDERS, texts, strict=False):
        if text in (TERM, NO_TERM):
            spans[placeholder] = text
        before.append(placeholder if text in (TERM, NO_TERM) else text)
        after.append(placeholder if text == NO_TERM else text)
    read = glossary.unprotect(Protected(" ".join(before), spans))
    assert read.text == " ".join(after)
    assert read.spans == {mark: text for mark, text in spans.items() if text == NO_TERM}


def test_capital_letters_do_not_matter_in_any_case():
    assert list(find_target("bank", "the BANK", any_case=True)) == [(4, 8)]


def test_of_entries_that_differ_in_case_the_first_one_counts_in_any_case(tmp_path):
    glossary = read_glossary(write_terms(tmp_path, {"Essen": "food", "essen": "eat"}))
    for text, targets in (("DAS ESSEN", ["food"]), ("Das Essen, essen", ["food", "eat"])):
        assert [term.entry.targets[0] for term in glossary.find_terms(text)] == targets


@pytest.mark.parametrize(
    ("term", "replaced", "found"),
    [
        ("volume", "books", "volume volumes volumeks volumeoks"),
        ("volumes", "books", "volumes volumesks volumesoks"),
        ("volume", "ins", "volume volumes"),
        ("volume", "it", "volume"),
        ("volume", "B2Bs", "volume volumes"),
        ("volume", "BOOKS", "volume"),
        ("big", "books", "big"),
        ("本本本本", "books", "本本本本"),
    ],
)
def test_a_term_may_have_the_endings_of_what_it_replaces(term, replaced, found):
    assert forms(term, replaced) == found.split()


@pytest.mark.parametrize(
    ("word", "other", "is_one"),
    [
        ("▁a", "▁an", True),
        ("▁der", "▁die", True),
        ("▁der", "▁den", True),
        ("▁ein", "▁einen", True),
        ("▁ein", "▁eines", True),
        ("▁a", "▁are", False),
        ("▁ein", "▁keine", False),
        ("▁ein", "▁eineres", False),
        ("▁the", "▁time", False),
        ("▁that", "▁then", True),
        ("▁this", "▁them", True),
        ("▁this", "▁some", False),
        ("▁the", "▁the", False),
    ],
)
def test_the_word_before_a_term_may_become_another_form(word, other, is_one):
    assert is_form(word, other) == is_form(other, word) == is_one


PIECES = ["▁the", "▁train", "▁sta", "tion", "▁there", "."]


@pytest.mark.parametrize(
    ("losses", "weights", "kept", "start", "end"),
    [
        ("0.1 4 1 1 0 9", "", [], 1, 4),  # a loss is a sum over the word
        ("0.1 4 0.5 0.5 0 9", "", [], 1, 4),  # at least RIGHT_SHARE of 4
        ("0.1 4 0.49 0.5 0 9", "", [], 1, 2),
        ("0.1 2.4 2 2 0 9", "", [], 1, 4),  # at least LEFT_SHARE of 4
        ("0.1 2.3 2 2 0 9", "", [], 2, 4),
        ("3.2 4 0 0 0 9", "", [], 0, 2),  # a short word: LEFT_SHARE + EXTRA_IF_SHORT
        ("3.1 4 0 0 0 9", "", [], 1, 2),
        ("-5 4 -1 -1 -1 9", "", [], 1, 2),
        # A weight is a mean over the word; loss and weight are divided by their largest values
        ("0 4 0 0 0 9", "0 0.4 0.2 0.2 0 1", [], 1, 4),
        ("0 4 0 0 0 9", "0 0.4 0.1 0.2 0 1", [], 1, 2),
        ("0 4 2 2 0 9", "0 0 0.1 0.1 0 1", [], 2, 4),
        ("0.1 4 1 1 0 9", "", [(4, 9)], 2, 4),  # "train" stays as it is
        ("0.1 4 1 1 0 9", "", [(0, 24)], 6, 6),
        ("0 0 0 0 0 0", "", [], 0, 1),
    ],
)
def test_a_term_replaces_the_words_that_depend_on_its_source(losses, weights, kept, start, end):
    """The word before may change as well, unless it is kept."""
    loss = np.array(losses.split(), dtype=float)
    weight = np.array(weights.split(), dtype=float) if weights else None
    may_change_previous = start > 0 and not kept
    span = TermSpan(start, end, may_change_previous)
    assert find_term_span(PIECES, loss, weight, kept) == span


def test_a_term_is_all_of_an_empty_translation():
    assert find_term_span([], np.zeros(0), None, []) == TermSpan(0, 0)


class Words:
    """A tokenizer whose pieces are words."""

    lowercase = False
    placeholder_ids: tuple[int, ...] = ()

    def __init__(self, vocabulary: str) -> None:
        self.vocabulary = vocabulary.split()
        self.size = len(self.vocabulary)

    def prefix_length(self, ids: Sequence[int]) -> int:
        """How many pieces at the beginning are tags."""
        return sum(self.vocabulary[id].startswith("__") for id in ids)

    sentence_start = prefix_length

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary[id] for id in ids]

    def encode(self, text: str) -> list[int]:
        pieces = f"▁{text}".replace(" ", " ▁").replace(ANCHOR, f"{ANCHOR} ").split()
        return [self.vocabulary.index(piece) for piece in pieces]


def shown(tokenizer: Words, template: Template) -> str:
    return " ".join("|".join(tokenizer.pieces(column)) for column in template)


def test_what_is_searched_for_a_term():
    """Each target with each ending; the word before as it is, or another form of it."""
    terms = "▁Tiger ▁Tigern ▁Tigeren ▁Tigerden"
    tokenizer = Words(f"▁der ▁die ▁das ▁den! ▁Hunden {terms} ▁Katze ▁.")
    glossary = Glossary({}, SimpleNamespace(target=tokenizer))  # type: ignore[arg-type]
    hund = Encoded(tokenizer.encode("der Hunden ."))
    wanted = {}
    for term in terms.split():
        cost = int(term != "▁Tiger")
        wanted[f"▁der {term} ▁."] = cost
        wanted[f"▁die|▁das {term} ▁."] = cost + 1
    found = templates_for_span(glossary, hund, ["Tiger"], TermSpan(1, 2, True))
    assert {shown(tokenizer, template): cost for template, cost in found} == wanted
    found = templates_for_span(glossary, hund, ["Tiger"], TermSpan(1, 2))
    assert [cost for _, cost in found] == [0, 1, 1, 1]
    both = templates_for_span(
        glossary, Encoded(tokenizer.encode("den! .")), ["Katze", "Tiger"], TermSpan(1, 2, True)
    )
    assert [shown(tokenizer, template) for template, _ in both] == ["▁den! ▁Katze", "▁den! ▁Tiger"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tags", [("__de__", ""), ("", "__en__"), ("__de__ __news__", "__en__")])
def test_what_sides_begin_with_changes_nothing_but_the_beginning(tags, seed):
    """A record has no tags, on neither side; attention to a term is that to its own pieces."""
    tokenizer = Words(
        "▁der ▁Hund ▁sieht ▁Katze ▁the ▁dog ▁sees ▁cat ▁Cat ▁. __de__ __news__ __en__"
    )
    both = SimpleNamespace(source=tokenizer, target=tokenizer)
    entry = Entry("Katze", ("cat",), 1)
    glossary = Glossary({"Katze": entry}, both)  # type: ignore[arg-type]
    sides = [tokenizer.encode("der Hund sieht Katze ."), tokenizer.encode("the dog sees the .")]
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.full(6, 0.1), (2, 1, 6))
    records = []
    for _ in range(2):
        log_probabilities = generator.normal(size=6).tolist()
        records.append(AttentionRecord([], tokenizer.pieces(sides[1]), log_probabilities, weights))

    def variants_after(source: list[int], target: list[int]) -> list[tuple[Template, float]]:
        query = Query(Encoded([*source, *sides[0]]))
        ids = Encoded([*target, *sides[1]])
        term = Term(entry, len(source) + 3, len(source) + 4)
        return list(sentence_templates(glossary, MissingTerm(query, ids, term), *records))

    source, target = ([tokenizer.vocabulary.index(tag) for tag in side.split()] for side in tags)
    plain = variants_after([], [])
    columns = [(tag,) for tag in target]
    assert plain
    assert variants_after(source, target) == [([*columns, *rest], cost) for rest, cost in plain]


def test_variants_of_any_length_are_compared_by_their_log_probability(monkeypatch):
    """Less their cost; the score of a longer one is better for its length."""
    short, long = Hypothesis([5], -1.0), Hypothesis([5, 6, 7, 8], -0.6)  # log p: −2 and −3
    translator = SimpleNamespace(
        model=SimpleNamespace(max_length=None),
        decode=DecodeConfig(2, 1.0, 1.0, 5, 400),
        force_decode_all=lambda pairs: pairs,
        search=lambda queries: [[short], [long]][: len(queries)],
    )
    term = Term(Entry("a", ("b",), 1), 0, 1)
    missing = MissingTerm(Query(Encoded([5])), Encoded([6]), term)
    glossary = Glossary({}, SimpleNamespace())  # type: ignore[arg-type]
    for cost, wanted in ((0.5, [short, long]), (1.5, [long, short])):
        costs = [([(5,)], cost), ([(5,)], 0.0)]
        monkeypatch.setattr(
            "nmt.decode.term_search.sentence_templates", lambda *_, costs=costs: costs
        )
        assert list(search_again(glossary, translator, [missing])) == [wanted]  # type: ignore[arg-type]

        # A template beyond the last learned position is not searched
        translator.model.max_length = 1
        assert list(search_again(glossary, translator, [missing])) == [[]]  # type: ignore[arg-type]
        translator.model.max_length = 2
        assert list(search_again(glossary, translator, [missing])) == [wanted]  # type: ignore[arg-type]
        translator.model.max_length = None


def test_a_sentence_whose_term_makes_it_too_long_stays_as_it_is(untrained, monkeypatch):
    """With learned positions, which have an end. The term replaces no words."""
    monkeypatch.setattr("nmt.decode.term_search.find_term_span", lambda *_: TermSpan(0, 0))
    term = "flowers flowers flowers"
    plain = untrained("transformer_learned", terms=None)
    (wanted,) = plain.translate([SENTENCE])
    translator = untrained("transformer_learned", terms={"Fahrrad": term})
    (longer,) = translator.translate([SENTENCE])
    assert has_terms(longer.text, [term]) and len(longer.ids) > len(wanted.ids)
    positions = translator.model.target_positions
    positions.table = nn.Parameter(positions.table[: len(wanted.ids) + 1])
    (shorter,) = translator.translate([SENTENCE])
    assert shorter.text == wanted.text


@pytest.mark.parametrize(
    ("written", "span", "capitals", "term", "encoded"),
    [
        ("▁it ▁runs", TermSpan(0, 1), False, "cat", "▁Cat"),
        ("▁it ▁runs", TermSpan(1, 2), False, "cat", "▁cat"),
        ("▁it ▁. ▁it", TermSpan(2, 3), False, "cat", "▁Cat"),
        ("▁IT ▁IS", TermSpan(1, 2), False, "cat", "▁CAT"),
        ("▁IT ▁IS", TermSpan(1, 2), True, "cat", "▁cat"),
        ("▁I", TermSpan(1, 1), False, "cat", "▁cat"),
        ("▁it ▁' it", TermSpan(2, 3), False, "cat", "cat"),  # no space before what it replaces
        ("▁it it", TermSpan(1, 2), False, "cat", "▁cat"),  # nor would a word begin there
        ("▁私 は", TermSpan(2, 2), False, "犬", "犬"),
    ],
)
def test_how_a_term_is_written_in_its_place(written, span, capitals, term, encoded):
    tokenizer = Words("▁it ▁runs ▁IT ▁IS ▁I ▁. ▁' it ▁私 は ▁\" ▁cat ▁Cat ▁CAT cat ▁犬 犬")
    ids = Encoded([tokenizer.vocabulary.index(piece) for piece in written.split()])
    ids.capitals = capitals
    assert tokenizer.pieces(encode_term(tokenizer, ids, span, term)) == encoded.split()


@pytest.fixture
def untrained(vocabularies: dict[bool, Tokenizers], tmp_path: Path) -> Callable[..., Translator]:
    """untrained(MODEL, BEAM, TERMS) → a random model that writes nonsense and terms."""

    def make(
        name: str = "transformer", beam: int = 2, terms: dict[str, str] | None = LINES
    ) -> Translator:
        tokenizers = vocabularies[True]
        torch.manual_seed(1)
        config = small_config(name, ())
        model = build(config, tokenizers.source.size, tokenizers.target.size, True).eval()
        decode = DecodeConfig(beam, 1.0, 1.0, 5, 400)
        autocast = torch.autocast("cpu", enabled=False)
        plain = Translator(model, tokenizers, decode, 64, torch.device("cpu"), autocast)
        if terms is None:
            return plain
        return replace(plain, terms=open_glossary(write_terms(tmp_path, terms), plain))

    return make


def has_terms(text: str, terms: Iterable[str]) -> bool:
    return all(list(find_target(term, text, any_case=True)) for term in terms)


@pytest.mark.parametrize(("name", "beam"), [("transformer", 5), ("seq2seq", 1)])
def test_every_model_writes_the_terms(untrained, name, beam):
    """Also those of a long line, which is translated in parts."""
    both = f"{SENTENCE} {OTHER}"
    translator = untrained(name, beam)
    texts = [translation.text for translation in translator.translate([SENTENCE, OTHER, both])]
    for text, terms in zip(texts, (["big hat"], ["flowers"], LINES.values()), strict=True):
        assert has_terms(text, terms)
    in_parts = next(replace(translator, max_pieces=16).translate([both]))
    assert len(in_parts.parts) > 1
    assert has_terms(in_parts.text, LINES.values())


def test_terms_beside_each_other(untrained):
    terms = {"rote": "grey", "Fahrrad": "hat", "malt": "sees"}
    translation = next(untrained(terms=terms, beam=5).translate([SENTENCE]))
    assert has_terms(translation.text, terms.values())


def test_a_line_without_terms_stays_as_it_is(untrained):
    lines = ["Die Lehrerin kauft kein Brot.", "", SENTENCE]
    plain, changed = (
        [(line.text, line.score) for line in translator.translate(lines)]
        for translator in (untrained(terms=None), untrained())
    )
    assert plain[:2] == changed[:2]
    assert plain[2] != changed[2]


GARDEN = "Mein Bruder malt die Blumen im Garten."


def best(run: nmt.Run | Translator) -> list[Translation]:
    """The n best of a sentence."""
    translator = run if isinstance(run, Translator) else run.translator
    return next(iter(translator.translate([GARDEN]))).nbest


def test_a_term_changes_nothing_else(trained, tmp_path):
    """Nothing at all where it is written anyway; else at most the word before it."""
    plain = best(nmt.load(trained.folder))
    before = plain[0].text.split()
    last = [word for word in before if word.isalpha()][-1]
    written_anyway = write_terms(tmp_path, {"Garten": last, "Blumen": last})
    assert best(nmt.load(trained.folder, glossary=written_anyway)) == plain
    terms = write_terms(tmp_path, {"Garten": "riverbank"})
    after = best(nmt.load(trained.folder, glossary=terms))[0].text.split()
    (index,) = [index for index, word in enumerate(after) if word.lower().startswith("riverbank")]
    same = max(index - 1, 0)
    assert after[:same] == before[:same]
    rest = after[index + 1 :]
    assert before[len(before) - len(rest) :] == rest


def test_ctranslate2_writes_the_same(trained, tmp_path):
    pytest.importorskip("ctranslate2", reason="no ctranslate2")
    from nmt.convert.ctranslate2_folder import CTranslate2Export, CTranslate2Translator

    run = nmt.load(trained.folder, glossary=write_terms(tmp_path, {"Garten": "riverbank"}))
    (tmp_path / "export").mkdir()
    CTranslate2Export(run.translator, run.config, "float32").write(tmp_path / "export", {})
    faster = CTranslate2Translator.open(run.translator, tmp_path / "export")
    text = best(run)[0].text
    assert "riverbank" in text.lower()
    assert best(replace(faster, terms=run.translator.terms))[0].text == text


def test_the_command_and_the_interface(trained: Trained, tmp_path, capfd):
    """Scores are those of forced decoding, with either target."""
    path = write_terms(tmp_path, {"Garten": "riverbank|market stall"})
    hypotheses = best(nmt.load(trained.folder, glossary=path, beam=4))
    for hypothesis in hypotheses:
        assert hypothesis.score == pytest.approx(np.mean(hypothesis.log_probabilities), abs=1e-4)
        assert re.search("riverbank|market stall", hypothesis.text.lower())
    options = ["--glossary", str(path), "--beam=4", "--nbest=2"]
    lines = run_command(capfd, "translate", str(trained.folder), GARDEN, *options).out.splitlines()
    assert [line.split("\t")[1] for line in lines] == [each.text for each in hypotheses[:2]]
