"""The page of `nmt serve` in Chromium; the service behind it is played by the test."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, find_chromium
from servers import BROUGHT

pages = pytest.importorskip("nmt.serve.pages", reason=BROUGHT)
pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")

LINES = [
    "",
    " ",
    "Guten Tag",
    "Wo ist er?",
    "<b>fett</b>",
    "שלום",
    "x" * 200,
    "https://example.org/" + "a" * 90,
]
TARGETS = {"de": ["en", "ar", "zt"], "en": ["de", "he", "tlh_Klingon_x"], "ar": []}
NAMES = {"de": "German", "en": "English", "ar": "Arabic", "tlh_Klingon_x": "Klingon"}
SETTINGS = {
    "keyRequired": False,
    "suggestions": True,
    "supportedFilesFormat": [".txt", ".docx"],
    "language": {side: {"code": code} for side, code in (("source", "de"), ("target", "en"))},
}
SIMILAR = {
    "text": "ähnlich <i> neu",
    "similarity": 0.849,
    "source": "ähnlich <i> alt, sehr",
    "target": "like <i>",
}
# A service that answers when the test lets it: to each line its target and itself, its last word
# unsure.
SERVICE = """
window.asked = [];
const json = (value, status = 200) => new Response(JSON.stringify(value), { status });
const codes = [...new Set(Object.entries(TARGETS).flatMap(([code, targets]) => [code, ...targets]))];
const languages = codes.map((code) => ({ code, name: NAMES[code] || code, targets: TARGETS[code] || [] }));
window.fetch = async (path, { body } = {}) => {
  if (path === "languages") return json(languages);
  if (path === "frontend/settings") return json(SETTINGS);
  const answer = await new Promise((resolve, reject) => asked.push({ path, body, resolve, reject }));
  return answer === "broken" ? new Response("<html>", { status: 502, statusText: "Bad Gateway" }) : json(...answer);
};
const translation = (line, target) => (line === "nothing" ? "" : `${target}: ${line}`);
const part = (text, details) => {
  const target = text.split(" ");
  const weights = new Array(2 * target.length).fill(0.5);
  return {
    text, target, source: ["a", "</s>"], windows: target.map(() => null),
    confidences: target.map((_, index) => (index === target.length - 1 ? 0.2 : 0.9)),
    matrices: details === true ? [{ name: "layer 1", weights }] : [],
    ...(text.endsWith("gap") && { expected_chrf: 41.4, omitted: ["x y z"] }),
    ...(text.endsWith("alien") && { expected_chrf: 3, detached: true }),
  };
};
const translate = ({ q, target, details }) => {
  const translatedText = q.map((line) => translation(line, target));
  const similar = q.map((line) => (line.startsWith("ähnlich") ? [SIMILAR] : []));
  const memory = q.map((line) => line === "bekannt");
  return { translatedText, details: translatedText.map((text) => (text ? [part(text, details)] : [])), memory, similar };
};
window.answer = (index, kind) => {
  const { path, body, resolve, reject } = asked.splice(index, 1)[0];
  if (kind === "gone") reject(new TypeError("Failed to fetch"));
  else if (kind === "broken") resolve("broken");
  else if (kind === "refused") resolve([{ error: "Too much is waiting" }, 503]);
  else if (path === "translate") resolve([translate(JSON.parse(body))]);
  else if (path === "suggest") resolve([{ success: true, accepted: kind === "accepted", ...(kind && { instead: ["old <b>"] }) }]);
  else resolve([{ translatedFileUrl: "http://x/download_file/a", sentences: 3, unsureSentences: 1 }]);
};
window.type = (text) => {
  document.getElementById("source").value = text;
  document.getElementById("source").dispatchEvent(new Event("input"));
};
window.choose = (id, value) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event("change"));
};
window.shown = () => ({
  lines: document.getElementById("source").value.split("\\n"),
  target: document.getElementById("to").value,
  translations: [...document.querySelectorAll("#translation p")].map((line) => line.textContent),
  waiting: [...document.querySelectorAll("#translation p")].map((line) => line.className === "waiting"),
  status: document.getElementById("status").textContent,
  state: document.getElementById("status").className,
  sections: document.querySelectorAll(".pair").length,
  canCopy: !document.getElementById("copy").disabled,
});
"""  # noqa: E501


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Browser:
    """The page, opened; its pause between a key and the request is no time at all."""
    values = {"TARGETS": TARGETS, "NAMES": NAMES, "SETTINGS": SETTINGS, "SIMILAR": SIMILAR}
    service = (
        "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        + SERVICE
    )
    (tmp_path / "assets").mkdir()
    for name, route in (("page.css", pages.style), ("page.js", pages.script)):
        content = asyncio.run(route(None)).body.decode().replace("PAUSE = 250", "PAUSE = 0")
        (tmp_path / "assets" / name).write_text(content, encoding="utf-8")
    (tmp_path / "assets/service.js").write_text(service, encoding="utf-8")
    scripts = '<script src="assets/service.js"></script>\n<script src="assets/page.js">'
    html = (
        pages.resources.files("nmt.serve")
        .joinpath("page.html")
        .read_text("utf-8")
        .replace('<script src="assets/page.js">', scripts)
    )
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    browser.open(tmp_path / "page.html")
    browser.wait("document.querySelectorAll('#from option').length === 2")
    return browser


def ask(page: Browser, text: str) -> None:
    page.run(f"asked.length = 0, type({json.dumps(text)})")
    page.wait("asked.length === 1")


def answer(page: Browser, kind: str = "") -> dict:
    page.run(f"answer(0, '{kind}'), new Promise((resolve) => setTimeout(resolve, 5))")
    return page.run("shown()")


def test_beside_a_text_stands_its_own_translation_or_none(page):
    """After any sequence of keys, languages, late answers and errors; and every request ends as it
    should."""
    chance = random.Random(5)
    for _ in range(120):
        waiting = page.run("asked.length")
        step = chance.choice(["type", "type", "from", "to", "attention", *["answer"] * 4])
        if step == "type":
            page.run(
                f"type({json.dumps(chr(10).join(chance.choices(LINES, k=chance.randrange(1, 5))))})"
            )
        elif step == "from":
            page.run(f"choose('from', '{chance.choice(['de', 'en'])}')")
        elif step == "to":
            page.run("choose('to', document.querySelector('#to option:last-child').value)")
        elif step == "attention":
            page.run("document.getElementById('attention').open ^= true")
        elif waiting:
            kind = chance.choice(["", "", "", "gone", "broken", "refused"])
            page.run(f"answer({chance.randrange(waiting)}, '{kind}')")
        page.run("new Promise((resolve) => setTimeout(resolve, 5))")
        shown = page.run("shown()")
        if shown["state"] == "failed":
            assert not any(shown["translations"]) and not shown["sections"] and not shown["canCopy"]
            continue
        if not any(shown["lines"]):
            assert not any(shown["translations"])
            continue
        for line, translation in zip(shown["lines"], shown["translations"], strict=True):
            wanted = f"{shown['target']}: {line}" if line.strip() else ""
            assert translation == wanted or (not translation and shown["state"] == "busy")
    page.run("document.getElementById('attention').open = true")
    page.run("type('Ende'), new Promise((resolve) => setTimeout(resolve, 20))")
    while page.run("asked.length"):
        answer(page)
    shown = page.run("shown()")
    assert (
        shown["translations"] == [f"{shown['target']}: Ende"]
        and shown["sections"] == 1
        and not shown["state"]
    )


def test_doubt_is_said_and_attention_is_asked_for_when_it_is_opened(page):
    """A word is marked where it stands, not where it occurs first; an empty translation is said,
    and not copied."""
    ask(page, "Wo Wo\nnothing\neins")
    assert json.loads(page.run("asked[0].body"))["details"] == "words"
    told = answer(page)
    assert told["status"] == (
        "One line has got no translation. 2 of 5 words are more likely wrong than right (wavy "
        "line)."
    )
    before = (
        "[...document.querySelectorAll('mark')].map((mark) => [mark.previousSibling.data, "
        "mark.textContent])"
    )
    assert page.run(before) == [["en: Wo ", "Wo"], ["en: ", "eins"]]
    assert (
        page.run("getComputedStyle(document.querySelector('.empty'), '::before').content")
        == '"(no translation)"'
    )
    assert not told["sections"] and told["translations"][1] == ""
    page.run("document.getElementById('attention').open = true")
    page.wait("asked.length === 1")
    body = json.loads(page.run("asked[0].body"))
    assert body["details"] is True and page.run("shown()")["translations"] == told["translations"]
    assert answer(page)["sections"] == 2


def press_enter(page: Browser) -> None:
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r")


def test_what_is_similar_stands_with_its_difference(page):
    """It is text, and can be taken over into the correction; what is known is marked."""
    ask(page, "bekannt\nähnlich <i> neu\nbekannt")
    told = answer(page)
    assert told["status"].startswith("2 lines were translated before.")
    assert page.texts("#translation .remembered") == ["en: bekannt"] * 2
    assert page.texts("#similar p") == ["84 % similar", "ähnlich <i> alt, sehrneu", "like <i>"]
    assert page.texts("#similar del") == ["alt, sehr"] and page.texts("#similar ins") == ["neu"]
    page.run("document.querySelector('#similar button').focus()")
    press_enter(page)
    assert page.run("document.activeElement.value") == "like <i>"
    assert page.run("document.activeElement.labels[0].textContent") == "ähnlich <i> neu"
    ask(page, "nothing")
    answer(page)
    assert page.run("document.getElementById('memory').hidden")


@pytest.mark.parametrize(
    ("lines", "fields", "can_use"),
    [
        (["ähnlich  <i> neu", "a b"], 2, True),
        (["ähnlich <i> neu. Und mehr."], 1, False),  # the match is of one sentence of two
        ([*(f"{number}" for number in range(19)), "ähnlich <i> neu"], 20, True),
        ([*(f"{number}" for number in range(20)), "ähnlich <i> neu"], 20, False),
    ],
)
def test_a_match_is_taken_over_by_the_line_that_it_matches(page, lines, fields, can_use):
    """If the line has a field; that some have none is said."""
    ask(page, "\n".join(lines))
    answer(page)
    page.run("document.getElementById('correct').open = true")
    page.wait(f"document.querySelectorAll('.correction').length === {fields}")
    assert page.texts("#similar p")[2:] == ["like <i>"]
    assert len(page.texts("#similar button")) == can_use
    hidden = page.run("document.getElementById('uncorrected').hidden")
    assert hidden == (len(lines) <= fields)


def test_a_correction_is_written_and_saved_by_the_keyboard(page):
    """What somebody writes stays while other lines change; the end of each request is said."""
    areas = "[...document.querySelectorAll('.correction textarea')]"
    ask(page, "eins\nzwei\n\neins")
    answer(page)
    assert page.texts(".correction") == []
    page.run("document.querySelector('#correct summary').focus()")
    press_enter(page)
    page.wait(f"{areas}.length === 2")
    assert page.run(f"{areas}.map((each) => each.value)") == ["en: eins", "en: zwei"]
    page.run(f"{areas}[1].focus(), {areas}[1].value = 'two <b>\\n now'")
    for kind, said in (
        ("", "Saved; it is used once it has been accepted."),
        ("refused", "Too much is waiting"),
        ("gone", "The service cannot be reached."),
    ):
        press_enter(page)
        page.wait("asked.length === 1")
        body = {"q": "zwei", "s": "two <b> now", "source": "de", "target": "en"}
        assert json.loads(page.run("asked[0].body")) == body
        answer(page, kind)
        assert page.texts(".correction [role=status]") == ["", said]
    ask(page, "zwei\ndrei")
    assert page.run(f"{areas}.map((each) => each.value)") == ["two <b>\n now"]
    answer(page)
    assert page.run(f"{areas}.map((each) => each.value)") == ["two <b>\n now", "en: drei"]

    # One that counts at once is asked for again
    page.run("asked.length = 0, document.querySelector('.correction button').click()")
    page.wait("asked.length === 1")
    answer(page, "accepted")
    page.wait("asked.length === 1")
    assert json.loads(page.run("asked[0].body"))["q"] == ["zwei"]
    answer(page)
    status = page.texts(".correction [role=status]")[0]
    assert status == "Saved; it is used from now on. It differs from an earlier one: old <b>"
    page.run(f"{areas}[0].value = ' '")
    page.run("document.querySelector('.correction button').click()")
    assert "first" in page.texts(".correction [role=status]")[0] and not page.run("asked.length")
    page.run("choose('to', 'ar')")
    answer(page)
    assert page.run(f"{areas}.map((each) => each.value)") == ["ar: zwei", "ar: drei"]


def test_languages_have_names_and_directions(page):
    """For the reader and for those who speak them; a code that no browser knows has its name
    here."""
    assert page.texts("#to option") == ["Arabic – العربية", "English", "zt"]
    page.run("choose('to', 'ar')")
    sides = (
        "['source', 'translation'].map((id) => [document.getElementById(id).lang, "
        "document.getElementById(id).dir])"
    )
    assert page.run(sides) == [["de", "auto"], ["ar", "rtl"]]
    page.run("choose('from', 'en')")
    assert page.texts("#to option") == ["German – Deutsch", "Hebrew – עברית", "Klingon"]


def test_documents_are_dropped_and_their_end_is_told(page):
    """One after the other, each with its own line; a text that is dragged stays with the
    browser."""
    page.run("""window.drop = (fill) => {
        const dataTransfer = new DataTransfer();
        fill(dataTransfer);
        return document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    }""")  # noqa: E501
    assert page.run("drop((data) => data.setData('text/plain', 'Wort'))")
    files = (
        "['a.txt', '<b>.docx', 'c.txt', 'd.txt'].forEach((name) => data.items.add(new File(['x'], "
        "name)))"
    )
    assert not page.run(f"drop((data) => {files})")
    told = (
        "[...document.querySelectorAll('#documents li')].map((entry) => [entry.className, "
        "entry.innerText])"
    )
    names = ("a.txt", "<b>.docx", "c.txt", "d.txt")
    assert page.run(told) == [["busy", f"{name} is being translated …"] for name in names]
    for kind in ("", "refused", "broken", "gone"):
        page.wait("asked.length === 1")
        answer(page, kind)
    assert page.run(told) == [
        ["", "The translation of a.txt (3 sentences, 1 to review; kept for ten minutes at most)"],
        ["failed", "<b>.docx: Too much is waiting"],
        ["failed", "c.txt: The service answers 502 Bad Gateway"],
        ["failed", "d.txt: The service cannot be reached."],
    ]
    assert (
        page.run("document.querySelector('#documents a').getAttribute('href')")
        == "/download_file/a"
    )


# The texts whose color is too near to what is behind them: [text, contrast], of WCAG 2, which asks
# for 4.5.
CONTRASTS = """(() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = color.slice(0, 3).map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    const color = channels(getComputedStyle(element).backgroundColor);
    if (color[3] === 0) return element.parentElement ? behind(element.parentElement) : [255, 255, 255];
    return color.length === 3 || color[3] === 1 ? color : color.slice(0, 3).map((value, index) =>
      color[3] * value + (1 - color[3]) * behind(element.parentElement)[index]);
  };
  const texts = [...document.querySelectorAll("body *")].filter((element) =>
    element.checkVisibility() && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.flatMap((element) => {
    const [first, second] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
    return contrast < 4.5 && !element.disabled ? [[element.textContent, contrast]] : [];
  });
})()"""  # noqa: E501


def test_the_page_fits_is_named_and_can_be_read(page):
    """At any width and in the dark; what can be reached by the keyboard has a name for screen
    readers."""
    ask(page, "\n".join([*LINES, "ähnlich <i> neu"]))
    page.run("document.getElementById('attention').open = true")
    page.run("document.getElementById('correct').open = true")
    page.wait("asked.length === 2")
    for _ in range(2):
        answer(page)
    page.run("document.getElementById('documents').append(create('li', 'x'.repeat(300), 'failed'))")
    for width in (390, 820, 1440):
        page.resize(width)
        assert page.overflow() <= 0
        for scheme in ("light", "dark"):
            page.send(
                "Emulation.setEmulatedMedia",
                features=[{"name": "prefers-color-scheme", "value": scheme}],
            )
            assert page.run(CONTRASTS) == []
    controls = "[...document.querySelectorAll('select, textarea, input:not([hidden])')]"
    assert (
        page.run(f"{controls}.filter((each) => !each.labels.length).map((each) => each.outerHTML)")
        == []
    )
    page.send("Accessibility.enable")
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    reached = [
        node
        for node in nodes
        if any(each["name"] == "focusable" for each in node.get("properties", ()))
    ]
    assert len(reached) > 10
    for node in reached:
        assert node["role"]["value"] == "RootWebArea" or node["name"]["value"], node


def test_faults_of_a_translation_are_said(page):
    """With their lines, and the expected chrF where one points at a line."""
    ask(page, "a gap")
    low = "probably needs correction (expected chrF 41)"
    assert f"The translation seems to leave out “x y z”; {low}." in answer(page)["status"]
    title = "[...document.querySelectorAll('#translation p')].map((line) => line.title)"
    assert page.run(title) == ["expected chrF 41; seems to leave out “x y z”"]
    ask(page, "fine\nalien\n" + "\n".join(f"{name} gap" for name in "abcd"))
    told = answer(page)["status"]
    assert "Line 1" not in told and "Line 2: does not seem to follow from the text;" in told
    assert "Line 4: seems to leave out" in told and "Line 5" not in told
    assert "And 2 more such lines." in told
    assert page.run(title)[:2] == [
        "confidence 55 %",
        "expected chrF 3; does not seem to follow from the text",
    ]
