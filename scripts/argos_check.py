"""Installs a package of `nmt export --format argos` in Argos Translate, and compares its translations with ours.

    nmt export RUN --format argos --quantization float32 --output package
    nmt translate RUN --beam 1 --input test.de --output ours.en
    python scripts/argos_check.py package/translate-de_en.argosmodel test.de ours.en --beam 1

It needs argostranslate 1.11 or later in its environment, or argos-translate-lt, which LibreTranslate brings; not nmt.
With --libretranslate it also starts LibreTranslate with the package alone on a free port of 127.0.0.1, and translates
the first sentence through its API. Nothing outside a temporary folder is written, nothing is downloaded.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from itertools import islice
from pathlib import Path

SHOWN = 5  # differences that are printed
PATIENCE = 180.0  # seconds until LibreTranslate answers


def main() -> int:
    """Print the share of equal translations, some that differ, and what LibreTranslate answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help=".argosmodel")
    parser.add_argument("source", type=Path, help="one sentence a line")
    parser.add_argument("ours", type=Path, help="our translations, one a line")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=4, help="default: 4, as in Argos Translate")
    parser.add_argument("--compute-type", default="float32", help="of CTranslate2; Argos Translate's default is auto")
    parser.add_argument("--libretranslate", action="store_true", help="ask LibreTranslate as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        set_environment(Path(folder), options.beam, options.compute_type)
        lines, ours = (read(path, options.lines) for path in (options.source, options.ours))
        theirs = [] if not lines else argos_translations(options.package, lines)
        compare(lines, ours, theirs)
        if options.libretranslate:
            ask_libretranslate(codes(options.package), lines[0])
    return 0


def read(path: Path, count: int) -> list[str]:
    """The first lines of a file."""
    with path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, count)]


def set_environment(folder: Path, beam: int, compute_type: str) -> None:
    """Argos Translate's settings, which it reads once, when it is imported."""
    os.environ |= {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "CONFIG", "CACHE")}
    os.environ |= {"ARGOS_BEAM_SIZE": str(beam), "ARGOS_COMPUTE_TYPE": compute_type, "ARGOS_DEVICE_TYPE": "cpu"}
    os.environ["ARGOS_PACKAGES_DIR"] = str(folder / "packages")


def codes(path: Path) -> tuple[str, str]:
    """The languages that metadata.json names."""
    with zipfile.ZipFile(path) as package:
        [name] = [name for name in package.namelist() if name.endswith("metadata.json")]
        metadata = json.loads(package.read(name))
    return metadata["from_code"], metadata["to_code"]


def argos_translations(path: Path, lines: list[str]) -> list[str]:
    """What Argos Translate writes for each line."""
    from argostranslate import package, translate

    package.install_from_path(path)
    translation = translate.get_translation_from_codes(*codes(path))
    start = time.perf_counter()
    found = [translation.translate(line) for line in lines]
    print(f"argostranslate: {1000 * (time.perf_counter() - start) / len(lines):.1f} ms a line")
    return found


def compare(lines: list[str], ours: list[str], theirs: list[str]) -> None:
    """Print how many are equal, and some that are not."""
    different = [each for each in zip(lines, ours, theirs, strict=True) if each[1] != each[2]]
    print(f"{len(lines) - len(different)} of {len(lines)} translations are equal")
    for source, our, their in different[:SHOWN]:
        print(f"  source {source}\n  ours   {our}\n  theirs {their}")


def ask_libretranslate(languages: tuple[str, str], text: str) -> None:
    """Print what a LibreTranslate of our own answers at /languages and /translate."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--host", "127.0.0.1", "--port", str(port), "--disable-files-translation", "--threads", "2"]
    server = subprocess.Popen([sys.executable, "-c", "from libretranslate import main; main()", *words])
    try:
        address = f"http://127.0.0.1:{port}"
        print("LibreTranslate has", ", ".join(each["name"] for each in wait_for(f"{address}/languages", server)))
        body = {"q": text, "source": languages[0], "target": languages[1], "format": "text"}
        request = urllib.request.Request(
            f"{address}/translate", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            print(f"LibreTranslate: {text} → {json.load(answer)['translatedText']}")
    finally:
        server.terminate()
        server.wait()


def wait_for(address: str, server: subprocess.Popen[bytes]) -> list[dict[str, str]]:
    """The JSON there, as soon as the server answers; raises SystemExit where it ends or takes too long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return list(json.load(answer))
        except urllib.error.URLError:
            time.sleep(0.5)
    raise SystemExit("LibreTranslate did not start.")


if __name__ == "__main__":
    sys.exit(main())
