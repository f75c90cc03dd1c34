"""A language that is added to a multilingual model: its tag, and the pieces of its script."""

import io
from dataclasses import dataclass, replace
from pathlib import Path

import sentencepiece
import torch
from torch import Tensor

from nmt.convert.argos import read_model
from nmt.convert.pretrained.model import TABLES, check_rows
from nmt.convert.pretrained.vocabulary import (
    BPE,
    NORMAL,
    SPECIAL,
    UNIGRAM,
    USER_DEFINED,
    Vocabulary,
    numbered,
    our_tokenizer,
)
from nmt.convert.pretrained.weights import StoredWeights
from nmt.corpus.languages import describe_codes
from nmt.corpus.parallel_text import read_lines
from nmt.data.tokenizer import BOS, UNK, Tokenizer
from nmt.errors import UserError

NOISE = 0.1  # of rows near the mean of a table, in its standard deviations


@dataclass
class NewLanguage:
    """A language to be taught to a multilingual model."""

    code: str
    related: str  # the language that its tag begins as
    text: Path  # one sentence a line
    pieces: int  # learnt from the text, besides its characters


def add_language(side: Vocabulary, weights: StoredWeights, new: NewLanguage) -> Vocabulary:
    """Add a language and the pieces of its script behind the ids of a model.

    Only pieces with a character that no old piece has are
    added: all other text keeps its pieces. Those of a unigram model keep their log-probabilities,
    and merges of BPE come after the old ones. A row of a table is the mean of those of the pieces
    that the text was divided into, where <unk> is a random row near the mean of the table. Raises
    UserError.
    """
    problem = ""
    if new.code in side.languages:
        problem = f"already has '{new.code}'"
    elif new.related not in side.languages:
        problem = f"has no language '{new.related}'"
    if problem:
        possible = describe_codes(new.related, sorted(side.languages))
        raise UserError(f"it {problem} as --new NEW=RELATED says; {possible}")
    kind = {UNIGRAM: "unigram", BPE: "bpe"}.get(side.model.trainer_spec.model_type)
    if kind is None:
        raise UserError(
            "its SentencePiece model is neither unigram nor BPE, so no pieces can be added"
        )

    # A tokenizer for which a piece begins a word where it begins with ▁, and only there
    unjoined = type(side.model)()
    unjoined.CopyFrom(side.model)
    unjoined.normalizer_spec.add_dummy_prefix = False
    unjoined.normalizer_spec.remove_extra_whitespaces = False
    before = our_tokenizer(replace(side, model=unjoined), {})

    added = new_pieces(side, before, new, kind)
    for piece, score in added.items():
        side.model.pieces.add(piece=piece, score=score, type=NORMAL)
    size = max(side.ids) + 1
    related = side.languages[new.related]
    tag = side.pieces[related].replace(new.related, new.code)
    side.languages[new.code] = size
    side.pieces |= dict(enumerate([tag, *added], size))

    divided = [torch.tensor(pieces) for pieces in before.processor.encode(list(added))]
    weights.change(
        TABLES, lambda name, table: with_rows(name, table[:size], side.ids, related, divided)
    )
    return numbered(side, side.ids[BOS], size + 1 + len(added))


def new_pieces(
    side: Vocabulary, before: Tokenizer, new: NewLanguage, kind: str
) -> dict[str, float]:
    """The pieces of a new language, with scores, that have a character which no old piece has.

    They are learnt from its text as the old tokenizer normalizes it. Raises UserError.
    """
    lines = [
        before.processor.normalize(before.normalize(line)).replace("▁", " ")
        for line in read_lines(new.text)
    ]
    content = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=content,
            model_type=kind,
            hard_vocab_limit=False,
            vocab_size=len(SPECIAL) + len(set().union(*lines)) + new.pieces,
            character_coverage=0.9999,
            normalization_rule_name="identity",
            minloglevel=4,
        )
    except RuntimeError:
        raise UserError(f"{new.text} has no text that pieces could be learnt from") from None
    old = [each for each in side.model.pieces if each.type in (NORMAL, USER_DEFINED)]
    characters = set().union(*(each.piece for each in old))
    last = min(each.score for each in old)
    shift = 0 if kind == "unigram" else last - 1  # merges come after the old ones
    added = {}
    for each in read_model(content.getvalue()).pieces:
        if each.type == NORMAL and not characters.issuperset(each.piece):
            added[each.piece] = each.score + shift
    return added


def with_rows(
    name: str, table: Tensor, ids: list[int], related: int, divided: list[Tensor]
) -> Tensor:
    """A table with a row for the new language and one for each new piece.

    The row of a piece is made from the old pieces of its text.
    """
    check_rows(name, table, ids)
    old_rows = table.float()
    noise = torch.randn(
        (len(divided), old_rows.size(1)), generator=torch.Generator().manual_seed(0)
    )
    near = old_rows.mean(0) + NOISE * old_rows.std(0) * noise
    places = torch.tensor(ids)
    rows = []
    for pieces, random in zip(divided, near, strict=True):
        is_unknown = pieces[:, None] == UNK
        rows.append(torch.where(is_unknown, random, old_rows[places[pieces]]).mean(0))
    return torch.cat((old_rows, torch.stack([old_rows[related], *rows])))
