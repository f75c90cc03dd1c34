"""The commands of README.md and docs/ can be parsed, what they link exists, and docs/ keeps its
length."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import SMALL, TRANSFORMER, Trained, pairs, run_command, write_pairs
from pair_files import tmx_of

from nmt.audit.report import MEANINGS
from nmt.commands.options import make_parser
from nmt.config.compose import compose_all
from nmt.documents.formats import EXTENSIONS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
GENERATED = ROOT / "docs" / "reference" / "configuration.md"


def commands(page: Path) -> list[str]:
    """The lines of all fenced shell blocks, continued lines joined."""
    blocks = re.findall(
        r"^```(?:sh|bash|shell|console)\n(.*?)^```",
        page.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [
        line.strip().removeprefix("$ ")
        for line in lines
        if line.strip() and not line.startswith("#")
    ]


def words(line: str) -> list[str]:
    """The words up to a comment, a pipe or a redirection."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    return list(itertools.takewhile(lambda word: not set(word) <= set("|<>;&"), lexer))


def check_command(arguments: list[str]) -> None:
    """Parse the arguments of `nmt`, and compose the configuration of a command that has one."""
    options = make_parser().parse_args(arguments)
    if hasattr(options, "overrides") and not any(
        word.startswith("from=") for word in options.overrides
    ):
        overrides = [word for word in options.overrides if "=" in word]  # a file need not be there
        if overrides != options.overrides:
            from_file = ["data=files", "data.source=de", "data.target=en", "data.train=FILE"]
            overrides = from_file + overrides
        assert compose_all(overrides, getattr(options, "multirun", False))


