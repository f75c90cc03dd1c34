"""Whether the page of `nmt export RUN --format html` translates as the command, in headless Chromium; and how fast.

nmt translate RUN --input test.de --beam 1 --quantization float32 > expected.en
python scripts/html_check.py PAGE.html test.de expected.en
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from chromium import Browser

COUNT = 1000
DONE = "document.body.dataset.done"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("expected", type=Path, help="greedy translations by the command")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--different", action="store_true", help="print those that differ")
    options = parser.parse_args()
    sources, expected = (
        path.read_text(encoding="utf-8").split("\n")[: options.count] for path in (options.source, options.expected)
    )
    with Browser() as browser:
        print(f"{options.page.stat().st_size / 1e6:.1f} MB")
        print(f"first translation {first_translation(browser, options.page, sources[0]):.2f} s after opening")
        found = [translated(browser, line, 1) for line in sources]
        for beam in browser.run("[...document.getElementById('beam').options].map((each) => Number(each.value))"):
            times = [translated(browser, line, beam, " .")[1] for line in sources if len(line.split()) == 12][:20]
            if times:
                print(f"12 words, beam {beam}: median {statistics.median(times):.0f} ms, largest {max(times):.0f} ms")
    same = sum(text == wanted for (text, _), wanted in zip(found, expected, strict=True))
    print(f"{same} of {len(sources)} greedy translations are the command's ({same / len(sources):.1%})")
    if options.different:
        for source, (text, _), wanted in zip(sources, found, expected, strict=True):
            if text != wanted:
                print(f"{source}\n  page     {text}\n  command  {wanted}")


def first_translation(browser: Browser, page: Path, line: str) -> float:
    """Seconds from opening a page until the translation of a line is on it."""
    start = time.perf_counter()
    browser.open(page)
    browser.wait("document.readyState === 'complete'")
    translated(browser, line, 1)
    return time.perf_counter() - start


def translated(browser: Browser, line: str, beam: int, more: str = "") -> tuple[str, float]:
    """What the page shows after a line was typed into it, and the milliseconds until then."""
    return tuple(
        browser.run(f"""(async () => {{
        const [source, beam] = [document.getElementById("source"), document.getElementById("beam")];
        const before = document.body.dataset.done || "0";
        beam.value = "{beam}";
        source.value = {json.dumps(line + more)};
        const start = performance.now();
        source.dispatchEvent(new Event("input"));
        while ((document.body.dataset.done || "0") === before) await new Promise((resolve) => setTimeout(resolve, 1));
        const text = [...document.querySelectorAll("#translation p")].map((each) => each.textContent).join("\\n");
        return [text, performance.now() - start];
    }})()""")
    )


if __name__ == "__main__":
    main()
