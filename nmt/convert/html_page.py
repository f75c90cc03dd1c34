"""A translator as one HTML file: ONNX graphs, tokenizers, onnxruntime-web and the page itself.

Binary parts are compressed and written in base64. Matrices are stored in float16 and computed with
in float32: with int8, one translation in ten changes.
"""

import base64
import gzip
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmt.convert.argos import read_model
from nmt.convert.export import Export, read_resource
from nmt.convert.onnx_folder import OnnxExport, export_graphs, write_graph
from nmt.corpus.files import report_write_errors, write_atomic
from nmt.corpus.languages import find_language
from nmt.corpus.normalization import INVISIBLE, SPACES
from nmt.corpus.tags import LEADING, TAG
from nmt.data.text_filter import (
    CODE,
    DATE_PATTERN,
    DOUBLE_LETTER,
    EDGES,
    FONT_NAMES,
    IDENTIFIER,
    MIXED,
    NO_SPACES,
    NUMBERS,
    OTHERS,
    PATH,
    PLACEHOLDERS,
    PLURAL,
    SPANS,
    WHOLE,
    WORD_PARTS,
)
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError, report_os_error
from nmt.evaluate.metrics import scores_in
from nmt.view.alignment_page import USAGE, legend_html, provenance_html, read_asset
from nmt.view.text import escape_html

log = logging.getLogger("nmt")
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'wasm-unsafe-eval' "
    "blob:; worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'"
)
WORKER = (
    "sentencepiece",
    "text_filter",
    "constraints",
    "search",
    "words",
    "translator",
    "onnx_model",
    "worker",
)
SMALLEST_MATRIX = 1024  # values; smaller tensors stay float32
LARGEST_FLOAT16 = 65504
# onnxruntime-web, which runs ONNX graphs in a browser.
RUNTIME_VERSION = "1.30.0"
RUNTIME_SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
PACK = f"npm pack onnxruntime-web@{RUNTIME_VERSION}"
# the smallest build that has every operator; it uses one thread where a page has no shared memory
RUNTIME_FILES = {
    "runtime": "package/dist/ort.wasm.bundle.min.mjs",
    "wasm": "package/dist/ort-wasm-simd-threaded.wasm",
}
# What Python's classes hold, within [ ] of JavaScript with the flag u.
CLASSES = {"w": r"\p{L}\p{N}_", "d": r"\p{Nd}", "s": r"\t-\r\x1c-\x20\x85\p{Z}"}
LETTERS = r"[\p{L}\p{Nl}\p{No}]"  # [^\W\d_]


