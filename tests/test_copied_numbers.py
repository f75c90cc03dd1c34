"""Numbers and addresses come out of a translation as they went in: each is one span, and no two are
ever mixed."""

import importlib.util
import json
import re
from collections import Counter
from random import Random

import pytest
import torch
from conftest import composed, small_config
from corpora import pairs, run_command, write_pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.schema import DecodeConfig
from nmt.config.validation import validate
from nmt.convert.ctranslate2_folder import CTranslate2Export, CTranslate2Translator
from nmt.data.text_filter import (
    PLACEHOLDERS,
    changed_spans,
    find_spans,
    protect,
    protect_pair,
    restore,
    with_placeholders,
)
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers
from nmt.decode.translator import Translator
from nmt.models.build import build

# Invented, in the shapes of each country: phone numbers at home and from abroad, IBAN, date,
# amount.
COUNTRIES = """
Albania | 069 212 3456 | +355 69 212 3456 | AL35 2021 1109 0000 0000 0123 4567 | 31.12.2026 | 1 234 567,89
Argentina | 011 15-2345-6789 | +54 9 11 2345-6789 | | 31/12/2026 | $ 1.234.567,89
Australia | (02) 5550 1234 | +61 2 5550 1234 | | 31/12/2026 | $1,234,567.89
Austria | 01 / 234 56 78-90 | +43 (0)1 234 56 78 | AT61 1904 3002 3457 3201 | 31.12.2026 | 1.234.567,89 €
Azerbaijan | (012) 345 67 89 | +994 12 345 67 89 | AZ21 NABZ 0000 0000 1370 1000 1944 | 31.12.2026 | ₼ 1.234,50
Bahrain | 1712 3456 | +973 1712 3456 | BH67 BMAG 0000 1299 1234 56 | 31/12/2026 | 1,234.567
Belgium | 02/123.45.67 | +32 2 123 45 67 | BE68 5390 0754 7034 | 31/12/2026 | 1.234,50 €
Brazil | (11) 91234-5678 | +55 (11) 91234-5678 | BR18 0036 0305 0000 1000 9795 493C 1 | 31/12/2026 | 1.234.567,89
Bulgaria | 02 123 4567 | +359 2 123 4567 | BG80 BNBG 9661 1020 3456 78 | 31.12.2026 | 1 234,50
Canada | (416) 555-0143 | +1-416-555-0143 | | 2026-12-31 | 1 234 567,89 $
China | 010-1234 5678 | +86 10 1234 5678 | | 2026-12-31 | ¥1,234,567.89
Croatia | 01/2345-678 | +385 1 2345 678 | HR12 1001 0051 8630 0016 0 | 31. 12. 2026 | 1.234,50
Cyprus | 22 123456 | +357 22 123456 | CY17 0020 0128 0000 0012 0052 7600 | 31/12/2026 | €1,234.50
Czechia | 601 123 456 | +420 601 123 456 | CZ65 0800 0000 1920 0014 5399 | 31. 12. 2026 | 1 234 567,89
Denmark | 12 34 56 78 | +45 12 34 56 78 | DK50 0040 0440 1162 43 | 31.12.2026 | 1.234.567,89
Egypt | 02 23456789 | +20 2 23456789 | EG38 0019 0005 0000 0000 2631 8000 2 | 31/12/2026 | 1,234.50
Estonia | 5123 4567 | +372 5123 4567 | EE38 2200 2210 2014 5685 | 31.12.2026 | 1 234,50 €
Finland | 09 1234 567 | +358 9 1234 567 | FI21 1234 5600 0007 85 | 31.12.2026 | 1 234 567,89 €
France | 01 23 45 67 89 | +33 (0)1 23 45 67 89 | FR14 2004 1010 0505 0001 3M02 606 | 31/12/2026 | 1 234 567,89 €
Georgia | 032 2 12 34 56 | +995 32 2 12 34 56 | GE29 NB00 0000 0101 9049 17 | 31.12.2026 | ₾ 1.234,50
Germany | (030) 123456-78 | +49 (0) 30 / 12 34 56 | DE89 3704 0044 0532 0130 00 | 31.12.2026 | 1.234.567,89 €
Gibraltar | 200 12345 | +350 200 12345 | GI75 NWBK 0000 0000 7099 453 | 31/12/2026 | £1,234.50
Greece | 21 0123 4567 | +30 21 0123 4567 | GR16 0110 1250 0000 0001 2300 695 | 31/12/2026 | 1.234,50 €
Guatemala | 2234-5678 | +502 2234-5678 | GT82 TRAJ 0102 0000 0012 1002 9690 | 31/12/2026 | 1,234.50
Hungary | (06 1) 234 5678 | +36 1 234 5678 | HU42 1177 3016 1111 1018 0000 0000 | 2026. 12. 31 | 1 234 567
Iceland | 512 3456 | +354 512 3456 | IS14 0159 2600 7654 5510 7303 39 | 31.12.2026 | 1.234.567
India | 022-2345 6789 | +91 98765 43210 | | 31-12-2026 | ₹12,34,567.00
Ireland | (01) 234 5678 | +353 1 234 5678 | IE29 AIBK 9311 5212 3456 78 | 31/12/2026 | €1,234.50
Israel | 03-123-4567 | +972-3-123-4567 | IL62 0108 0000 0009 9999 999 | 31.12.2026 | ₪ 1,234.50
Italy | 06 12345678 | +39 06 1234 5678 | IT60 X054 2811 1010 0000 0123 456 | 31/12/2026 | 1.234,50 €
Japan | 03-1234-5678 | +81-3-1234-5678 | | 2026/12/31 | ¥1,234,567
Kazakhstan | 8 (727) 234-56-78 | +7 727 234 56 78 | KZ86 125K ZT50 0410 0100 | 31.12.2026 | 1 234 567,89 ₸
Korea | 02-1234-5678 | +82 2-1234-5678 | | 2026. 12. 31 | ₩1,234,567
Luxembourg | 27 12 34 56 | +352 27 12 34 56 | LU28 0019 4006 4475 0000 | 31.12.2026 | 1.234,50 €
Malta | 2123 4567 | +356 2123 4567 | MT84 MALT 0110 0012 345M TLCA ST01 S | 31/12/2026 | €1,234.50
Mauritius | 212 3456 | +230 212 3456 | MU17 BOMM 0101 1010 3030 0200 000M UR | 31/12/2026 | 1,234.50
Mexico | 55 1234 5678 | +52 55 1234 5678 | | 31/12/2026 | $1,234,567.89
Netherlands | 020-123 45 67 | +31 (0)20 123 45 67 | NL91 ABNA 0417 1643 00 | 31-12-2026 | € 1.234.567,89
New Zealand | (09) 123 4567 | +64 9 123 4567 | | 31/12/2026 | $1,234.50
Norway | 22 34 56 78 | +47 22 34 56 78 | NO93 8601 1117 947 | 31.12.2026 | 1 234 567,89
Pakistan | (021) 34567890 | +92 21 34567890 | PK36 SCBL 0000 0011 2345 6702 | 31-12-2026 | 12,34,567.00
Poland | 22 123 45 67 | +48 22 123 45 67 | PL61 1090 1014 0000 0712 1981 2874 | 31.12.2026 | 1 234 567,89
Portugal | 21 123 4567 | +351 21 123 4567 | PT50 0002 0123 1234 5678 9015 4 | 31/12/2026 | 1.234,50 €
Qatar | 4412 3456 | +974 4412 3456 | QA58 DOHB 0000 1234 5678 90AB CDEF G | 31/12/2026 | 1,234.50
Romania | 021 234 56 78 | +40 21 234 56 78 | RO49 AAAA 1B31 0075 9384 0000 | 31.12.2026 | 1.234,50
Russia | 8 (495) 123-45-67 | +7 (495) 123-45-67 | RU03 0445 2522 5408 1781 0538 0913 1041 9 | 31.12.2026 | 1 234,50 ₽
Seychelles | 4 123 456 | +248 4 123 456 | SC18 SSCB 1101 0000 0000 0000 1497 USD | 31/12/2026 | 1,234.50
Singapore | 6123 4567 | +65 6123 4567 | | 31/12/2026 | $1,234.50
South Africa | 011 123 4567 | +27 11 123 4567 | | 2026/12/31 | 1 234 567,89
Spain | 91 123 45 67 | +34 91 123 45 67 | ES91 2100 0418 4502 0005 1332 | 31/12/2026 | 1.234,50 €
Sweden | 08-123 456 78 | +46 (0)8-123 456 78 | SE45 5000 0000 0583 9825 7466 | 2026-12-31 | 1 234 567:50
Switzerland | 079 123 45 67 | +41 79 123 45 67 | CH93 0076 2011 6238 5295 7 | 31.12.2026 | 1'234'567.50
Turkey | (0212) 123 45 67 | +90 212 123 45 67 | TR33 0006 1005 1978 6457 8413 26 | 31.12.2026 | ₺1.234,50
Ukraine | (044) 123-45-67 | +380 44 123 45 67 | UA21 3223 1300 0002 6007 2335 6600 1 | 31.12.2026 | 1 234,50 ₴
United Kingdom | (020) 7946 0958 | +44 (0)20 7946 0958 | GB29 NWBK 6016 1331 9268 19 | 31/12/2026 | £1,234,567.89
United States | 1 (800) 555-0143 | +1.202.555.0143 | | 12/31/2026 | $1,234,567.89
"""  # IBANs are the examples of the registry  # noqa: E501
ROWS = [[item.strip() for item in row.split("|")] for row in COUNTRIES.split("\n")[1:-1]]
ITEMS = {name: [item for item in items if item] for name, *items in ROWS}
OTHER_NUMBERS = [
    "4111 1111 1111 1111",
    "3782 822463 10005",
    "123 45",
    "1000-205",
    "14:30:15",
    "10–20",
    "10 – 20",
    "2019/20",
    "1.2.3",
    "v2.10.3",
    "192.168.0.1",
    "978-3-16-148410-0",
    "-3 °C",
    "12,- €",
    "5.–",
    "1’234.50",
    "079\u00a0123\u202f45\u200967",
    "+49(0)30-123",
    "0(212)1234567",
    "DE89370400440532013000",
]
ADDRESSES = [
    "hund_x@y.example",
    "root@printer",
    "müller@büro.internal",
    "@anna@social.example",
    "mailto:a@b.test?subject=x",
    "lisa%home@example.org",
    "https://wiki.internal/x",
    "printer.local",
    "http://localhost:8080/a?b=c",
    "localhost:8080/a",
    "http://[::1]:80/a",
    "ssh://git@host.corp/x.git",
    "file:///C:/a.txt",
    "https://intranet/a",
    "www.a.internal",
]

