"""The input of a long service: every line arrives in order, whatever it holds and however it
comes."""

import bz2
import gzip
import io
import lzma
import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpus import line_chunks
from nmt.corpus.line_chunks import LineChunk, read_chunks, text_chunks
from nmt.corpus.packed import OPENERS, PackedFile
from nmt.errors import UserError


def chunks_of(content: bytes) -> list[LineChunk]:
    return list(read_chunks(io.BytesIO(content), "input", live=False))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("a\u2028b\x85c\x0bd\n".encode(), ["a\u2028b\x85c\x0bd"]),
        (b"a\0b\x1b[2J\n", ["a\0b\x1b[2J"]),
        (rb"{'text': '\ud800'}" + b"\n", [r"{'text': '\ud800'}"]),
    ],
)
def test_lines_by_hand(content, texts):
    (*_, chunk) = [LineChunk(1), *chunks_of(content)]
    assert chunk.texts == texts and chunk.unreadable == {}


def test_a_line_that_cannot_be_read_is_blank_and_named(monkeypatch):
    monkeypatch.setattr(line_chunks, "LONGEST_LINE", 10)
    monkeypatch.setattr(line_chunks, "BLOCK", 4)
    content = (
        b"a\nM\xfcller\n" + b"x" * 11 + b"\n" + b"y" * 10 + b"\n\xed\xa0\x80\nb\n" + b"z" * 100
    )
    (chunk,) = chunks_of(content)
    assert chunk.texts == ["a", "", "", "y" * 10, "", "b", ""]
    assert chunk.unreadable == {
        2: "not UTF-8",
        3: "longer than 10 bytes",
        5: "not UTF-8",
        7: "longer than 10 bytes",
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Ja.\nNein.\n".encode("utf-16"), "UTF-16"),
        ("Ja.\nNein.\n".encode("utf-32"), "UTF-16"),
        (b"Ja.\rNein.\r", "carriage returns"),
        (b"Ja.\r" * 5, "carriage returns"),
    ],
)
def test_what_has_no_lines_is_refused_as_a_whole(content, said, monkeypatch):
    monkeypatch.setattr(line_chunks, "LONGEST_LINE", 10)
    monkeypatch.setattr(line_chunks, "BLOCK", 6)
    with pytest.raises(UserError, match=said):
        chunks_of(content)


