"""The alignment page: one inert file, the contrast of its colors, its script run in a small
stand-in for a browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from chromium import Browser, find_chromium
from test_heatmap import SOURCE, TARGET, WEIGHTS

from nmt.view.alignment_page import PagePair, alignment_page, read_asset
from nmt.view.heatmap import CAPTION
from nmt.view.page import Table, html_page

EXAMPLE = PagePair(
    SOURCE,
    TARGET,
    {"layer 1": WEIGHTS, "layer 2": np.full((3, 3), 1 / 3)},
    gold=({(0, 0), (2, 1), (1, 2)}, {(0, 0), (1, 1)}),
    window_spans=[(0.25, 0, 1), None, (2, 1, 2)],
)
PROVENANCE = {"run": "runs/first", "command": 'nmt align "first" --html <x>'}
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Tree(HTMLParser):
    """A page as nested dicts {tag, attributes, children}; refuses elements that are not closed in
    order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root: dict = {"tag": "root", "attributes": {}, "children": []}
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root]

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "attributes": dict(attributes), "children": []}
        self.open[-1]["children"].append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        self.open[-1]["children"].append(data)

    def all(self, tag: str, at: dict | None = None) -> list[dict]:
        elements = []
        for child in (at or self.root)["children"]:
            if isinstance(child, dict):
                elements += ([child] if child["tag"] == tag else []) + self.all(tag, child)
        return elements

    def text(self, at: dict) -> str:
        return "".join(
            child if isinstance(child, str) else self.text(child) for child in at["children"]
        )

    def data(self) -> list[dict]:
        (block,) = [
            script for script in self.all("script") if script["attributes"].get("id") == "pairs"
        ]
        assert block["attributes"]["type"] == "application/json"
        return json.loads(self.text(block))

    def words(self, side: str) -> list[str]:
        lines = [
            line for line in self.all("div") if line["attributes"].get("class") == f"words {side}"
        ]
        return [self.text(button) for line in lines for button in self.all("button", line)]


def test_the_worked_example_is_on_the_page():
    tree = Tree(alignment_page("first", [EXAMPLE], PROVENANCE))
    assert tree.words("source") == SOURCE and tree.words("target") == TARGET
    (pair,) = tree.data()
    assert pair["source"] == SOURCE and pair["target"] == TARGET
    assert pair["matrices"] == [[940, 20, 40, 110, 10, 880, 30, 950, 20], [333] * 9]
    assert pair["sure"] == [[0, 0], [1, 2], [2, 1]] and pair["possible"] == [[1, 1]]
    assert pair["window_spans"] == [[0.25, 0, 1], None, [2, 1, 2]]
    assert [tree.text(option) for option in tree.all("option")] == ["layer 1", "layer 2"]
    assert all(
        text in tree.text(tree.root) for text in (CAPTION, *PROVENANCE, *PROVENANCE.values())
    )
    plain = Tree(alignment_page("plain", [PagePair(SOURCE, TARGET, {"rollout": WEIGHTS})], {}))
    assert len(tree.all("li")) == 4 and not plain.all("li") and not plain.all("select")


def test_the_file_needs_nothing_and_its_policy_forbids_the_rest():
    text = alignment_page("first", [EXAMPLE], PROVENANCE)
    tree = Tree(text)
    (policy,) = [meta for meta in tree.all("meta") if "http-equiv" in meta["attributes"]]
    content = policy["attributes"]["content"]
    assert content.startswith("default-src 'none';") and "http" not in content
    assert not any(
        tree.all(tag) for tag in ("link", "img", "iframe", "object", "embed", "base", "form", "a")
    )
    assert not re.search(
        r"""\bsrc\s*=|\bhref\s*=|url\(|@import|https?:|fetch\(|XMLHttp|innerHTML|eval\(""", text
    )


EVIL = {  # what is shown of each
    "</script><script>alert(1)</script>": "</script><script>alert(1)</script>",
    "<!--<script>": "<!--<script>",
    "\"'><img src=x onerror=alert(1)>": "\"'><img src=x onerror=alert(1)>",
    "&lt;b&gt;": "&lt;b&gt;",
    "\u2028": "∅",
    "bad\udce2": "bad\ufffd",
    "\x00\x07": "∅",
    "می\u200cخواهم": "می\u200cخواهم",
}


def test_no_text_is_markup():
    """The same elements as with harmless words, each evil one read back as text."""

    def build(words: list[str]) -> Tree:
        pairs = [
            PagePair(
                words,
                words,
                {f"{number} {word}": np.eye(len(words)) for number, word in enumerate(words)},
            )
        ]
        text = alignment_page(words[0], pairs, dict(zip(EVIL, words, strict=True)))
        return Tree(text.encode("utf-8").decode("utf-8"))

    evil = build([*EVIL])
    plain = build(["w"] * len(EVIL))
    assert (
        evil.words("source") == evil.words("target") == evil.data()[0]["source"] == [*EVIL.values()]
    )
    assert evil.text(evil.all("title")[0]) == next(iter(EVIL))
    for tag in ("script", "img", "b", "button", "option", "td", "bdi", "p"):
        assert len(evil.all(tag)) == len(plain.all(tag)), tag


def test_the_first_letter_sets_the_direction_of_a_sentence():
    for words, direction in (
        (["3", "«", "חתול"], "rtl"),
        (["(", "القطة", "cat"], "rtl"),
        (["the", "القطة"], "ltr"),
        (["1", "."], "ltr"),
    ):
        tree = Tree(
            alignment_page("t", [PagePair(words, ["x"], {"m": np.full((1, len(words)), 0.5)})], {})
        )
        source, target = [
            line for line in tree.all("div") if line["attributes"].get("role") == "group"
        ]
        assert source["attributes"]["dir"] == direction and target["attributes"]["dir"] == "ltr"
        assert all(tree.all("bdi", button) for button in tree.all("button", source))


