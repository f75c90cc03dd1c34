"""What a family of models is asked for."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.convert.pretrained.files import read_json
from nmt.convert.pretrained.vocabulary import Vocabulary, add_tokens, by_tokenizer_json
from nmt.corpus.languages import describe_codes
from nmt.errors import UserError

Prefixes = dict[str, list[int]]


class Family:
    """A family of models: its layers, its tokenizer, and how it is told its languages.

    Weights have the names of BART's in all of them (model.py). By default the tokenizer is
    tokenizer.json, and there is one direction, which the model is not told.
    """

    label: str  # in messages
    norm: str
    positions: str
    has_learned_positions = False  # where its table is not the sinusoidal one
    tells_both_languages = False  # each side begins with its language
    adds_languages = False  # --new
    # the added tokens of tokenizer.json that are languages
    language_piece: re.Pattern[str] | None = None

    def check(self, config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> None:
        """Raise UserError for a relative that cannot be read, from its two configurations."""

    def read_tokenizers(self, folder: Path) -> list[Vocabulary]:
        """The vocabularies of source and target, or one of both; raises UserError."""
        path = folder / "tokenizer.json"
        if not path.exists():
            raise UserError(
                "there is no tokenizer: source.spm, sentencepiece.bpe.model or tokenizer.json"
            )
        return [by_tokenizer_json(read_json(path), self.language_piece)]

    def read_vocabularies(self, folder: Path) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of source and target with added tokens; raises UserError."""
        sides = self.read_tokenizers(folder)
        for side in sides:
            add_tokens(side, folder)
        return sides[0], sides[-1]

    def prefixes(
        self, languages: Mapping[str, int], source: Sequence[str], target: Sequence[str]
    ) -> tuple[Prefixes, Prefixes]:
        """What source and target begin with, by the tag before the source.

        The tag is "" where one direction is imported. `languages` has our id of the piece of each
        language that the model knows; `source` and `target` are those asked for, in any form.
        Raises UserError for one that the model lacks.
        """
        return {}, {}


def missing_languages(languages: Mapping[str, int]) -> UserError:
    """The error where a multilingual model is not told what it is to translate."""
    return UserError(
        "say what it is to translate with --source and --target; "
        f"{describe_codes('en', sorted(languages))}"
    )
