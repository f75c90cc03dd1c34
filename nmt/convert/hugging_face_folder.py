"""A folder that AutoModelForSeq2SeqLM and AutoTokenizer of Hugging Face transformers open, without remote code."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import save

from nmt.config.schema import Config
from nmt.config.transformer import TransformerConfig
from nmt.convert.hugging_face_model import check_exportable, model_config, model_weights
from nmt.convert.hugging_face_tokenizer import tokenizer_config, tokenizer_json
from nmt.convert.identity import content_hash, position_count, write_text_code
from nmt.convert.licence import Licences
from nmt.data.tags import language_tag
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.translator import Translator
from nmt.models.transformer import Transformer

VERSION = 3  # part of the folder's name; to be raised when the content of an export changes

CARD = """---
library_name: transformers
pipeline_tag: translation
language: {languages}
tags: [translation, nmt]
{licence_field}---

# {title}

A Transformer of {parameters:.1f} million parameters that translates from {source} to {target}, one sentence at a time.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
batch = tokenizer(["{example}"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

## Scores

{scores}

## How it was made

{made}

## Data and limits

Trained on {data}. {licence} Text of another kind is translated worse. Every sentence is translated by itself, at most
{longest} pieces of it. Names, numbers and rare words can be wrong, and a fluent translation can be.
{tags}{protection}
`generation_config.json` has the run's search, with two differences: its maximum length does not depend on
the source, and repeated spans are not avoided.
`provenance.json` has the run, its configuration, the versions of the libraries and the scores.
"""
TAGS = """
The first word of each sentence is the tag of the language to translate into, such as `{tag}`.
"""
PROTECTION = """
In training, numbers, URLs, e-mails and the like were replaced by placeholders, and lines in capitals
were encoded as small letters. Do the same with `text_filter.py` (it needs `linkify-it-py`), or they are translated as
any other text:
`protected = protect(line)`, translate `protected.text`, then `restore(text, protected)`.
"""


@dataclass
class HuggingFaceExport:
    """A translator to be exported, with its configuration and its licence."""

    translator: Translator
    config: Config
    licences: Licences = Licences(None, ())
    repository: str | None = None  # OWNER/NAME on the hub, where it will be uploaded to
    content = ""  # the whole folder is the export

    @property
    def positions(self) -> int:
        """The length of the position tables."""
        return position_count(self.translator, self.config)

    @property
    def name(self) -> str:
        """The folder's name."""
        shape = [VERSION, vars(self.config.model), vars(self.config.decode), self.positions, self.licences.chosen]
        shape += [self.repository] if self.repository else []
        return f"hf-{content_hash(self.translator, shape)}"

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that write it, besides those of the run."""
        return {"safetensors": safetensors.__version__}

    def check(self) -> None:
        """Raises UserError where the architectures of transformers cannot hold this model."""
        check_exportable(self.config.model, self.translator.model, self.translator.tokenizers)

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the export, `provenance` included, into an empty folder. Raises OSError."""
        model, tokenizer = self.translator.model, self.translator.tokenizers.source
        assert isinstance(model, Transformer)
        weights = model_weights(model, self.config.model, self.positions)
        (folder / "model.safetensors").write_bytes(save(weights, {"format": "pt"}))
        written = {
            "config": model_config(self.config.model, tokenizer.size, self.positions),
            "generation_config": self.generation_config(),
            "tokenizer": tokenizer_json(tokenizer),
            "tokenizer_config": tokenizer_config(tokenizer, self.translator.max_pieces + 1),
            "provenance": provenance,
        }
        for name, content in written.items():
            text = json.dumps(content, indent=1, ensure_ascii=False)
            (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        write_text_code(folder, self.translator.tokenizers)
        size = sum(weight.numel() for name, weight in weights.items() if "embed_positions" not in name)
        (folder / "README.md").write_text(self.card(size, provenance), encoding="utf-8")

    def generation_config(self) -> dict[str, Any]:
        """The run's search: scores are log-probability / length^α; <pad> and <s> are never written."""
        decode = self.config.decode
        return {
            "decoder_start_token_id": BOS,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": PAD,
            "num_beams": decode.beam,
            "length_penalty": decode.length_penalty,
            "early_stopping": True,
            "do_sample": False,
            "max_length": self.positions,
            "suppress_tokens": [PAD, BOS],
        }

    def card(self, parameters: int, provenance: dict[str, Any]) -> str:
        """The model card."""
        data, tokenizers = self.config.data, self.translator.tokenizers
        lines = [
            f"- {name}: BLEU {each['bleu']:.2f} (`{each['bleu_signature']}`), "
            f"chrF {each['chrf']:.2f} (`{each.get('chrf_signature', 'no signature')}`)"
            for name, each in provenance["scores"].items()
        ]
        languages = sorted({*data.source.split("+"), *data.target.split("+")})
        targets = data.target.split("+")
        return CARD.format(
            languages=json.dumps(languages),
            licence_field=f"license: {self.licences.chosen}\n" if self.licences.chosen else "",
            licence=self.licences.sentence,
            title=f"{self.config.name}: {data.source} to {data.target}",
            parameters=parameters / 1e6,
            source=data.source,
            target=data.target,
            folder=self.repository or ".",
            made=self.how_it_was_made(provenance),
            longest=self.positions - 1,
            tags=TAGS.format(tag=language_tag(targets[0])) if len(targets) > 1 else "",
            example="Ein Mann schläft." if data.source == "de" else "…",
            scores="\n".join(lines) or "None was computed.",
            data=data.kind if data.kind != "files" else "the text of its owner",
            protection=PROTECTION if tokenizers.protects else "",
        )

    def how_it_was_made(self, provenance: dict[str, Any]) -> str:
        """A sentence for the model card."""
        model, run, size = self.config.model, provenance.get("run", {}), self.translator.tokenizers.source.size
        assert isinstance(model, TransformerConfig)
        versions = ", ".join(f"{name} {version}" for name, version in run.get("trained_with", {}).items())
        return (
            f"{model.encoder_layers} + {model.decoder_layers} layers of {model.hidden_size}, {model.num_heads} heads, "
            f"{size:,} pieces; seed {self.config.seed}, {run.get('origin', 'not trained')}; "
            f"{versions or 'no versions'}; hash of the corpus {run.get('corpus_hash', 'unknown')}."
        )
