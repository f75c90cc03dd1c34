"""What the formats of export share.

That is a translator with its configuration, a name that changes with its content, the licences, a
README from a template, and the code that prepares text without this program.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from nmt.attention.positions import Learned, Positions
from nmt.config.schema import Config
from nmt.convert.formats import hold_every_model
from nmt.corpus import multi30k, normalization, tags
from nmt.corpus.corpus_folder import read_report
from nmt.data import text_filter
from nmt.data.text_filter import PLACEHOLDERS, Encoded
from nmt.data.tokenizer import Tokenizer
from nmt.decode.translator import Query, Translator
from nmt.errors import UserError, is_printable
from nmt.evaluate.metrics import describe_scores
from nmt.models.ensemble import Ensemble
from nmt.runs.provenance import code_digest

# an identifier of SPDX, or of the Hugging Face hub
LICENCE = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}", re.ASCII)
OWN_LICENCES = {"phrasebook": "MIT", "multi30k": multi30k.LICENSE}  # by data.kind
FILTER = {  # parts of the examples, for a model with placeholders
    "links": ", `linkify-it-py`",
    "protection": "\nfrom tags import sentence_start"
    "\nfrom text_filter import has_words, protect, restore\n\nTAGS = {tags}",
    "protected": "    protected = {call}  # numbers, URLs … are copied\n"
    "    start = sentence_start(line, TAGS)\n"
    "    if not has_words(protected.text[start:]):\n        return line[start:]\n"
    "    line = protected.text\n",
    "restored": "restore(text, protected)",
}
# Parts of an example, for a model that begins sentences with a language, as Tokenizer.split_prefix
PREFIX = {
    "imports": "import json\nimport re\nfrom pathlib import Path\n\n",
    "prefixes": "# What source and target begin with, by the tag before a line{such_as}\n"
    'prefixes = json.loads(Path("tokenizer.json").read_text(encoding="utf-8"))["prefixes"]\n',
    "prefix": '    tag = re.match(r">>[\\w-]+<<|\\S*", line)[0]\n'
    "    sides = zip((source, target), prefixes)\n"
    '    begin, forced = (side.id_to_piece(ids.get(tag, ids.get("", []))) for side, ids in sides)\n'
    "    line = line[len(tag) :].lstrip() if tag in prefixes[0] else line\n",
    "begin": "begin + ",
    "target_prefix": "\n        target_prefix=[forced],",
}
NO_PREFIX = dict.fromkeys(PREFIX, "")
NO_FILTER = dict.fromkeys(FILTER, "") | {"restored": "text"}


def training_licences(config: Config, corpus: Path | None) -> tuple[str, ...]:
    """The licences of the training text; empty where one of them is unknown.

    They are those of a built-in corpus, or what the report of the run's corpus has, if that is
    still there.
    """
    if config.data.kind in OWN_LICENCES:
        return (OWN_LICENCES[config.data.kind],)
    if corpus is None:
        return ()
    try:
        origins = read_report(corpus)["audit"]["train"]["origins"]
        licences = [str(origin.get("license", "")) for origin in origins]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    if not all(licence and is_printable(licence) for licence in licences):
        return ()
    return tuple(dict.fromkeys(licences))


def carried_licence(pretrained: Path | None) -> str | None:
    """The licence that the README of an imported model names, as the Hugging Face hub has it."""
    if pretrained is None or not (pretrained / "README.md").is_file():
        return None
    text = (pretrained / "README.md").read_text(encoding="utf-8", errors="replace")
    if not text.startswith("---\n"):
        return None
    front = text.split("\n---", 1)[0]
    named = re.search(r"^license: *[\"']?([^\s\"']+)", front, re.MULTILINE)
    return named[1] if named and LICENCE.fullmatch(named[1]) else None


@dataclass
class Export:
    """A translator to be exported; a format is a subclass of this, and an entry of FORMATS."""

    translator: Translator
    config: Config
    quantization: str = "float32"
    licence: str | None = None  # of the model
    data_licences: tuple[str, ...] = ()  # of the training text
    # what an imported model had besides its weights; see nmt/convert/pretrained
    pretrained: Path | None = None
    # of the run, by test set, for the README
    scores: Mapping[str, Any] = field(default_factory=dict)
    fit_for: str = ""  # the sentence of the run's verdict, for the README

    format = ""
    content = ""  # the file in the folder that is the export; "": the whole folder
    held = ""  # a sentence about the models that the format can hold
    # whether it can hold the table of characters of a tokenizer; None: whatever a tokenizer has
    holds_table: ClassVar[bool | None] = None

    def __post_init__(self) -> None:
        self.licence = self.licence or carried_licence(self.pretrained)

    @property
    def name(self) -> str:
        """The folder's name; it changes with weights, configuration and the export's code."""
        digest = hashlib.sha256(code_digest(type(self).__module__).encode())
        for folder in ("templates", "web"):
            for file in sorted(resources.files("nmt.convert").joinpath(folder).iterdir(), key=str):
                digest.update(file.read_bytes())
        about = [
            asdict(self.config),
            list(self.translator.calibration),
            self.licence,
            self.data_licences,
            self.options,
        ]
        digest.update(json.dumps(about).encode())
        for name, tensor in sorted(self.translator.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        for tokenizer in self.translator.tokenizers:
            digest.update(tokenizer.model + json.dumps(tokenizer.prefixes).encode())
        return f"{self.format}-{self.quantization}-{digest.hexdigest()[:10]}"

    @property
    def options(self) -> list[str | None]:
        """What else the content of this format depends on."""
        return []

    @property
    def versions(self) -> dict[str, str]:
        return {}

    @classmethod
    def misfit(cls, config: Config, is_imported: bool) -> str:
        """Why the format cannot hold the model of a configuration; empty where it can."""
        return ""

    @classmethod
    def check_packages(cls) -> None:
        """Raise UserError where a package that the export needs is missing."""

    @classmethod
    def check_downloads(cls) -> None:
        """Raise UserError where what the export downloads cannot be had; before a training."""

    @classmethod
    def check_options(cls, output: str | None, given: Mapping[str, str]) -> None:
        """Raise UserError for wrong options, before the run is loaded; `given`: by field."""
        licence = given.get("licence")
        if licence is not None and not LICENCE.fullmatch(licence):
            raise UserError(
                f"--license {licence} is not a licence such as mit, apache-2.0 or cc-by-sa-4.0."
            )

    def check(self) -> None:
        """Raise UserError where a package is missing, or the format cannot hold this model."""
        self.check_tokenizers()
        self.check_packages()
        reason = self.misfit(self.config, is_imported=False)
        advice = f"{self.held} {hold_every_model()}"
        if isinstance(self.translator.model, Ensemble):
            reason = "there are no ensembles; export one run at a time"
            advice = ""
        if reason:
            text = f"This run cannot be exported with --format {self.format}: {reason}. {advice}"
            raise UserError(" ".join(text.split()))

    def check_tokenizers(self) -> None:
        """Raise UserError for tokenizers that the format cannot hold.

        Sentences begin with a language there, or a tokenizer has a table of characters of its own.
        """
        if self.holds_table is None:
            return
        for side in self.translator.tokenizers:
            has_prefix = any(side.prefixes.values())
            if has_prefix or side.added or side.normalizes and not self.holds_table:
                raise UserError(
                    f"The tokenizers of this run were imported, and --format {self.format} cannot "
                    "hold them; ctranslate2 can, and hf where the folder `pretrained` of the run "
                    "is there."
                )

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the export, `provenance` included, into an empty folder. Raises OSError."""
        raise NotImplementedError

    def write_file(self, path: Path, provenance: dict[str, Any]) -> None:
        """Write a new file, for a format whose --output is one. Raises UserError."""
        raise NotImplementedError

    def publish(self, folder: Path) -> str:
        """Where the export is that was written into a folder: a path, or a web address."""
        return str(folder / self.content)

    @property
    def positions(self) -> int:
        """The longest sentence of either side in search, </s> counted.

        A learned table keeps its length.
        """
        if self.config.model.positions == "learned":
            return self.config.model.max_positions
        longest = self.translator.max_pieces
        return max(longest + 1, self.translator.limit(Query(Encoded(range(longest)))))

    def readme(self, template: str, **parts: Any) -> str:
        """A template of nmt/convert/templates, filled with `parts` and what all of them ask for."""
        data = self.config.data
        tokenizers = self.translator.tokenizers
        decode = self.config.decode
        licence = "No licence is named for the model."
        if self.licence:
            licence = f"Licence of the model: {self.licence}."
        normalization = ""
        text = "line"
        if not tokenizers.source.normalizes:
            normalization = "from normalization import normalize  # a file of this folder"
            lower = ", lowercase=True" if tokenizers.source.lowercase else ""
            text = f"normalize(line{lower})"
        known = "; ".join(self.data_licences) or "unknown; ask the owner of the text"
        common = {
            "title": f"{self.config.name}: {data.source} to {data.target}",
            "fit_for": f"\n{self.fit_for}\n" if self.fit_for else "",
            "source": next(iter(tokenizers.models)),
            "target": list(tokenizers.models)[-1],
            "quantization": self.quantization,
            "normalization": normalization,
            "text": text,
            "beam": decode.beam,
            "alpha": decode.length_penalty,
            "ratio": decode.max_length_ratio,
            "extra": decode.max_length_extra,
            "data": data.kind if data.kind != "files" else "the text of its owner",
            "licence": f"{licence} Licence of the training text: {known}.",
        }
        filtering = NO_FILTER
        if tokenizers.protects:
            tags = tag_list(tokenizers.source)
            call = protect_call(tokenizers.source, "TAGS")
            filtering = {name: part.format(tags=tags, call=call) for name, part in FILTER.items()}
        prefix = NO_PREFIX
        if any(side.prefixes for side in tokenizers):
            example = next(filter(None, tokenizers.source.prefixes), "")
            such_as = f", such as {example}" if example else ""
            prefix = PREFIX | {"prefixes": PREFIX["prefixes"].format(such_as=such_as)}
        parts = common | filtering | prefix | parts
        return read_resource(f"templates/{template}.md").format_map(parts)

    def write_files(self, folder: Path, files: Mapping[str, str | dict[str, Any]]) -> None:
        """Write texts and JSON, and the code for the text that runs without nmt.

        That is normalization.py and, with placeholders, text_filter.py.
        """
        modules = [normalization]
        if self.translator.tokenizers.protects:
            modules += [tags, text_filter]
        code = {}
        for module in modules:
            path = Path(str(module.__file__))
            text = path.read_text(encoding="utf-8")
            code[path.name] = re.sub(r"(?m)^from nmt\.(corpus|data)\.", "from ", text)
        for name, content in (code | dict(files)).items():
            text = content if isinstance(content, str) else as_json(content)
            (folder / name).write_text(text, encoding="utf-8")


