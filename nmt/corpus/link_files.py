"""Word links of the training pairs, from the files of a corpus to the corpus folder.

Beside PREFIX.source and PREFIX.target lies PREFIX.align, a Pharaoh line `i-j i-j …` for each pair.
The corpus folder gets train.align, without the lines of rejected pairs.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.corpus.links import Link, parse_links
from nmt.corpus.normalization import normalize
from nmt.corpus.origin import Origin
from nmt.corpus.parallel_text import read_lines
from nmt.corpus.tables import Pair
from nmt.corpus.words import count_words
from nmt.errors import UserError

NAME = "train.align"
PURPOSE = "train.guided_alignment learns links between the words of the training pairs"


def find_link_files(data: DataConfig, origins: Sequence[Origin]) -> list[Path]:
    """The file of links of each origin; none if one has no file, or tags come before the words."""
    links = [origin.links for origin in origins if origin.links is not None]
    return links if len(links) == len(origins) and not data.origin_tags else []


def with_links(pairs: Iterator[Pair], links: Path | None, place: str) -> Iterator[tuple[Pair, str]]:
    """Each pair with its line of the file `links`, "" without one.

    In a script without spaces the tokenizer decides how many words there are: each character may
    be one. Raises UserError for a line that cannot be right.
    """
    if links is None:
        yield from ((pair, "") for pair in pairs)
        return
    for number, (pair, line) in enumerate(zip_longest(pairs, read_lines(links)), 1):
        if pair is None or line is None:
            raise UserError(
                f"{links} and {place} have different numbers of lines; each pair needs one of "
                "links."
            )
        _, possible = parse_links(line, 0, f"{links}:{number}")
        for link in possible:
            # Words are only counted where there are fewer spaces than the link needs
            if link[0] > pair[0].count(" ") or link[1] > pair[1].count(" "):
                words = [count_words(normalize(text)) for text in pair]
                check_link(link, words, f"{links}:{number}")
        yield pair, line


def check_link(link: Link, words: Sequence[int], place: str) -> None:
    """Raise UserError for a link to a word behind the last one.

    `words`: how many there are on each side.
    """
    if link[0] >= words[0] or link[1] >= words[1]:
        raise UserError(
            f"{place}: link {link[0]}-{link[1]} names a word that does not exist; the pair has "
            f"{words[0]} and {words[1]} words, counted from 0; see "
            "train.guided_alignment_tokenized."
        )


def check_possible(data: DataConfig) -> None:
    """Raise UserError where no corpus of this configuration has links of the training pairs."""
    if data.kind == "multi30k":
        raise UserError(f"{PURPOSE}, but data=multi30k has none.")
    if data.origin_tags:
        raise UserError(f"{PURPOSE}, and data.origin_tags moves the words.")


def check_present(is_present: bool) -> None:
    """Raise UserError where a part of the training pairs has no links."""
    if not is_present:
        raise UserError(
            f"{PURPOSE}, but not each part of data.train is a PREFIX with a file PREFIX.align "
            "beside its two files, or PREFIX.SOURCE-TARGET.align for each of several language "
            "pairs; an aligner writes it, or `nmt align RUN --source FILE --target FILE "
            "--pharaoh` with a run that was trained without it."
        )