def check_make(line: str) -> None:
    """The target exists, and the nmt command behind it can be parsed and composed; make itself runs
    nothing."""
    arguments = words(line)[1:]
    dry_run = subprocess.run(
        ["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert dry_run.returncode == 0, dry_run.stderr
    nmt_lines = [line for line in dry_run.stdout.splitlines() if re.match(r"\S*bin/nmt ", line)]
    for nmt_line in nmt_lines:
        check_command(
            [word for word in words(nmt_line.replace('${TEXT:+"$TEXT"}', "TEXT"))[1:] if word]
        )
    targets = {word for word in arguments if re.fullmatch("[a-z-]+", word)}
    assert nmt_lines or not targets & {
        "train",
        "translate",
        "evaluate",
        "align",
        "compare",
        "download",
        "tokenize",
    }


@pytest.mark.parametrize(
    "pages", [[README], pytest.param(PAGES, marks=pytest.mark.slow)], ids=["README", "docs"]
)
def test_commands_can_be_parsed(pages):
    """On the pages of docs/ a line with … or model=MODEL has placeholders, which are no choices;
    extending.md adds choices of its own."""
    seen = set()
    for page in pages:
        for line in commands(page):
            is_placeholder = re.search(r"…|\.\.\.|=[A-Z]{3,}\b", line)
            if page != README and (is_placeholder or page.stem == "extending"):
                continue
            seen.add(line.split()[0])
            if line.startswith("make ") and page == README:
                check_make(line)
            elif line.startswith("nmt "):
                check_command(words(line)[1:])
    assert {"nmt", "make"} <= seen


@pytest.mark.slow
def test_the_commands_of_the_readme_work_in_its_order(
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    """Each line that needs no network, and the Python snippet; small runs stand for those of `make
    train`."""
    monkeypatch.chdir(tmp_path)
    for name in ("phrasebook-luong_global", "phrasebook-transformer"):
        shutil.copytree(trained.folder, tmp_path / "runs" / name)
    sentence_pairs = pairs(300)
    for name in ("sentences", "test"):
        write_pairs(tmp_path, name, sentence_pairs[:12])
    texts = "".join(f"<p>{german}</p>\n" for german, _ in sentence_pairs[:3])
    (tmp_path / "page.html").write_text(texts, encoding="utf-8")
    (tmp_path / "memory.tmx").write_text(tmx_of(sentence_pairs), encoding="utf-8")
    done = set()
    for line in commands(README):
        if line.startswith("nmt ") and "opus:" not in line and "--format html" not in line:
            _, command, *more = words(line)
            small = [*TRANSFORMER, *SMALL, "train.max_steps=20"] if command == "train" else []
            answer = run_command(capfd, command, *more, *small)
            assert answer.code == 0, f"{line}\n{answer.err}"
            done.add(command)
    assert done >= {"audit", "train", "translate", "align", "evaluate", "compare"}
    assert all(
        (tmp_path / name).exists()
        for name in ("sentences.en", "page.en.html", "heatmap.png", "alignments.html")
    )
    (snippet,) = re.findall(
        r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    exec(snippet, {})


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere():
    broken = []
    for page in [README, ROOT / "CONTRIBUTING.md", *PAGES]:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            file = (page.parent / name) if name else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path):
    """Every page is in the navigation, and MkDocs finds what they link; it asks for no network."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    process = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    page = (tmp_path / "site/tutorials/attention.html").read_text("utf-8")
    assert "data:image/png;base64," in page and "https://fonts." not in page


def test_every_file_that_is_named_exists():
    """Pages that the code names, and `nmt/…`, `scripts/…` and so on that a page names.

    What left the project is named with its commit; what extending.md adds is new.
    """
    page_name = re.compile(r"\b(docs/[\w/.-]+\.(?:md|ipynb))\b")
    file_name = re.compile(
        r"`(?:python )?((?:nmt|tests|scripts|conf)/[\w./*-]+)[^`]*`(?! of commit)"
    )
    named = []
    for folder in ("nmt", "conf", "scripts", "tests", "data/phrasebook"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yaml", ".md", "") and path.is_file():
                named.append((path, page_name))
    for page in (README, ROOT / "CONTRIBUTING.md", *PAGES):
        if page.stem != "extending" and page != GENERATED:
            named.append((page, file_name))
    broken = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, pattern in [*named, (ROOT / "Makefile", page_name)]
        for name in pattern.findall(path.read_text("utf-8", "replace"))
        if not list(ROOT.glob(name))
    ]
    assert not broken, "\n".join(broken)


def test_the_tree_of_contributing_is_that_of_the_project():
    (tree,) = re.findall(
        r"^```\n(nmt/ .*?)^```",
        (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    rows = dict(re.findall(r"^  (\w+)/ +(.*)", tree, re.MULTILINE))
    packages = {path.parent.name for path in (ROOT / "nmt").glob("*/__init__.py")}
    named = {
        f"nmt/{name}/{file}" for name, row in rows.items() for file in re.findall(r"\w+\.py", row)
    }
    assert rows.keys() == packages and all((ROOT / name).exists() for name in named), sorted(named)
    assert all((ROOT / name).is_dir() for name in re.findall(r"^([\w/]+)/ ", tree, re.MULTILINE))


def models() -> list[str]:
    return [path.stem for path in (ROOT / "conf" / "model").glob("*.yaml")]


def verbs() -> list[str]:
    """The commands of the command line."""
    actions = make_parser()._actions
    [subparsers] = [action for action in actions if isinstance(action.choices, dict)]
    return list(subparsers.choices)


@pytest.mark.parametrize(
    ("page", "names", "form"),
    [
        pytest.param("README.md", models, r"^\|.*`{}`.*\|", id="models"),
        pytest.param("docs/guides/audit.md", lambda: MEANINGS, "{}", id="faults"),
        pytest.param("docs/guides/documents.md", lambda: EXTENSIONS, "`{}`", id="documents"),
        pytest.param("docs/reference/commands.md", verbs, "`(nmt )?{}`", id="commands"),
    ],
)
def test_every_choice_is_named_on_its_page(page, names, form):
    text = (ROOT / page).read_text("utf-8")
    missing = []
    for name in names():
        if not re.search(form.replace("{}", re.escape(name)), text, re.MULTILINE):
            missing.append(name)
    assert not missing
