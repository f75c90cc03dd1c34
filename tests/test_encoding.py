"""Text that is not UTF-8: it is read as its byte order mark, its languages and its script say, and
that is said."""

import pytest

from nmt.corpus import packed
from nmt.corpus.encoding import find_encoding
from nmt.corpus.packed import PackedFile
from nmt.errors import UserError

TEXTS = {
    "de": "Ich wünschte, es hörte auf zu regnen – morgen müssen wir früh aufstehen.\n",
    "fr": "Où est la gare ? L’été dernier, nous étions à la plage, et ça allait très bien.\n",
    "pl": "Dzień dobry, mam na imię Łukasz i mieszkam w Krakowie. Gęś, źdźbło, żółć.\n",
    "cs": "Dobrý den, jmenuji se Jiří, žiji v Ostravě a jsem šťastný, že tě vidím.\n",
    "hu": "Jó napot, én Győző vagyok, és ez a ház nem az enyém, de egy szép hely.\n",
    "tr": "Günaydın, benim adım Ayşe ve İstanbul'da yaşıyorum. Şimdi yağmur yağıyor.\n",
    "ru": "Добрый день. Меня зовут Анна, и я живу в Москве.\n",
    "ja": "こんにちは。私の名前は田中です。東京に住んでいます。\n",
    "zh": "你好。我叫王明，住在北京。今天天气很好。\n",
    "it": "Perché non è arrivata? La città è più bella così, ma però ...\n",
    "uk": "Добрий день. Мене звати Ганна, і я живу в Києві.\n",
    "el": "Άννα, πού είσαι; Έλα εδώ, το φαγητό είναι έτοιμο.\n",
    "ar": "صباح الخير. اسمي أحمد وأسكن في القاهرة مع عائلتي.\n",
    "sl": "Še danes pišem, že jutri bom šla čez most v hišo.\n",
    "lt": "Labą rytą, aš gyvenu Vilniuje, o žmogus šaukia: „ačiū“.\n",
}
CASES = [
    ("de", "cp1252"),
    ("fr", "cp1252"),
    ("pl", "cp1250"),
    ("pl", "iso8859_2"),
    ("cs", "cp1250"),
    ("cs", "iso8859_2"),
    ("hu", "cp1250"),
    ("tr", "cp1254"),
    ("ru", "cp1251"),
    ("ru", "koi8_u"),
    ("ru", "iso8859_5"),
    ("ru", "cp866"),
    ("uk", "koi8_u"),
    ("el", "cp1253"),
    ("el", "iso8859_7"),
    ("ar", "cp1256"),
    ("ar", "iso8859_6"),
    ("sl", "cp1250"),
    ("sl", "iso8859_2"),
    ("lt", "cp1257"),
    ("lt", "iso8859_13"),
    ("it", "cp850"),
    ("de", "mac_roman"),
    ("pl", "cp852"),
]
CASES += [
    ("ja", "cp932"),
    ("ja", "euc_jp"),
    ("zh", "gb18030"),
    ("de", "utf-16"),
    ("ja", "utf-32"),
    ("de", "utf-8"),
]


@pytest.mark.parametrize(("language", "encoding"), CASES)
def test_the_text_is_what_was_written(language, encoding, tmp_path, succeeds):
    """Line n stays line n, also with characters whose UTF-16 has the byte of a line feed (U+010A,
    U+0A00)."""
    lines = [f"{number} {TEXTS[language]}" for number in range(60)]
    if encoding.startswith("utf"):
        lines[3] = "Ċ ਅ\u2028b\n"
    (tmp_path / f"a.{language}").write_bytes("".join(lines).encode(encoding))
    english = "".join(f"this is the line that has the number {number}\n" for number in range(60))
    (tmp_path / "a.en").write_text(english, encoding="utf-8")
    words = [
        "data=files",
        f"data.source={language}",
        "data.target=en",
        f"data.train={tmp_path / 'a'}",
    ]
    words += [f"data.valid={tmp_path / 'a'}", "data.test=null", f"data_folder={tmp_path / 'data'}"]
    answer = succeeds("download", *words)
    (written,) = (tmp_path / "data").glob(f"corpus-*/valid.{language}")
    assert written.read_text(encoding="utf-8").split("\n")[:-1] == [line[:-1] for line in lines]
    assert (f"is read as {encoding}, a guess" in answer.err) == (not encoding.startswith("utf"))
    succeeds("audit", *words)
    # what is given is not guessed, and is part of what a corpus depends on
    if (language, encoding) == ("ru", "koi8_u"):
        other = succeeds("download", *words, "data.encoding=cp1251")
        assert "guess" not in other.err
        assert len(list((tmp_path / "data").glob("corpus-*"))) == 2


