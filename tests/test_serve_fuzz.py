"""Damaged documents of every format, sent to a service as a stranger would: an answer each, in
time, and no growth."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from corpora import Trained
from documents import SAMPLES
from packages import MARKED_PACKAGES, pack, unmarked
from servers import BROUGHT
from test_serve import running

httpx2 = pytest.importorskip("httpx2", reason=BROUGHT)

FILES = 2000
FIRST = 100  # after which memory should no longer grow
SECONDS = 30  # of a request, by --seconds
# The members of packages with text.
MEMBERS = {
    ".docx": "word/document.xml",
    ".odt": "content.xml",
    ".pptx": "ppt/slides/slide1.xml",
    ".idml": "Stories/Story_u1.xml",
}
TABLES = {
    ".csv": "source,target\nDer Hund läuft.,\nEin Ei,An egg\n",
    ".ts": '<TS version="2.1" language="en"><context><name>A</name><message><source>Der '
    "Hund</source>"
    '<translation type="unfinished"></translation></message></context></TS>',
}
# What readers have stumbled over: openings without an end, numbers without end, references, units,
# controls.
FRAGMENTS = [
    "[" * 3000,
    '{"a":' * 3000,
    "9" * 5000,
    "> " * 300,
    "$a " * 500,
    "<a " * 500,
    "<b>" * 2000,
    "&a;",
    "&#0;",
    "*" * 300,
    "`" * 300,
    "{n, plural, one {",
    "\ufeff",
    "\x00",
    "\u2028",
    "\uf2a0\uf2a1",
    "\ud7ff",
    "--> 00:",
    "\r",
    "\t\t\t",
    "a: &a [*a, *a]\n",
    "<!DOCTYPE a [<!ENTITY b 'bbbb'>]>",
    "\\u12",
    "%s %n {0} {{x}}",
    "|" * 200,
    "#" * 200,
    "- " * 500,
]


def mutated(content: bytes, chosen: random.Random) -> bytes:
    """The content with one to four changes."""
    for _ in range(chosen.randint(1, 4)):
        start = chosen.randrange(len(content) + 1)
        stop = min(len(content), start + chosen.choice([1, 2, 5, 20, 100]))
        kind = chosen.randrange(6)
        if kind == 0:
            content = content[:start] + content[stop:]
        elif kind == 1:
            content = (
                content[:start]
                + content[start:stop] * chosen.choice([2, 3, 50, 500])
                + content[stop:]
            )
        elif kind == 2:
            content = content[:start] + chosen.randbytes(stop - start) + content[stop:]
        elif kind == 3:
            content = content[:start] + chosen.choice(FRAGMENTS).encode() + content[start:]
        elif kind == 4:
            content = content[:start]
        else:
            content = (
                content[:start] + content[: chosen.randrange(len(content) + 1)] + content[start:]
            )
    return content


def hostile_files(count: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents, of all formats in turn."""
    chosen = random.Random(7)
    texts = {extension: text for extension, (text, _) in SAMPLES.items()} | TABLES
    extensions = [*texts, *MEMBERS]
    for number in range(count):
        extension = extensions[number % len(extensions)]
        if extension in texts:
            content = mutated(texts[extension].encode(), chosen)
        else:
            files = unmarked(MARKED_PACKAGES[extension])
            member = MEMBERS[extension]
            content = pack(files | {member: mutated(files[member].encode(), chosen)})
            if chosen.random() < 0.2:
                content = mutated(content, chosen)
        yield f"a{extension}", content


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def send_all(
    address: str, files: Iterator[tuple[str, bytes]], after: Callable[[int], None], folder: Path
) -> Counter[int]:
    """Send files one after the other; how often which status came. What is no good answer is kept
    in `folder`."""
    statuses: Counter[int] = Counter()
    with httpx2.Client(base_url=address, timeout=2 * SECONDS) as client:
        for number, (name, content) in enumerate(files):
            fields = {"source": "de", "target": "en"}
            answer = client.post("/translate_file", data=fields, files={"file": (name, content)})
            statuses[answer.status_code] += 1
            is_bad = (
                answer.status_code not in (200, 400, 413)
                or answer.elapsed.total_seconds() > SECONDS
            )
            if is_bad or "could not be written" in answer.text:
                (folder / f"{number}{name}").write_bytes(content)
            after(number)
    return statuses


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_no_damaged_document_is_a_failure_of_the_service(trained: Trained, tmp_path):
    memory: dict[int, int] = {}
    words = ["--beam", "1", "--seconds", str(SECONDS)]
    with running("tiny", trained.runs, *words) as (process, address):

        def note(number: int) -> None:
            if number in (FIRST, FILES - 1):
                memory[number] = resident_bytes(process.pid)

        statuses = send_all(address, hostile_files(FILES), note, tmp_path)
    assert statuses.keys() <= {200, 400, 413}
    assert sorted(path.name for path in tmp_path.iterdir()) == []
    assert statuses[200] > FILES / 10, "hardly any file could be read"
    assert memory[FILES - 1] <= 1.5 * memory[FIRST]
