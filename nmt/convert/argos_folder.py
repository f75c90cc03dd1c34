"""A package (.argosmodel) for Argos Translate, and so for LibreTranslate: weights, pieces, rules for sentences."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config.schema import Config
from nmt.convert.argos_pieces import normalizing_model
from nmt.convert.argos_sentences import sentence_model
from nmt.convert.ctranslate2_folder import CTranslate2Export
from nmt.convert.ctranslate2_model import build_spec
from nmt.convert.identity import content_hash
from nmt.convert.licence import Licences
from nmt.data.language_pairs import is_multilingual
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.models.transformer import Transformer

VERSION = 1  # part of the folder's name; to be raised when the content of an export changes
SUFFIX = ".argosmodel"
LONGEST = 1024 + 1  # Argos Translate cuts a sentence there: CTranslate2's max_input_length, and </s>
PACKAGE_VERSION = "1000.0"  # above all of Argos' own index: LibreTranslate would replace an older one by its own model
ARGOS_VERSION = "1.11"  # the first that reads minisbd/
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian",
    "mk": "Macedonian", "ms": "Malay", "nb": "Norwegian", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip

README = """# {title}

A Transformer from {source} to {target} for Argos Translate 1.11 or later and LibreTranslate, weights as {quantization}.

{scores}

Trained on {data}. {licence}

`metadata.json` describes the package, `model/` is CTranslate2's, `sentencepiece.model` has the pieces,
`minisbd/rules.onnx` finds the ends of sentences without a network; a model of MiniSBD for this language may take its
place. `provenance.json` has the run, its configuration and the versions of the libraries.
{protection}"""
PROTECTION = """
This model was trained with placeholders for numbers, URLs and the like, which Argos Translate does not make:
it may change them.
"""


@dataclass
class ArgosExport:
    """A translator to be exported, with its configuration, the number format of its weights and its licence."""

    translator: Translator
    config: Config
    quantization: str
    licences: Licences

    @property
    def name(self) -> str:
        """The folder's name."""
        shape = [VERSION, vars(self.config.model), vars(self.config.data), self.licences.chosen]
        return f"argos-{self.quantization}-{content_hash(self.translator, shape)}"

    @property
    def pair(self) -> str:
        """The languages, as the names of such packages have them."""
        return f"{self.config.data.source}_{self.config.data.target}"

    @property
    def content(self) -> str:
        """The file in the folder that is the export."""
        return f"translate-{self.pair}{SUFFIX}"

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that write it."""
        return CTranslate2Export(self.translator, self.config, self.quantization).versions

    def check(self) -> None:
        """Raises UserError where ctranslate2 is missing, or it or Argos Translate cannot hold this model."""
        CTranslate2Export(self.translator, self.config, self.quantization).check()
        if is_multilingual(self.config.data):
            raise UserError("This run cannot be exported: a package of Argos Translate has one language pair.")

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the package into an empty folder. Raises OSError."""
        parts = self.files(provenance)
        with zipfile.ZipFile(folder / self.content, "w", zipfile.ZIP_DEFLATED) as package:
            model = folder / "model"
            model.mkdir()
            self.write_model(model)
            for path in sorted(model.iterdir()):
                package.write(path, f"{self.pair}/model/{path.name}")
                path.unlink()
            model.rmdir()
            for name, data in parts.items():
                package.writestr(f"{self.pair}/{name}", data)

    def write_model(self, folder: Path) -> None:
        """CTranslate2's files; positions for the longest input that Argos Translate passes on."""
        model, tokenizers = self.translator.model, self.translator.tokenizers
        assert isinstance(model, Transformer)
        build_spec(model, self.config.model, tokenizers, LONGEST, self.quantization).save(str(folder))

    def files(self, provenance: dict[str, Any]) -> dict[str, str | bytes]:
        """All other files of the package by their names."""
        return {
            "metadata.json": as_json(self.metadata()),
            "sentencepiece.model": normalizing_model(self.translator.tokenizers.source),
            "minisbd/rules.onnx": sentence_model(),
            "README.md": self.readme(provenance["scores"]),
            "provenance.json": as_json({"quantization": self.quantization} | provenance),
        }

    def metadata(self) -> dict[str, Any]:
        """What Argos Translate reads first."""
        source, target = self.config.data.source, self.config.data.target
        return {
            "package_version": PACKAGE_VERSION,
            "argos_version": ARGOS_VERSION,
            "from_code": source,
            "from_name": NAMES.get(source, source),
            "to_code": target,
            "to_name": NAMES.get(target, target),
            "links": [],
            "license": self.licences.chosen or "",
        }

    def readme(self, scores: dict[str, Any]) -> str:
        """The README."""
        data = self.config.data
        lines = [
            f"- {name}: BLEU {each['bleu']:.2f}, chrF {each['chrf']:.2f} (`{each['bleu_signature']}`)"
            for name, each in scores.items()
        ]
        return README.format(
            title=f"{self.config.name}: {data.source} to {data.target}",
            source=NAMES.get(data.source, data.source),
            target=NAMES.get(data.target, data.target),
            quantization=self.quantization,
            scores="\n".join(["Scores of the run, searched by nmt:", *lines]) if lines else "No score was computed.",
            data=data.kind if data.kind != "files" else "the text of its owner",
            licence=self.licences.sentence,
            protection=PROTECTION if self.translator.tokenizers.protects else "",
        )


def as_json(content: dict[str, Any]) -> str:
    """JSON text with a line for each entry."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