def first_prefix(tokenizer: Tokenizer) -> list[str]:
    """The pieces that a sentence begins with by the first of the tokenizer's tags."""
    return tokenizer.pieces(next(iter(tokenizer.prefixes.values()), []))


def tag_list(tokenizer: Tokenizer) -> str:
    """The tokenizer's tags in Python."""
    return json.dumps(sorted(tokenizer.tags))


def protect_call(tokenizer: Tokenizer, tags: str) -> str:
    """The call of `protect` in Python, with the tags and the placeholders of a tokenizer."""
    if tokenizer.placeholders == PLACEHOLDERS:
        return f"protect(line, {tags})"
    return f"protect(line, {tags}, {ascii(tokenizer.placeholders)})"


def score_lines(scores: Mapping[str, Any]) -> str:
    """A line of a README for each test set."""
    return "\n".join(f"- {name}: {describe_scores(each)}" for name, each in scores.items())


def read_resource(name: str) -> str:
    """A file below nmt/convert."""
    return resources.files("nmt.convert").joinpath(name).read_text(encoding="utf-8")


def as_json(content: Mapping[str, Any]) -> str:
    """JSON text with a line for each entry."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def position_table(module: Positions, size: int, positions: int) -> Tensor:
    """The table [N D] that is added to √D · embedding, for `positions` N.

    A learned table that is shorter repeats its last row.
    """
    if not isinstance(module, Learned):
        return module(torch.zeros(1, positions, size), 0)[0]
    rows = torch.arange(positions).clamp(max=len(module.table) - 1)
    return math.sqrt(size) * module.table.detach().float().cpu()[rows]