# What is no part of one number, or none at all.
SEPARATED = [
    ("3, 4 und 5; 6 (7) 8. 9 Hunde", ["3", "4", "5", "6 (7) 8", "9"]),
    ("2019 3D-Filme, 1 234km, 1.50m", ["2019", "1 234", "1.50"]),
    ("Tel.079 123 45 67, 电话079-123-4567号, 3月, 3.5万", ["079 123 45 67", "079-123-4567"]),
    ("IN AB12 DIES IST NICHT NEU, B2B, AB-1234, 00:1A:2B:3C:4D:5E, 1.2.3rc1", []),
    ("Das Ende.Next ist da, ende.next auch, 10 Jahre.Ein", ["10"]),
    ("Kontakt:anna@x.de, d'info@x.fr.", ["anna@x.de", "info@x.fr"]),
    # formats of C, Python, Ruby, Java, gettext and Windows; percentages
    (
        "%,d: %-8<PRIu64>, %1$sHaus, %2$*1$d. %lld, %1!s!",
        ["%,d", "%-8<PRIu64>", "%1$s", "%2$*1$d", "%lld", "%1!s!"],
    ),
    ("%[1]sHaus, %.2[1]f (%#[12]x), 50%[1] davon", ["%[1]s", "%.2[1]f", "%#[12]x", "50%", "[1]"]),
    ("50%(brutto) davon, 50%(netto)-Anteil, 20%C", ["50%", "50%", "20%C"]),
    ("in % d. Ganzen, the 5%'s share, 50%,d. h., 50 %a, % de, in %(s. o.)", ["5%", "50%", "50"]),
]


