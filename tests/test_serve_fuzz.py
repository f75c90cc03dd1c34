"""Damaged documents of every format, sent to a service as a stranger would: an answer each, in
time, and no growth."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpora import Trained
from documents import SAMPLES
from packages import MARKED_PACKAGES, pack, unmarked
from servers import BROUGHT
from test_serve import SIDES, running

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
        part = content[start:stop]
        changed = [
            b"",
            part * chosen.choice([2, 3, 50, 500]),
            chosen.randbytes(len(part)),
            chosen.choice(FRAGMENTS).encode() + part,
            content[: chosen.randrange(len(content) + 1)] + part,
        ]
        rest = [content[stop:]] * 5 + [b""]
        content = content[:start] + chosen.choice(changed) + chosen.choice(rest)
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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_no_damaged_document_is_a_failure_of_the_service(trained: Trained, tmp_path):
    """What has no good answer is kept in the folder of the test."""
    memory: list[int] = []  # after each file
    statuses: Counter[int] = Counter()
    words = ["--beam", "1", "--seconds", str(SECONDS)]
    with (
        running("tiny", trained.runs, *words) as (process, address),
        httpx2.Client(base_url=address, timeout=2 * SECONDS) as client,
    ):
        for number, (name, content) in enumerate(hostile_files(FILES)):
            answer = client.post("/translate_file", data=SIDES, files={"file": (name, content)})
            statuses[answer.status_code] += 1
            is_good = answer.status_code in (200, 400, 413) and (
                answer.elapsed.total_seconds() <= SECONDS
            )
            if not is_good or "could not be written" in answer.text:
                (tmp_path / f"{number}{name}").write_bytes(content)
            memory.append(resident_bytes(process.pid))
    assert sorted(path.name for path in tmp_path.iterdir()) == []
    assert statuses[200] > FILES / 10, "hardly any file could be read"
    assert memory[-1] <= 1.5 * memory[FIRST]
