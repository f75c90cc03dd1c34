"""What an audit found as one HTML page that needs no other file: a table of faults for each set, and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nmt.view.text import escape_html

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --text: #222; --back: #fff; --line: #ddd; --dim: #595959; --bar: #8fb3d9; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --back: #181818; --line: #3a3a3a; --dim: #a8a8a8; --bar: #3d6590; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: var(--text); background: var(--back); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 30rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; }
.bar { display: inline-block; height: .6rem; background: var(--bar); }
.dim { color: var(--dim); font-size: .88rem; }
details { margin: .6rem 0; } summary { cursor: pointer; }
li { margin: .4rem 0; overflow-wrap: anywhere; }
"""


@dataclass
class PageFault:
    """A fault of a set: how many pairs, what it means, and examples as (place, texts)."""

    name: str
    pairs: int
    meaning: str
    examples: list[tuple[str, Sequence[str]]]


@dataclass
class PageSet:
    """A set, its pairs, sentences about it, and its faults."""

    name: str
    pairs: int
    notes: list[str] = field(default_factory=list)
    faults: list[PageFault] = field(default_factory=list)


def audit_page(sets: Sequence[PageSet], provenance: Mapping[str, str]) -> str:
    """The page; `provenance` says what was looked at, and with which thresholds."""
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Audit</title>'
    body = ["<h1>Audit of sentence pairs</h1>", *map(set_html, sets), "<h2>How it was made</h2><dl>"]
    body += [f"<dt>{escape_html(key)}</dt><dd>{escape_html(value)}</dd>" for key, value in provenance.items()]
    text = "\n".join([*body, "</dl>"])
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{text}\n</body></html>\n'
    )


def set_html(report: PageSet) -> str:
    """The heading of a set, its table of faults, and the examples of each."""
    lines = [f"<h2>{escape_html(report.name)}: {report.pairs:,} pairs</h2>"]
    lines += [f'<p class="dim">{escape_html(note)}</p>' for note in report.notes]
    if not report.faults:
        return "\n".join([*lines, "<p>No fault was found.</p>"])
    most = max(fault.pairs for fault in report.faults)
    lines.append('<div class="scroll"><table><thead><tr><th>fault</th><th class="number">pairs</th>')
    lines.append('<th class="number">share</th><th></th></tr></thead><tbody>')
    for fault in report.faults:
        bar = f'<span class="bar" style="width:{max(1, round(160 * fault.pairs / most))}px"></span>'
        share = f"{100 * fault.pairs / max(1, report.pairs):.3g} %"
        lines.append(
            f'<tr><td>{escape_html(fault.name)}</td><td class="number">{fault.pairs:,}</td>'
            f'<td class="number">{share}</td><td>{bar}</td></tr>'
        )
    return "\n".join([*lines, "</tbody></table></div>", *map(fault_html, report.faults)])


def fault_html(fault: PageFault) -> str:
    """The meaning of a fault, and its examples, which open by a click."""
    lines = [f"<details><summary>{escape_html(fault.name)}</summary>"]
    lines += [f'<p class="dim">{escape_html(fault.meaning)}</p>'] if fault.meaning else []
    lines.append("<ul>")
    for place, texts in fault.examples:
        shown = "".join(f'<br><bdi dir="auto">{escape_html(text)}</bdi>' for text in texts)
        lines.append(f'<li><span class="dim">{escape_html(place)}</span>{shown}</li>')
    return "\n".join([*lines, "</ul></details>"])