def texts(item: str) -> list[str]:
    """An item at the edges of a line, between marks and beside other numbers."""
    return [
        item,
        f"Ruf {item} an.",
        f"({item})",
        f"Das sind 3, {item} und 5!",
        f"Nr. „{item}“; {item}, dann 7",
    ]


def items_in(text: str) -> list[str]:
    return [span.text for span in find_spans(text)]


@pytest.mark.parametrize("name", ITEMS)
def test_each_number_of_a_country_is_one_span(name):
    assert len(ITEMS[name]) >= 4 and len(ITEMS) >= 40
    for item in ITEMS[name]:
        assert [items_in(text).count(item) for text in texts(item)] == [1, 1, 1, 1, 2], item
        assert items_in(f"Das sind 3, {item} und 5!") == ["3", item, "5"]


@pytest.mark.parametrize("item", [*OTHER_NUMBERS, *ADDRESSES])
def test_other_numbers_and_addresses_are_one_span(item):
    for text in texts(item)[:2]:
        assert items_in(text) == [item]


@pytest.mark.parametrize(("text", "spans"), SEPARATED)
def test_where_a_span_ends(text, spans):
    assert items_in(text) == spans


def test_pairs_that_write_a_number_otherwise_stay_text():
    for source, target in (
        ("Es sind 1.234,5 km", "It is 1,234.5 km"),
        ("10 000 Hunde", "10,000 dogs"),
    ):
        assert [side.spans for side in protect_pair(source, target)] == [{}, {}]
    source, target = protect_pair("Ruf 079 123 45 67 um 8 an", "Call 079 123 45 67 at 8")
    assert list(source.spans.values()) == ["079 123 45 67", "8"] and source.spans == target.spans


