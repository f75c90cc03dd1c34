"""M2M-100 and NLLB-200."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from nmt.convert.pretrained.family import Family, Prefixes, missing_languages
from nmt.convert.pretrained.files import HUB, read_json
from nmt.convert.pretrained.vocabulary import (
    CONTROL,
    UNKNOWN,
    Vocabulary,
    inverse,
    read_sentencepiece,
)
from nmt.corpus.languages import choose_language
from nmt.corpus.tags import language_tag
from nmt.errors import UserError

FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")  # their first pieces
# The languages of M2M-100 and NLLB-200 in the order of their ids, which not every folder holds
TABLE = Path(__file__).with_name("known_languages.tsv").read_text(encoding="utf-8").splitlines()
KNOWN_LANGUAGES = {}
for line in TABLE:
    name, codes = line.split("\t")
    KNOWN_LANGUAGES[name] = codes.split()
SMALL100 = (
    "it is SMaLL-100, which is told the target language where M2M-100 is told the source "
    f"language; take {HUB}facebook/m2m100_418M"
)
WMT21 = (
    "it is a model of WMT21, whose language codes are not those of M2M-100; take "
    f"{HUB}facebook/m2m100_1.2B or {HUB}facebook/nllb-200-1.3B"
)
SMALL100_LAYERS = (12, 3)  # of encoder and decoder, which no published M2M-100 or NLLB-200 has


class M2M100(Family):
    """Each side begins with the piece of its language."""

    label = "M2M-100, NLLB-200"
    norm = "pre"
    positions = "sinusoidal_fairseq"
    tells_both_languages = True
    adds_languages = True
    language_piece = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")  # of NLLB-200

    def check(self, config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> None:
        """Models of this type that are told their languages in another way are refused."""
        names = (
            config.get("_name_or_path"),
            tokenizer.get("name_or_path"),
            tokenizer.get("tokenizer_class"),
        )
        text = " ".join(str(name) for name in names).lower()
        layers = (config.get("encoder_layers"), config.get("decoder_layers"))
        if "small100" in text or layers == SMALL100_LAYERS:
            raise UserError(SMALL100)
        if "wmt21" in text or tokenizer.get("language_codes") == "wmt21":
            raise UserError(WMT21)
        if tokenizer.get("legacy_behaviour"):
            raise UserError(
                "its tokenizer puts the language behind the sentence (legacy_behaviour); NLLB-200 "
                "was trained with it before the sentence: set legacy_behaviour to false in "
                "tokenizer_config.json to import it so"
            )

    def read_tokenizers(self, folder: Path) -> list[Vocabulary]:
        model = folder / "sentencepiece.bpe.model"
        if model.exists() and (folder / "vocab.json").exists():
            return [by_vocab_json(folder)]
        if model.exists() and not (folder / "tokenizer.json").exists():
            return [by_sentencepiece(read_sentencepiece(model))]
        return super().read_tokenizers(folder)

    def prefixes(
        self, languages: Mapping[str, int], source: Sequence[str], target: Sequence[str]
    ) -> tuple[Prefixes, Prefixes]:
        if not languages:
            return {}, {}
        if not source or not target:
            raise missing_languages(languages)
        targets = {code: languages[choose_language(code, languages)] for code in target}
        sources = {code: languages[choose_language(code, languages)] for code in source}
        of_source: Prefixes = {}
        of_target: Prefixes = {}
        pairs = [pair for pair in product(source, target) if pair[0] != pair[1]]
        for here, there in pairs:
            tag = language_tag(there, here) if len(pairs) > 1 else ""
            of_source[tag] = [sources[here]]
            of_target[tag] = [targets[there]]
        return of_source, of_target


def by_vocab_json(folder: Path) -> Vocabulary:
    """M2M-100: the pieces of vocab.json, then a tag for each language; raises UserError."""
    pieces = inverse(read_json(folder / "vocab.json"))
    model = read_sentencepiece(folder / "sentencepiece.bpe.model")
    return with_languages(pieces, model, "m2m_100", "__{}__")


def by_sentencepiece(model: Any) -> Vocabulary:
    """The vocabulary of NLLB-200 without tokenizer.json.

    It has fairseq's four pieces, those of the model, the languages, and <mask>.
    """
    own = [each.piece for each in model.pieces if each.type not in (UNKNOWN, CONTROL)]
    side = with_languages(dict(enumerate([*FAIRSEQ, *own])), model, "nllb_200", "{}")
    side.pieces[len(side.pieces)] = "<mask>"
    return side


def with_languages(pieces: dict[int, str], model: Any, family: str, piece: str) -> Vocabulary:
    """A vocabulary whose languages are behind its other pieces, in the known order."""
    languages = {}
    for number, code in enumerate(KNOWN_LANGUAGES[family], len(pieces)):
        languages[code] = number
        pieces[number] = piece.format(code)
    return Vocabulary(pieces, model, languages=languages)