@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp", "gb18030", "utf-16", "utf-32"])
def test_a_text_is_recoded_to_its_end(encoding, tmp_path, monkeypatch):
    """In blocks of any size; what ends within a character is damaged."""
    path = tmp_path / "a"
    text = TEXTS["ja"] * 3
    for size in (1, 7, 10_000):
        monkeypatch.setattr(packed, "BLOCK", size)
        file = PackedFile(path, encoding=encoding)
        path.write_bytes(text.encode(encoding))
        assert b"".join(file.lines()).decode() == text
        path.write_bytes(f"{text}語".encode(encoding)[:-1])
        with pytest.raises(UserError, match=f"has bytes that are not {encoding}"):
            list(file.lines())


def test_a_file_that_is_converted_is_read_anew_and_nothing_is_guessed_of_what_is_given(
    tmp_path, succeeds
):
    path = tmp_path / "a.tsv"
    words = [f"data_folder={tmp_path / 'data'}", "data.test=null", "data.columns=[1,2]"]
    text = "".join(
        f"{number} {TEXTS['pl'][:-1]}\tthis is line {number}, long enough for it\n"
        for number in range(60)
    )
    words += ["data.source=pl", "data.target=en", str(path), f"data.valid={path}"]
    path.write_bytes(text.encode("cp1250"))
    given = succeeds("download", *words, "data.encoding=cp1250")
    assert "guess" not in given.err
    guessed = succeeds("download", *words)
    assert guessed.err.count("guess") == 1 and "read as cp1250, a guess" in guessed.err
    path.write_text(text, encoding="utf-8")
    succeeds("download", *words)
    texts = {
        each.read_text(encoding="utf-8") for each in (tmp_path / "data").glob("corpus-*/valid.pl")
    }
    assert len(texts) == 1 and "Łukasz" in texts.pop()


def test_marks_alone_tell_the_encoding_of_windows(tmp_path):
    """English has no other characters beyond ASCII; in others ’ is a letter, and don’t a word."""
    path = tmp_path / "a.en"
    text = "“I don’t know” – she said…\n½ of it costs 5 €, not £3.\n" * 9
    path.write_bytes(text.encode("cp1252"))
    assert find_encoding(PackedFile(path), ("en",)) == "cp1252"
    assert find_encoding(PackedFile(path), ("en", "de")) == "cp1252"
    # Of a language that is not known, charset-normalizer guesses
    path.write_bytes((TEXTS["de"] * 9).encode("cp1252"))
    assert find_encoding(PackedFile(path), ("xx",)) == "cp1252"
    # Where one of two languages has another script, the encoding is one for this script
    path.write_bytes(f"{TEXTS['ru']}I don’t know\n".encode("cp1251"))
    assert find_encoding(PackedFile(path), ("en", "ru")) == "cp1251"


def test_utf8_with_a_few_wrong_bytes_is_not_another_encoding(tmp_path, refused):
    path = tmp_path / "a.de"
    path.write_bytes((TEXTS["de"] * 50).encode() + b"M\xfcller\n")
    assert find_encoding(PackedFile(path), ()) == ""
    path.write_bytes((TEXTS["de"] * 50).encode() + b"M\xfcller\n" * 9)
    assert find_encoding(PackedFile(path), ("de",)) == ""
    path.write_bytes(TEXTS["de"].encode() + b"M\xfcller\n" * 9)
    assert find_encoding(PackedFile(path), ("de",)) == "cp1252"
    path.write_bytes((TEXTS["de"] * 50).encode() + b"M\xfcller\n")
    (tmp_path / "a.en").write_text("a\n" * 51)
    words = ["data=files", "data.source=de", "data.target=en", f"data.train={tmp_path / 'a'}"]
    words += [f"data_folder={tmp_path / 'data'}"]
    assert "a.de, line 51, is not UTF-8" in refused("download", *words)
    assert ("data.encoding='cp125' is not an encoding") in refused(
        "download", *words, "data.encoding=cp125"
    )
    assert "not ascii; data.encoding=NAME" in refused("download", *words, "data.encoding=ascii")
