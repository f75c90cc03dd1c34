"""What the formats of export share: a translator with its configuration, a name that changes with its content, the
licences, a README from a template, and the code that prepares text without this program.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.schema import Config
from nmt.data import multi30k, normalization, tags, text_filter
from nmt.data.corpus import read_report
from nmt.decode.translator import Translator
from nmt.errors import is_printable
from nmt.evaluate.metrics import describe_scores

HOLD_EVERY_MODEL = "--format onnx and --format html hold every model."
OWN_LICENCES = {"phrasebook": "MIT", "multi30k": multi30k.LICENSE}  # by data.kind
FILTER = {  # parts of the examples, for a model with placeholders
    "links": ", `linkify-it-py`",
    "protection": "\nfrom text_filter import protect, restore",
    "protected": "    protected = protect(line)  # numbers, URLs … are copied\n"
    "    if protected.is_copied:\n        return line\n    line = protected.text\n",
    "restored": "restore(text, protected)",
}
NO_FILTER = dict.fromkeys(FILTER, "") | {"restored": "text"}


@dataclass(frozen=True)
class Licences:
    """`chosen`: the model's licence (--license), None if none is named; `of_data`: those of the training text."""

    chosen: str | None = None
    of_data: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Config, corpus: Path | None, chosen: str | None) -> "Licences":
        """What the configuration says of a built-in corpus, and the report of the run's corpus, if that is still there.

        An origin whose licence the report does not know makes the whole unknown.
        """
        if config.data.kind in OWN_LICENCES:
            return cls(chosen, (OWN_LICENCES[config.data.kind],))
        try:
            origins = read_report(corpus)["audit"]["train"]["origins"] if corpus else []
            found = [str(origin.get("license", "")) for origin in origins]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            found = []
        known = [text for text in found if text and is_printable(text)]
        return cls(chosen, tuple(dict.fromkeys(known)) if len(known) == len(found) else ())

    @property
    def sentence(self) -> str:
        """For a README or a model card."""
        own = f"Licence of the model: {self.chosen}." if self.chosen else "No licence is named for the model."
        known = "; ".join(self.of_data) or "unknown; ask the owner of the text"
        return f"{own} Licence of the training text: {known}."


@dataclass
class Export:
    """A translator to be exported, with its configuration, its licences and the number format of its weights.

    A format has a `name` for its folder, the `versions` of the libraries that write it, `check`, which raises UserError
    where this model cannot be held or a library is missing, and `write`, which fills an empty folder.
    """

    translator: Translator
    config: Config
    quantization: str = "float32"
    licences: Licences = Licences()

    content = ""  # the file in the folder that is the export; "": the whole folder

    @property
    def name(self) -> str:
        """The folder's name."""
        raise NotImplementedError

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that write it."""
        return {}

    def check(self) -> None:
        """Raise UserError where a library is missing, or the format cannot hold this model."""

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the export, `provenance` included, into an empty folder. Raises OSError."""
        raise NotImplementedError

    @property
    def positions(self) -> int:
        """The longest sentence of either side in search, </s> counted; a learned table keeps its length."""
        if self.config.model.positions == "learned":
            return self.config.model.max_positions
        longest = self.translator.max_pieces
        return int(max(longest + 1, self.translator.limits(np.array([longest]))[0]))

    def hashed_name(self, prefix: str, *shape: Any) -> str:
        """The prefix and ten digits of the hash of weights, tokenizers and `shape`."""
        digest = hashlib.sha256(json.dumps(shape).encode())
        for name, tensor in sorted(self.translator.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        for tokenizer in self.translator.tokenizers:
            digest.update(tokenizer.model)
        return f"{prefix}-{digest.hexdigest()[:10]}"

    def readme(self, template: str, **parts: Any) -> str:
        """A template of nmt/convert/templates, filled with `parts` and what all of them ask for."""
        data, tokenizers, decode = self.config.data, self.translator.tokenizers, self.config.decode
        common = {
            "title": f"{self.config.name}: {data.source} to {data.target}",
            "source": "joint" if tokenizers.joint else "source",
            "target": "joint" if tokenizers.joint else "target",
            "quantization": self.quantization,
            "lower": ", lowercase=True" if tokenizers.source.lowercase else "",
            "beam": decode.beam,
            "alpha": decode.length_penalty,
            "ratio": decode.max_length_ratio,
            "extra": decode.max_length_extra,
            "data": data.kind if data.kind != "files" else "the text of its owner",
            "licence": self.licences.sentence,
        }
        return read_resource(f"templates/{template}.md").format_map(
            common | (FILTER if tokenizers.protects else NO_FILTER) | parts
        )

    def write_text_code(self, folder: Path) -> None:
        """normalization.py, and text_filter.py if there are placeholders; they run without this program."""
        for module in (normalization, *((tags, text_filter) if self.translator.tokenizers.protects else ())):
            assert module.__file__
            code = Path(module.__file__).read_text(encoding="utf-8").replace("from nmt.data.", "from ")
            (folder / Path(module.__file__).name).write_text(code, encoding="utf-8")


def score_lines(scores: Mapping[str, Any]) -> list[str]:
    """A line of a README for each test set."""
    return [f"- {name}: {describe_scores(each)}" for name, each in scores.items()]


def read_resource(name: str) -> str:
    """A file below nmt/convert."""
    return resources.files("nmt.convert").joinpath(name).read_text(encoding="utf-8")


def as_json(content: Mapping[str, Any]) -> str:
    """JSON text with a line for each entry."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