def test_values_that_do_not_match_are_refused():
    for matrices, gold, message in (
        ({"m": WEIGHTS[:2]}, None, "does not fit"),
        ({"m": WEIGHTS * np.nan}, None, "outside 0..1"),
        ({"m": WEIGHTS}, ({(3, 0)}, set()), "Link 3-0 is outside"),
    ):
        with pytest.raises(ValueError, match=message):
            alignment_page("t", [PagePair(SOURCE, TARGET, matrices, gold=gold)], {})


def run_script(pairs: list[PagePair], steps: list[list]) -> list[dict]:
    """What the page shows after each step [event, selector, index (, value)], by tests/page.mjs in
    Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the script of the page is not tested")
    tree = Tree(alignment_page("t", pairs, {}))
    message = json.dumps({"tree": tree.root, "script": read_asset("page.js"), "steps": steps})
    script = Path(__file__).with_name("page.mjs")
    process = subprocess.run(
        [node, str(script)], input=message, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_a_target_word_highlights_the_words_it_attends_to():
    start, over, out = run_script(
        [EXAMPLE], [["mouseover", ".target button", 1], ["mouseleave", ".pair", 0]]
    )
    assert start["source"] == start["target"] == [["", 0, ""]] * 3
    assert over["source"] == [
        ["0.11", 0.11, ""],
        ["0.01", 0.01, "possible"],
        ["0.88", 0.88, "sure strong"],
    ]
    assert over["target"] == [["", 0, ""], ["", 0, "selected"], ["", 0, ""]]
    assert over["summary"] == "t' attends to you 0.88, I 0.11, love 0.01"
    assert over["lit"] == [[1, None], [1, 0], [1, 1], [1, 2]]
    assert out == start


def test_a_click_pins_a_word_and_escape_or_a_second_click_releases_it():
    click = ["click", ".target button", 0]
    leave = ["mouseleave", ".pair", 0]
    escape = ["keydown", ".pair", 0, "Escape"]
    other = ["mouseover", ".target button", 2]
    start, kept, still, moved, back, gone, again, twice = run_script(
        [EXAMPLE], [click, leave, other, leave, escape, click, click]
    )
    assert kept == still == back == again and kept["source"][0] == ["0.94", 0.94, "sure strong"]
    assert moved["source"][1][0] == "0.95"
    assert gone == twice == start


def test_the_table_shows_the_example_and_the_choice_changes_it():
    start, over, chosen = run_script(
        [EXAMPLE], [["mouseover", "td", 5], ["change", "select", 0, "1"]]
    )
    assert start["head"] == ["", *SOURCE] and start["rows"] == TARGET
    assert start["cells"] == [f"{weight:.2f}" for weight in WEIGHTS.flat]
    assert start["titles"][5] == "t' – you: 0.880"
    dark = np.array(start["inks"]).reshape(3, 3)
    assert dark.argmax(axis=1).tolist() == [0, 2, 1] and (dark == WEIGHTS).all()
    # Row 0 has p_t at a quarter of a cell right of the middle of the first; its window is words 0
    # to 1.
    assert start["marks"] == [
        "sure first centre 75%",
        "last",
        "",
        "",
        "possible",
        "sure",
        "",
        "sure first",
        "last centre 50%",
    ]
    assert over["source"][2][0] == "0.88" and "selected" in over["source"][2][2]
    assert chosen["cells"] == ["0.33"] * 9 and chosen["marks"] == start["marks"]


def test_pages_fit_a_phone_and_the_report_a_sheet_of_paper(tmp_path):
    """Seven words, full stop and </s> side by side; 13 columns and a long name on A4 with margins
    of 1 cm."""
    if find_chromium() is None:
        pytest.skip("Chromium is not installed; the width of pages is not measured")
    words = "Gestern waren meine lieben Nachbarn endlich zufrieden .".split()
    page = tmp_path / "page.html"
    report = tmp_path / "report.html"
    weights = np.full((8, 9), 1 / 9)
    page.write_text(
        alignment_page(
            "first", [PagePair([*words, "</s>"], words, {"layer 1": weights})], PROVENANCE
        )
    )
    columns = (
        "run, attention, score, window, model, layers, size, M parameters, seed, updates, "
        "minutes, tokens/s, beam"
    )
    cells = (
        "2 layers × 4 heads|softmax, sinusoidal|sliding, D = 10|transformer|12 + "
        "12|1024|211.7|1|15,000|61|9,146|5"
    )
    table = Table(
        "Runs",
        columns.split(", "),
        [["long_name_of_a_run" * 3, *cells.split("|")]],
        ["signature:" * 12],
    )
    report.write_text(html_page("report", table.html()))
    tables = "[...document.querySelectorAll('.scroll')]"
    with Browser() as browser:
        for path, width, media in (
            *((each, width, "screen") for each in (page, report) for width in (390, 820, 1440)),
            (report, 718, "print"),
        ):
            browser.resize(width)
            browser.send("Emulation.setEmulatedMedia", media=media)
            browser.open(path)
            browser.wait("document.readyState === 'complete'")
            assert browser.overflow() <= 0
            is_scrolled = browser.run(
                f"{tables}.some((each) => each.scrollWidth > each.clientWidth)"
            )
            assert not is_scrolled or (path == report and media == "screen")
