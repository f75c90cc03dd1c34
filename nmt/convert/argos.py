"""A package (.argosmodel) for Argos Translate, and so for LibreTranslate: weights, pieces, rules
for sentences.

Argos Translate splits text with MiniSBD, an ONNX model that looks at characters. Its own models are
downloaded when the first text is translated; one in the package is used instead. Ours is no trained
model but rules, a convolution over kinds of characters:

- . after three letters or digits, then a space and a capital or an opening sign (so Dr. and z. B.
  end nothing);
- ! or ? or …, then a space and a capital or an opening sign;
- either of them with a closing sign after it;
- 。！？؟۔।॥ in any case.
"""

import io
import json
import tempfile
import unicodedata
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from nmt.config.schema import Config
from nmt.convert.ctranslate2_folder import CTranslate2Export
from nmt.convert.export import as_json, score_lines
from nmt.convert.onnx_folder import require_packages
from nmt.corpus.language_pairs import is_multilingual
from nmt.corpus.languages import base_code, find_language
from nmt.corpus.normalization import normalize
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError

SUFFIX = ".argosmodel"
# Argos Translate cuts a sentence there: CTranslate2's max_input_length, and </s> where a version of
# it does not count that
LONGEST = 1024 + 1
# above all of Argos' own index: LibreTranslate would replace an older one by its own model
PACKAGE_VERSION = "1000.0"
ARGOS_VERSION = "1.11"  # the first that reads minisbd/
PROTECTION = """
This model was trained with placeholders for numbers, URLs and the like, which Argos Translate does
not make: it may change them.
"""


class ArgosExport(CTranslate2Export):
    format = "argos"
    holds_table = True

    @property
    def pair(self) -> str:
        """The languages, as the names of such packages have them."""
        return f"{base_code(self.config.data.source)}_{base_code(self.config.data.target)}"

    @property
    def content(self) -> str:  # type: ignore[override]
        return f"translate-{self.pair}{SUFFIX}"

    @classmethod
    def misfit(cls, config: Config, is_imported: bool) -> str:
        reason = super().misfit(config, is_imported)
        if not reason and is_multilingual(config.data):
            return "a package of Argos Translate has one language pair"
        return reason

    @classmethod
    def check_options(cls, output: str | None, given: Mapping[str, str]) -> None:
        super().check_options(output, given)
        if output and output.endswith(SUFFIX):
            raise UserError(
                f"--output {output} is a folder, in which the package is written; leave out "
                f"{SUFFIX}."
            )

    @classmethod
    def check_packages(cls) -> None:
        super().check_packages()
        require_packages("onnx")

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        source = find_language(self.config.data.source)
        target = find_language(self.config.data.target)
        metadata = {  # what Argos Translate reads first
            "package_version": PACKAGE_VERSION,
            "argos_version": ARGOS_VERSION,
            "from_code": source.code,
            "from_name": source.name,
            "to_code": target.code,
            "to_name": target.name,
            "links": [],
            "license": self.licence or "",
        }
        scores = "No score."
        if provenance["scores"]:
            scores = f"Scores of the run, searched by nmt:\n{score_lines(provenance['scores'])}"
        readme = self.readme(
            "argos",
            source=source.name,
            target=target.name,
            scores=scores,
            protection=PROTECTION if self.translator.tokenizers.protects else "",
        )
        files: dict[str, str | bytes] = {
            "metadata.json": as_json(metadata),
            "sentencepiece.model": normalizing_model(self.translator.tokenizers.source),
            "minisbd/rules.onnx": sentence_model(),
            "README.md": readme,
            "provenance.json": as_json({"quantization": self.quantization} | provenance),
        }
        with zipfile.ZipFile(folder / self.content, "w", zipfile.ZIP_DEFLATED) as package:
            with tempfile.TemporaryDirectory(dir=folder) as model:
                self.write_model(Path(model), LONGEST)
                for path in sorted(Path(model).iterdir()):
                    package.write(path, f"{self.pair}/model/{path.name}")
            for name, data in files.items():
                package.writestr(f"{self.pair}/{name}", data)


def normalizing_model(tokenizer: Tokenizer) -> bytes:
    """The SentencePiece model with a table of characters that does what `normalize` does.

    One that has a table of its own keeps it.
    """
    if tokenizer.normalizes:
        return tokenizer.model
    model = read_model(tokenizer.model)
    model.normalizer_spec.precompiled_charsmap = character_map(tokenizer.lowercase)
    return model.SerializeToString()


def read_model(content: bytes) -> Any:
    """A SentencePiece model as a message; raises UserError where protobuf is too old for it."""
    try:
        from sentencepiece import sentencepiece_model_pb2 as messages
    except Exception as error:  # VersionError of protobuf, which older ones do not have
        raise UserError(
            f"SentencePiece needs another protobuf: {str(error).splitlines()[0]}"
        ) from None
    return messages.ModelProto.FromString(content)  # type: ignore[attr-defined]


@cache
def character_map(lowercase: bool) -> bytes:
    """SentencePiece's compiled table, taken from a small model that is trained with these rules."""
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        for before, after in sorted(changes(lowercase).items()):
            file.write(f"{hexadecimal(before)}\t{hexadecimal(after)}\n".encode("ascii"))
        file.flush()
        small = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c"]),
            model_writer=small,
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=file.name,
            minloglevel=2,
        )
    table: bytes = read_model(small.getvalue()).normalizer_spec.precompiled_charsmap
    return table