@dataclass
class HtmlExport(Export):
    """The page; `archive` is that of onnxruntime-web, None for npm's."""

    quantization: str = "float16"
    archive: str | None = None

    @property
    def onnx(self) -> OnnxExport:
        stored = "int8" if self.quantization == "int8" else "float32"
        return OnnxExport(self.translator, self.config, stored)

    format = "html"
    holds_table = False

    @property
    def versions(self) -> dict[str, str]:
        return self.onnx.versions | {"onnxruntime-web": RUNTIME_VERSION}

    @property
    def content(self) -> str:  # type: ignore[override]
        return f"{Path(self.config.name).name}.html"

    @classmethod
    def check_options(cls, output: str | None, given: Mapping[str, str]) -> None:
        super().check_options(output, given)
        if output and os.path.lexists(output):
            raise UserError(f"--output {output} exists; name a new file.")

    @classmethod
    def check_packages(cls) -> None:
        OnnxExport.check_packages()

    @classmethod
    def check_downloads(cls) -> None:
        read_runtime()  # npm keeps it for the export

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        (folder / self.content).write_text(self.page(folder, provenance), encoding="utf-8")

    def write_file(self, path: Path, provenance: dict[str, Any]) -> None:
        with report_write_errors(path.parent), TemporaryDirectory() as folder:
            write_atomic(path, self.page(Path(folder), provenance))
        log.info("Exported to %s.", path)

    def page(self, folder: Path, provenance: dict[str, Any]) -> str:
        """The HTML; `folder` is for files on the way."""
        runtime = read_runtime(self.archive)
        graphs = export_graphs(self.translator.model)
        about = self.onnx.description(graphs) | {"calibration": list(self.translator.calibration)}
        parts = runtime | {
            "encoder": self.graph_bytes(graphs.encoder, folder),
            "decoder": self.graph_bytes(graphs.decoder, folder),
            "data": json.dumps(self.data(about), ensure_ascii=False).encode(),
        }
        source = find_language(about["source"])
        target = find_language(about["target"])
        has_attention = self.translator.model.has_attention
        beam = self.config.decode.beam
        beams = {beam: f"beam {beam}, as in the run"} | {1: "greedy, faster"}
        choices = [f'<option value="{value}">{text}</option>' for value, text in beams.items()]
        scripts = [read_resource(f"web/{name}.js") for name in WORKER]
        assets = [asset(name, packed(content)) for name, content in parts.items()]
        assets.append(asset("worker", "\n".join(["", *scripts])))
        is_local = about["attention"]["window_reach"] is not None
        page = read_resource("web/page.html").format(
            policy=POLICY,
            title=escape_html(f"{self.config.name}: {source.name} to {target.name}"),
            source=escape_html(about["source"]),
            target=escape_html(about["target"]),
            source_name=escape_html(source.name),
            target_name=escape_html(target.name),
            style=read_asset("page.css") + read_resource("web/translator.css"),
            beams="".join(choices),
            usage=USAGE if has_attention else "This model has no attention.",
            legend=legend_html(["window", "its centre pₜ"] if is_local else []),
            provenance=provenance_html(self.about_run(provenance)),
            runtime_version=RUNTIME_VERSION,
            assets="".join(assets),
            old_browser=read_resource("web/old_browser.js"),
            page=read_asset("page.js")
            + read_resource("web/translator_page.js")
            + read_resource("web/open_page.js"),
        )
        log.info("The page has %.1f MB.", len(page.encode()) / 1e6)
        return page

    def about_run(self, provenance: dict[str, Any]) -> dict[str, str]:
        """What the page says of the run."""
        run = provenance.get("run", {})
        about = {key: str(run[key]) for key in ("checkpoint", "origin", "seed") if key in run}
        for name, scores in provenance.get("scores", {}).items():
            for _, metric, value, _ in scores_in(scores):
                about[f"{metric.label} of {name}"] = f"{value:.{metric.digits}f}"
        if self.fit_for:
            about["fit for"] = self.fit_for
        return about | {"numbers of the weights": self.quantization}

    def graph_bytes(self, graph: Any, folder: Path) -> bytes:
        """A graph as a file of ONNX, in the export's number format."""
        if self.quantization == "float16":
            return bytes(halved(graph).SerializeToString())
        path = folder / "graph.onnx"
        write_graph(graph, path, self.quantization)
        content = path.read_bytes()
        path.unlink()
        return content

    def data(self, about: dict[str, Any]) -> dict[str, Any]:
        """What the worker needs besides the graphs: model.json, tokenizers, what is protected."""
        source, target = self.translator.tokenizers
        tables: dict[str, Any] = {
            "source": tokenizer_table(source),
            "placeholders": source.placeholders,
        }
        tables["normalization"] = [SPACES.pattern, INVISIBLE.pattern]
        tables["tags"] = sorted(source.tags)
        tables["required_tags"] = self.translator.tokenizers.required_tags
        tables["leading_tag"] = javascript_pattern(LEADING.pattern)
        if not about["joint"]:
            tables["target"] = tokenizer_table(target)
        rules = None
        if about["protects"]:
            rules = {"rules": filter_rules(source.placeholders), "tags": sorted(source.tags)}
        return {"about": about, "tables": tables, "filter": rules}


def read_runtime(archive: str | None = None) -> dict[str, bytes]:
    """The script and the WebAssembly of onnxruntime-web, from `archive` or from npm.

    Raises UserError for another archive than the one that was tested, and where there is none.
    """
    with TemporaryDirectory() as folder:
        path = Path(archive) if archive else npm_archive(Path(folder))
        with report_os_error(f"--onnxruntime-web {path} cannot be read"):
            content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest != RUNTIME_SHA256:
            raise UserError(
                f"{path} is not what `{PACK}` writes: its sha256 is {digest} instead of "
                f"{RUNTIME_SHA256}."
            )
        runtime = {}
        with tarfile.open(path) as package:
            for name, member in RUNTIME_FILES.items():
                file = package.extractfile(member)
                assert file is not None
                runtime[name] = file.read()
        return runtime