WORDS = ["dogs", "and", "3D", ",", ".", "(", ")", "-", "at"]


@given(
    items=st.lists(st.sampled_from(["8", "3", "12:30", "%s", "me@example.org"]), max_size=20),
    word=st.sampled_from(["Hund", "HUND"]),
)
def test_a_translation_begins_with_the_placeholders_of_its_source(items, word):
    """Each at most once, also where a number stands there twice or none is left for it."""
    source = protect(" ".join(f"{word} {item}" for item in items))
    for order in (items, items[::-1]):
        begin = with_placeholders(" ".join(f"{word} {item}" for item in order), source)
        if order is items:
            assert begin == source.text
        placeholders = [character for character in begin if character in PLACEHOLDERS]
        assert sorted(placeholders) == sorted(source.spans)
        filled = "".join(source.spans.get(character, character) for character in begin)
        assert filled.split()[1::2] == order


@settings(max_examples=300, deadline=None)
@given(
    items=st.lists(
        st.sampled_from([item for row in ITEMS.values() for item in row] + ["8", "3", "83"]),
        max_size=6,
    ),
    seed=st.integers(0, 999),
)
def test_no_number_is_put_together_from_two(items, seed):
    """A model may write the placeholders in any order, with or without words and spaces between
    them."""
    random = Random(seed)
    source = (
        " ".join(f"{random.choice(['Hund', 'auf,', '('])} {item}" for item in items) + " Katzen"
    )
    protected = protect(source)
    written = [*protected.spans, *random.choices(WORDS, k=random.randint(0, 6))]
    random.shuffle(written)
    translation = restore(random.choice(["", " "]).join(written), protected)
    digits = [Counter(re.findall(r"\d+", text)) for text in (source, translation.replace("3D", ""))]
    assert digits[0] == digits[1]
    assert all(item in translation for item in items)
    # 8 3, from two placeholders side by side
    mixed = {span for span in items_in(translation) if span not in source}
    assert mixed <= set(changed_spans(source, translation))