@given(
    content=st.binary(max_size=60)
    .map(lambda some: some.replace(b"\x01", b"\n"))
    .filter(lambda some: some[:2] not in (b"\xff\xfe", b"\xfe\xff"))
    .filter(lambda some: b"\n" in some or b"\r" not in some),
    block=st.integers(1, 9),
)
def test_as_many_lines_as_line_ends(content, block):
    """However the bytes are divided into blocks; and the digest tells inputs apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_chunks, "BLOCK", block)
        patch.setattr(line_chunks, "CHUNK_LINES", 3)
        chunks = chunks_of(content)
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    assert [len(chunk.texts) for chunk in chunks] == [
        min(3, len(lines) - start) for start in range(0, len(lines), 3)
    ]
    texts = [text for chunk in chunks for text in chunk.texts]
    for text, line in zip(texts[1:], lines[1:], strict=True):
        assert text == line.removesuffix(b"\r").decode(errors="ignore") or text == ""
    if lines:
        assert (
            chunks[-1].stop == len(lines)
            and chunks[-1].digest != chunks_of(content + b"x")[-1].digest
        )


def test_the_digest_tells_where_lines_end():
    digests = [chunks_of(content)[-1].digest for content in (b"ab\nc", b"a\nbc", b"abc")]
    assert len(set(digests)) == 3


@pytest.mark.parametrize("library", [gzip, bz2, lzma])
def test_lines_before_damage_come_first(library, tmp_path):
    path = tmp_path / f"some.{ {gzip: 'gz', bz2: 'bz2', lzma: 'xz'}[library] }"
    lines = b"".join(b"%d\n" % (number**3) for number in range(500_000))
    packed = library.compress(lines)
    path.write_bytes(packed[: 9 * len(packed) // 10])
    got = []
    damage = r"some\.\w+ cannot be read after line \d+: it is cut short or damaged"
    with pytest.raises(UserError, match=damage), PackedFile(path).open() as file:
        for chunk in read_chunks(file, str(path), live=True):
            got += chunk.texts
    assert len(got) > 10_000 and got == [str(number**3) for number in range(len(got))]


@pytest.mark.parametrize("ending", OPENERS)
def test_a_file_that_is_not_what_its_ending_says(ending, tmp_path):
    """Text is read, which a browser may have unpacked; anything else is refused."""
    path = tmp_path / f"some{ending}"
    path.write_text("eins\nzwei — drei\n" * 100, encoding="utf-8")
    with PackedFile(path).open() as file:
        [chunk] = read_chunks(file, str(path), live=False)
    assert chunk.texts == ["eins", "zwei — drei"] * 100
    path.write_bytes(b"PK\3\4\0\0")
    with pytest.raises(UserError, match="cannot be read"), PackedFile(path).open() as file:
        list(read_chunks(file, str(path), live=False))


@pytest.fixture
def pipe():
    """The reading end of a pipe as a file, and a function that writes to the other end; None closes
    it."""
    read, write = os.pipe()

    def send(content: bytes | None) -> None:
        os.write(write, content) if content is not None else os.close(write)

    with os.fdopen(read, "rb", buffering=0) as file:
        yield file, send


def test_a_pipe_that_pauses_is_answered(pipe, monkeypatch):
    """Half a line waits for its other half; the pauses are not those of a clock but of the
    writer."""
    file, send = pipe
    monkeypatch.setattr(line_chunks, "PAUSE", 0.001)
    chunks = read_chunks(file, "stdin", live=True)
    send(b"a\nb\nhal")
    assert next(chunks).texts == ["a", "b"]
    send(b"f\n")
    assert next(chunks).texts == ["half"]
    send(b"last")
    send(None)
    last = next(chunks)
    assert (last.start, last.texts) == (4, ["last"]) and list(chunks) == []


def test_a_file_is_never_answered_early(pipe, tmp_path, monkeypatch):
    """Neither a regular file nor a pipe into --output."""
    monkeypatch.setattr(line_chunks, "LONGEST_WAIT", 0.0)
    (tmp_path / "some.de").write_bytes(b"a\n" * 3000)
    with open(tmp_path / "some.de", "rb") as file:
        assert [len(chunk.texts) for chunk in read_chunks(file, "x", live=True)] == [2000, 1000]
    file, send = pipe

    def write() -> None:
        for content in (b"a\n", b"a\n", b"a\n", None):
            send(content)
            time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    assert [len(chunk.texts) for chunk in read_chunks(file, "x", live=False)] == [3]
    writer.join()


def test_long_lines_make_small_chunks(monkeypatch):
    """So that memory is bounded."""
    monkeypatch.setattr(line_chunks, "CHUNK_CHARACTERS", 10)
    lines = ["a" * 4, "b" * 7, "c", "d" * 30, "e"]
    wanted = [lines[:2], lines[2:4], lines[4:]]
    assert list(text_chunks(lines)) == wanted
    assert [chunk.texts for chunk in chunks_of("\n".join(lines).encode())] == wanted


def test_lines_that_trickle_are_not_held_back(pipe, monkeypatch):
    """A line waits LONGEST_WAIT at most, though none of the pauses is as long as PAUSE."""
    file, send = pipe
    monkeypatch.setattr(line_chunks, "PAUSE", 60)
    monkeypatch.setattr(line_chunks, "LONGEST_WAIT", 0.0)
    chunks = read_chunks(file, "stdin", live=True)
    for number in range(3):
        send(b"%d\n" % number)
        assert next(chunks).texts == [str(number)]
    send(None)
