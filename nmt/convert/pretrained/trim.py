"""A model without the pieces that some text does not need.

A piece of text stays if it occurs in a word of the given text, even where that word is divided in
another way, and if it is one of the most frequent pieces of the text's scripts, or a character of
them. All that is no text stays as well, such as languages: the tokenizers of transformers number
those themselves.

Text whose pieces stay is divided as before. With BPE that is so because a piece stays together with
those that it is merged from: they occur in the same word, or are more frequent.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.convert.argos import read_model
from nmt.convert.pretrained.files import kept_files, read_json, read_optional
from nmt.convert.pretrained.model import BIAS, SHARED, TABLES, check_rows
from nmt.convert.pretrained.vocabulary import NORMAL, Vocabulary, by_tokenizer_json, our_tokenizer
from nmt.convert.pretrained.weights import StoredWeights
from nmt.corpus.inspect.lines import SIZE, scripts
from nmt.corpus.parallel_text import read_lines
from nmt.data.subword_sampling import SPACE
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.view.progress import Progress

FREQUENT = 10_000  # pieces of several characters that stay for words that the text does not have
RARE = 0.001  # of the letters; a script that has less of them is that of names
LINES = 10_000  # at a time
CONFIGURATIONS = ("config.json", "generation_config.json")
# Files and tables with the ids of the target, which may have a vocabulary of its own
TARGET_FILES = {*CONFIGURATIONS, "target.spm", "target_vocab.json"}
TARGET_TABLES = {*TABLES, BIAS} - {SHARED, "model.encoder.embed_tokens.weight"}
# Entries of JSON files that are ids of pieces, or lists of ids
ID = re.compile(r"ids?|(unk|pad)_id|\w+_token_id|bad_words_ids|(begin_)?suppress_tokens")


def trim_files(
    folder: Path,
    trimmed: Path,
    sides: Sequence[Vocabulary],
    texts: Sequence[Path],
) -> list[list[int]]:
    """Write the small files of a model into a new folder without the pieces that are not needed.

    Returns the ids in `folder` of the pieces of source and target in their new order. Raises
    UserError for what cannot be read, and for a text that has nothing of the model's languages.
    """
    of_text = text_pieces(sides[0]) | text_pieces(sides[1])
    needed = needed_pieces(of_text, sides, texts)
    for name in CONFIGURATIONS:
        for number in named_ids(read_optional(folder / name)):
            needed.add(sides[1].pieces.get(number, ""))
    unneeded = of_text.keys() - needed
    kept = []
    for side in sides:
        ids = sorted(set(side.ids))
        kept.append([each for each in ids if side.pieces.get(each) not in unneeded])

    trimmed.mkdir()
    for name, content in kept_files(folder).items():
        ids = kept[name in TARGET_FILES]
        if name.endswith((".spm", ".model")):
            content = without_pieces(content, unneeded)
        elif name.endswith(".json"):
            stored = read_json(folder / name)
            if name == "config.json":
                stored["vocab_size"] = len(kept[0])
                if "decoder_vocab_size" in stored:
                    stored["decoder_vocab_size"] = len(kept[1])
            new = {number: place for place, number in enumerate(ids)}
            changed = with_ids(name, stored, new)
            content = json.dumps(changed, ensure_ascii=False, indent=2).encode()
        (trimmed / name).write_bytes(content)
    return kept


def trim_weights(weights: StoredWeights, kept: Sequence[Sequence[int]]) -> None:
    """Keep some rows of each table and numbers of the output's bias; raises UserError."""

    def rows(name: str, table: Tensor) -> Tensor:
        ids = kept[name in TARGET_TABLES]
        check_rows(name, table, ids)
        return table.index_select(1 if name == BIAS else 0, torch.tensor(ids))

    weights.change({*TABLES, BIAS}, rows)


def text_pieces(side: Vocabulary) -> dict[str, float]:
    """The pieces that text is divided into, with their scores; bytes and added words are none."""
    return {each.piece: each.score for each in side.model.pieces if each.type == NORMAL}


def needed_pieces(
    of_text: Mapping[str, float],
    sides: Sequence[Vocabulary],
    texts: Sequence[Path],
) -> set[str]:
    """Those pieces of text that some texts need; raises UserError."""
    # The worst piece of each side, by which SentencePiece scores unknown characters
    needed = set()
    for side in sides:
        scores = text_pieces(side)
        needed.add(min(scores, key=scores.__getitem__, default=""))

    tokenizers = [our_tokenizer(sides[0], {})]
    if sides[1].model is not sides[0].model:
        tokenizers.append(our_tokenizer(sides[1], {}))
    characters: Counter[str] = Counter()
    for path in texts:
        found: set[str] = set()
        for words in distinct_words(path, tokenizers):
            found |= pieces_within(words, of_text)
            characters.update("".join(words))
        if not any(map(scripts_of, found)):
            raise UserError(f"--trim {path} has no text of the model's languages")
        needed |= found

    letters: Counter[int] = Counter()  # by script
    for character, count in characters.items():
        for script in scripts_of(character):
            letters[script] += count
    least = RARE * sum(letters.values())
    of_scripts = {script for script, count in letters.items() if count >= least}
    frequent = [piece for piece in of_text if scripts_of(piece) <= of_scripts]
    frequent.sort(key=of_text.__getitem__, reverse=True)
    several = [piece for piece in frequent if len(piece) > 1]
    return needed.union(several[:FREQUENT], (piece for piece in frequent if len(piece) == 1))