@pytest.mark.parametrize(
    ("source", "translation", "changed"),
    [
        ("ruf 079 123 45 67 an", "call 45 079 123 67", ["079 123 45 67", "45 079 123 67"]),
        ("8 oder 8", "8 or", ["8"]),
        ("Zwei Hunde", "2 dogs", ["2"]),
        ("bei -3 Grad, 1\u00a0000 m", "(-3 degrees), 1 000 m", []),
    ],
)
def test_what_a_translation_lost_or_added_is_named(source, translation, changed):
    assert changed_spans(source, translation) == changed
    assert sorted(changed_spans(translation, source)) == sorted(changed)


def test_digits_of_another_script_are_the_same_number():
    assert changed_spans("৩ Hunde {x}", "3 dogs", placeholders=[]) == ["{x}"]


@pytest.fixture(scope="module")
def translators(tmp_path_factory) -> dict[str, Translator]:
    """A narrow Transformer that has learnt nothing, searched by each engine."""
    folder = tmp_path_factory.mktemp("numbers")
    files = write_pairs(folder, "train", pairs(300))
    config = validate(composed("transformer"))
    config.tokenizer.vocabulary_size = 380
    config.tokenizer.protect = True
    train_tokenizers(config.tokenizer, *files, folder)
    tokenizers = Tokenizers.load(folder)
    torch.manual_seed(1)
    config.model = small_config("transformer", ())
    model = (
        build(config.model, tokenizers.source.size, tokenizers.target.size, True)
        .eval()
        .requires_grad_(False)
    )
    decode = DecodeConfig(2, 1.0, 1.0, 1, 400)
    plain = Translator(
        model, tokenizers, decode, 64, torch.device("cpu"), torch.autocast("cpu", enabled=False)
    )
    found = {"torch": plain}
    if importlib.util.find_spec("ctranslate2"):
        (folder / "export").mkdir()
        CTranslate2Export(plain, config, "float32").write(folder / "export", {})
        found["ctranslate2"] = CTranslate2Translator.open(plain, folder / "export")
    return found


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_numbers_and_addresses_come_out_of_a_translation(engine, translators):
    """All of a country in a sentence, whatever else the model writes."""
    if engine not in translators:
        pytest.skip("ctranslate2 is not installed; the environment of `make test` brings it")
    wanted = list(ITEMS.values())
    for row in (OTHER_NUMBERS, ADDRESSES):
        wanted += [row[first : first + 4] for first in range(0, 20, 4)]
    lines = ["Ein Junge sucht " + " und ".join(row) + " im Garten." for row in wanted]
    for row, line, found in zip(wanted, lines, translators[engine].translate(lines), strict=True):
        assert not found.is_copied
        assert [found.text.count(item) for item in row] == [line.count(item) for item in row]


def test_lines_and_documents_keep_them_or_say_so(trained, tmp_path, capfd, monkeypatch):
    """The third line has more numbers than there are placeholders, in chunks of any size."""
    item = "079 123 45 67"
    lines = [
        f"Ein Junge sucht {item}, {ADDRESSES[0]} im Garten.",
        " und ".join(map(str, range(101, 120))) + " Hunde",
    ]
    for name in ("some.de", "some.md"):
        (tmp_path / name).write_text("\n\n".join(lines), encoding="utf-8")
    run = ["translate", trained.name, "--runs", trained.runs]
    changed = "Numbers, addresses or the like are not those of the source in line 3."
    for size in (2000, 1):
        monkeypatch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", size)
        answer = run_command(capfd, *run, "--input", str(tmp_path / "some.de"))
        assert item in answer.out and ADDRESSES[0] in answer.out
        assert changed in answer.err
    answer = run_command(capfd, *run, "--format", "jsonl", *lines)
    found = [json.loads(row).get("changed", []) for row in answer.out.splitlines()]
    assert found[0] == [] and "119" in found[1]
    pytest.importorskip(
        "sentencex", reason="sentencex is not installed; the environment of `make test` brings it"
    )
    answer = run_command(capfd, *run, "--document", str(tmp_path / "some.md"))
    assert item in answer.out and ADDRESSES[0] in answer.out
    assert ", 1 with other numbers, addresses or the like than their sources;" in answer.err
