"""An exported folder, which translates without nmt: weights, tokenizers, a README and their provenance."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config.schema import Config
from nmt.convert import vocabulary_map
from nmt.convert.ctranslate2_model import build_spec, check_exportable, import_ctranslate2
from nmt.convert.identity import content_hash, position_count, write_text_code
from nmt.decode.translator import Translator
from nmt.models.transformer import Transformer

VERSION = 5  # part of the folder's name; to be raised when the content of an export changes

README = """# {title}

A Transformer in the format of CTranslate2, weights as {quantization}. It needs the packages `ctranslate2`,
`sentencepiece`{links} and no other; run this in the folder:

```python
import ctranslate2
import sentencepiece

from normalization import normalize  # a file of this folder{protection}

source = sentencepiece.SentencePieceProcessor(model_file="{source}.model")
target = sentencepiece.SentencePieceProcessor(model_file="{target}.model")
engine = ctranslate2.Translator(".", compute_type="default")


def translate(line: str) -> str:
{protected}    pieces = source.encode(normalize(line{lower}), out_type=str)
    if not pieces:
        return ""
    results = engine.translate_batch(
        [pieces],
        beam_size={beam},
        length_penalty={alpha},
        max_input_length=0,
        min_decoding_length=0,
        max_decoding_length=int({ratio} * len(pieces) + {extra}),
        suppress_sequences=[["<pad>"], ["<s>"]],
        return_end_token=True,  # so that </s> counts in the length, as it did in training
    )
    text = target.decode([piece for piece in results[0].hypotheses[0] if piece != "</s>"])
    return {restored}


print(translate(input()))
```

{search}Split a line of more than {longest} pieces first: {reason}.
`model.bin`, `config.json` and `*_vocabulary.json` are CTranslate2's; `*.model` are SentencePiece's. `tokenizer.json`
holds whether text is brought to lower case, `provenance.json` the run, its configuration, the versions of the libraries
and the scores of the run.
"""


IMPORT = "\nfrom text_filter import protect, restore"
PROTECT = """    protected = protect(line)  # numbers, URLs … are copied
    if protected.is_copied:
        return line
    line = protected.text
"""
SEARCH = """`nmt translate --engine ctranslate2` searches again where a placeholder was lost or there is a loop; this
example does not.

"""
RESTORE = "restore(text, protected)"


@dataclass
class CTranslate2Export:
    """A translator to be exported, with its configuration and the number format of its weights."""

    translator: Translator
    config: Config
    quantization: str
    vocabulary_map: str | None = None  # the content of its file, where there is one

    @property
    def positions(self) -> int:
        """The length of the position tables."""
        return position_count(self.translator, self.config)

    @property
    def name(self) -> str:
        """The folder's name."""
        digest = content_hash(self.translator, [VERSION, vars(self.config.model), self.positions])
        return f"ctranslate2-{self.quantization}-{digest}"

    content = ""  # the whole folder is the export

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that write it."""
        return {"ctranslate2": import_ctranslate2().__version__}

    def check(self) -> None:
        """Raises UserError where ctranslate2 is missing or cannot hold this model."""
        check_exportable(self.config.model, self.translator.model)
        import_ctranslate2()

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the export, `provenance` included, into an empty folder. Raises OSError."""
        model = self.translator.model
        assert isinstance(model, Transformer)
        spec = build_spec(model, self.config.model, self.translator.tokenizers, self.positions, self.quantization)
        spec.save(str(folder))
        self.translator.tokenizers.save(folder)
        settings = {"quantization": self.quantization, "positions": self.positions}
        text = json.dumps(settings | provenance, indent=1, ensure_ascii=False)
        (folder / "provenance.json").write_text(text + "\n", encoding="utf-8")
        if self.vocabulary_map is not None:
            (folder / vocabulary_map.FILE).write_text(self.vocabulary_map, encoding="utf-8")
        write_text_code(folder, self.translator.tokenizers)
        (folder / "README.md").write_text(self.readme(), encoding="utf-8")

    def readme(self) -> str:
        """The README, with an example in the run's own settings of search."""
        tokenizers, decode, data = self.translator.tokenizers, self.config.decode, self.config.data
        joint, longest = tokenizers.joint, self.translator.max_pieces
        return README.format(
            title=f"{self.config.name}: {data.source} to {data.target}",
            quantization=self.quantization,
            source="joint" if joint else "source",
            target="joint" if joint else "target",
            protection=IMPORT if tokenizers.protects else "",
            protected=PROTECT if tokenizers.protects else "",
            links=", `linkify-it-py`" if tokenizers.protects else "",
            restored=RESTORE if tokenizers.protects else "text",
            lower=", lowercase=True" if tokenizers.source.lowercase else "",
            search=SEARCH if tokenizers.protects else "",
            beam=decode.beam,
            alpha=decode.length_penalty,
            ratio=decode.max_length_ratio,
            extra=decode.max_length_extra,
            longest=longest,
            reason=f"the table of positions ends at {self.positions}, and the training data has nothing longer",
        )