def npm_archive(folder: Path) -> Path:
    """The archive that npm packs into a folder; raises UserError without npm and where it fails."""
    hint = (
        f"run `{PACK}` where there is npm and a network, and give its file to `nmt export "
        "--format html --onnxruntime-web FILE`"
    )
    npm = shutil.which("npm")
    if npm is None:
        raise UserError(f"The page needs onnxruntime-web, and there is no npm here; {hint}.")
    command = [npm, *PACK.split()[1:], "--prefer-offline", "--silent"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode or not archives:
        raise UserError(f"`{PACK}` failed (exit code {done.returncode}); {hint}.")
    return archives[0]


def asset(name: str, content: str) -> str:
    """An element that holds what the page reads; the content may not hold the end of an element."""
    assert "</script" not in content
    return f'<script type="text/plain" id="{name}">{content}</script>\n'


def packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def halved(graph: Any) -> Any:
    """The same graph with its matrices stored in float16; a Cast brings them to float32."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    result = onnx.ModelProto()
    result.CopyFrom(graph)
    casts = []
    for tensor in result.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor)
        if values.size < SMALLEST_MATRIX or abs(values).max() > LARGEST_FLOAT16:
            continue
        name = tensor.name
        stored = f"{tensor.name}.float16"
        tensor.CopyFrom(numpy_helper.from_array(values.astype("float16"), stored))
        casts.append(helper.make_node("Cast", [stored], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *result.graph.node]
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def tokenizer_table(tokenizer: Tokenizer) -> dict[str, Any]:
    """The pieces of a tokenizer with their scores and types, as SentencePiece numbers them."""
    pieces = []
    scores = []
    types = []
    for each in read_model(tokenizer.model).pieces:
        pieces.append(each.piece)
        scores.append(each.score)
        types.append(each.type)
    return {"pieces": pieces, "scores": scores, "types": types, "bpe": tokenizer.sampler.dropout}


def filter_rules(placeholders: Collection[str] = PLACEHOLDERS) -> dict[str, Any]:
    """The patterns of nmt/data/text_filter.py for JavaScript, and a tokenizer's placeholders."""
    words = {}
    for name, pattern in WORD_PATTERNS.items():
        words[name] = javascript_pattern(pattern.pattern)
    # Without an anchor, JavaScript tries to match at every character of a long text
    words["path"] = f"^(?:{words['path']})"
    for name in ("identifier", "date", "fonts"):
        words[name] = f"^(?:{words[name]})$"
    return {
        "pattern": javascript_pattern(SPANS.pattern),
        "tag": javascript_pattern(TAG.pattern),
        "numbers": [each for each in NUMBERS if each in placeholders],
        "others": [each for each in OTHERS if each in placeholders],
        "edges": EDGES,
        "words": words,
    }


WORD_PATTERNS = {
    "code": CODE,
    "identifier": IDENTIFIER,
    "path": PATH,
    "whole": WHOLE,
    "plural": PLURAL,
    "mixed": MIXED,
    "parts": WORD_PARTS,
    "doubleLetter": DOUBLE_LETTER,
    "date": DATE_PATTERN,
    "fonts": FONT_NAMES,
    "noSpaces": NO_SPACES,
}


def javascript_pattern(pattern: str) -> str:
    r"""A regular expression of Python as JavaScript reads it with the flag u.

    In it, \w, \d and \s mean what they mean in Python.
    """
    is_set = False  # inside of [ ]

    def convert(match: re.Match[str]) -> str:
        nonlocal is_set
        part = match[0]
        letter = match[0][-1]
        if part in ("[", "]"):
            is_set = part == "["
        elif letter in CLASSES:
            return CLASSES[letter] if is_set else f"[{CLASSES[letter]}]"
        elif part == r"\S" and not is_set:
            return f"[^{CLASSES['s']}]"
        elif not (letter in r"^$\.*+?()[]{}|/" or letter.isalnum() or (is_set and letter == "-")):
            return letter
        return part

    pattern = pattern.replace(r"[^\W\d_]", LETTERS).replace("(?P<", "(?<")
    return re.sub(r"\\p\{\w+\}|\\.|[\[\]]", convert, pattern)