def distinct_words(path: Path, tokenizers: Sequence[Tokenizer]) -> Iterator[set[str]]:
    """The words of LINES of a text at a time, as tokenizers normalize them; raises UserError."""
    lines = read_lines(path)
    with Progress(None, "line", f"reading {path}") as bar:
        while some := list(islice(lines, LINES)):
            words: set[str] = set()
            for tokenizer in tokenizers:
                for line in some:
                    text = tokenizer.processor.normalize(tokenizer.normalize(line))
                    words.update(text.replace(SPACE, f" {SPACE}").split())
            yield words
            bar.update(len(some))


def pieces_within(words: Collection[str], pieces: Collection[str]) -> set[str]:
    """Those pieces that are a part of a word."""
    longest = max(map(len, pieces), default=0)
    found = set()
    for word in words:
        for start in range(len(word)):
            for end in range(start + 1, min(start + longest, len(word)) + 1):
                if word[start:end] in pieces:
                    found.add(word[start:end])
    return found


def scripts_of(text: str) -> set[int]:
    """The scripts of its letters."""
    table, _ = scripts()
    found = {int(table[ord(character)]) for character in text if ord(character) < SIZE}
    return found - {0}  # no letter


def without_pieces(content: bytes, unneeded: Collection[str]) -> bytes:
    """The same SentencePiece model without some pieces of text."""
    model = read_model(content)
    pieces = [each for each in model.pieces if each.type != NORMAL or each.piece not in unneeded]
    del model.pieces[:]
    model.pieces.extend(pieces)
    model.trainer_spec.vocab_size = len(pieces)
    serialized: bytes = model.SerializeToString()
    return serialized


def with_ids(name: str, content: dict[str, Any], new: Mapping[int, int]) -> dict[str, Any]:
    """The content of a JSON file with the new ids of pieces, by the old ones.

    Pieces without a new id are left out. Raises UserError for a tokenizer that cannot be read.
    """
    if name.endswith("vocab.json") or name == "added_tokens.json":
        return {piece: new[number] for piece, number in content.items() if number in new}
    if name == "tokenizer.json":
        by_tokenizer_json(content, None)  # refuses another kind, which some folders have besides
        model = content["model"]
        vocabulary = model.pop("vocab")
        merges = model.pop("merges", None)
        changed: dict[str, Any] = renumbered(content, new)
        if isinstance(vocabulary, list):  # unigram
            kept = [each for number, each in enumerate(vocabulary) if number in new]
            changed["model"]["vocab"] = kept
        else:
            vocabulary = {piece: new[n] for piece, n in vocabulary.items() if n in new}
            changed["model"]["vocab"] = vocabulary
            changed["model"]["merges"] = [each for each in merges if can_merge(each, vocabulary)]
        return changed
    changed = renumbered(content, new)
    if added := content.get("added_tokens_decoder"):
        of_number = {int(number): about for number, about in added.items()}
        changed["added_tokens_decoder"] = {
            str(new[number]): about for number, about in of_number.items() if number in new
        }
    return changed


def can_merge(merge: str | list[str], vocabulary: Collection[str]) -> bool:
    """Whether both parts of a merge of tokenizer.json, and what they become, are pieces."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left in vocabulary and right in vocabulary and left + right in vocabulary


def renumbered(content: Any, new: Mapping[int, int], is_id: bool = False) -> Any:
    """The same JSON with the new ids of pieces, by the old ones."""
    if isinstance(content, dict):
        return {
            key: renumbered(each, new, bool(ID.fullmatch(key))) for key, each in content.items()
        }
    if isinstance(content, list):
        return [renumbered(each, new, is_id) for each in content]
    return new.get(content, content) if is_id and type(content) is int else content


def named_ids(content: Any, is_id: bool = False) -> Iterator[int]:
    """The ids of pieces that a JSON file names."""
    if isinstance(content, dict):
        for key, each in content.items():
            yield from named_ids(each, bool(ID.fullmatch(key)))
    elif isinstance(content, list):
        for each in content:
            yield from named_ids(each, is_id)
    elif is_id and type(content) is int:
        yield content