def hexadecimal(text: str) -> str:
    """The code points of a text."""
    return " ".join(f"{ord(character):X}" for character in text)


def changes(lowercase: bool) -> dict[str, str]:
    """What normalization changes.

    These are characters, and letters followed by their marks, composed in full or in part. Left out
    are the 11,172 Hangul syllables, which Unicode composes without a table and nobody types as
    letters.
    """
    # no later one has another form
    characters = [chr(code) for code in range(0x30000) if chr(code) != "\n"]
    normal = normalize("\n".join(characters), lowercase).split("\n")
    changed_texts: dict[str, str] = {}
    for character, changed in zip(characters, normal, strict=True):
        parts = unicodedata.decomposition(character)
        if not parts and changed == character:
            continue
        written = [character, unicodedata.normalize("NFD", character)]
        if parts and "<" not in parts:
            written.append("".join(chr(int(code, 16)) for code in parts.split()))
        for text in written:
            if normalize(text, lowercase) != text:
                changed_texts[text] = normalize(text, lowercase)
    return changed_texts


KINDS = {
    "stop": ".",
    "mark": "!?…",
    "always": "。！？؟۔।॥",
    "space": " ",
    "closing": "\"'”“’»«)]",
    "opening": "„¿¡([-–—",
    "digit": "0123456789",
    "other": ",;:/\\%&@#*+=_<>|~^$€£",
}
# 1: what is not in the table is a letter; the last: a feature
CHANNELS = ["padding", "letter", *KINDS, "capital"]
# of the convolution: characters i - 4 … i + 2
BEFORE = 4
WIDTH = 7
Rule = list[tuple[int, tuple[str, ...]]]
START: Rule = [(1, ("space",)), (2, ("capital", "opening", "closing", "digit"))]
WORD: tuple[str, ...] = ("letter", "digit")
RULES: list[Rule] = [
    [*((-place, WORD) for place in (1, 2, 3)), (0, ("stop",)), *START],
    [*((-place - 1, WORD) for place in (1, 2, 3)), (-1, ("stop",)), (0, ("closing",)), *START],
    [(0, ("mark",)), *START],
    [(-1, ("mark",)), (0, ("closing",)), *START],
    [(0, ("always",))],
]  # conditions (place from i, kinds)


def sentence_model() -> bytes:
    """The ONNX file: units [B N] and features [B N 1] → scores [B N 3].

    The scores are of: inside, end of a token, end of a sentence.
    """
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    # 1 for each kind that meets a condition
    weights = np.zeros((len(RULES), len(CHANNELS), WIDTH))
    for number, rule in enumerate(RULES):
        for place, kinds in rule:
            weights[number, [CHANNELS.index(kind) for kind in kinds], BEFORE + place] = 1
    decision = np.zeros((3, len(RULES), 1))
    decision[2] = 1
    rows = [0, 1]  # the channel of each character: padding, letter, …
    for name, characters in KINDS.items():
        rows += [CHANNELS.index(name)] * len(characters)
    tensors = {
        "kinds": np.eye(len(CHANNELS) - 1)[rows],  # of each character
        "rules": weights,
        # all conditions hold: 1/2, else below 0
        "thresholds": np.array([0.5 - len(rule) for rule in RULES]),
        "decision": decision,
        "bias": np.array([0, -1, -0.25]),
    }
    value = helper.make_tensor_value_info
    inputs = [
        value("units", TensorProto.INT64, ["B", "N"]),
        value("features", TensorProto.FLOAT, ["B", "N", 1]),
    ]
    outputs = [value("scores", TensorProto.FLOAT, ["B", "N", 3])]
    constants = [
        numpy_helper.from_array(values.astype("float32"), name) for name, values in tensors.items()
    ]
    graph = helper.make_graph(
        [
            node("Gather", ["kinds", "units"], ["kind"]),
            node("Concat", ["kind", "features"], ["channels"], axis=2),
            node("Transpose", ["channels"], ["columns"], perm=[0, 2, 1]),
            node(
                "Conv",
                ["columns", "rules", "thresholds"],
                ["found"],
                pads=[BEFORE, WIDTH - BEFORE - 1],
            ),
            node("Relu", ["found"], ["rule"]),
            node("Conv", ["rule", "decision", "bias"], ["decided"]),
            node("Transpose", ["decided"], ["scores"], perm=[0, 2, 1]),
        ],
        "sentences",
        inputs,
        outputs,
        constants,
    )
    model = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)], producer_name="nmt"
    )
    alphabet = ["<PAD>", "<UNK>", *"".join(KINDS.values())]
    units = {character: number for number, character in enumerate(alphabet)}
    table = {"lang": "any", "idx": 0, "cutoff": 0, "lower": False, "_unit2id": units}
    about = {
        "lang_code": "any",
        "config": {"feat_funcs": ["capitalized"]},
        "vocab": table,
        "lexicon": None,
    }
    helper.set_model_props(model, {key: json.dumps(value) for key, value in about.items()})
    return model.SerializeToString()
