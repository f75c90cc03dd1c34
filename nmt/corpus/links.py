"""Links between words in the Pharaoh format.

A link (i, j) means that source word i and target word j translate each other; both count from 0
inside the program. In a file a line is a sentence pair: `0-0 1-2 2p1`, where `i-j` is a sure link
and `ipj` only a possible one.
"""

import re
from collections.abc import Iterable

from nmt.errors import UserError

Link = tuple[int, int]
TOKEN = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


def parse_links(
    line: str, base: int = 0, where: str = "", reverse: bool = False
) -> tuple[set[Link], set[Link]]:
    """The sure and the possible links of a Pharaoh line, from 0; sure ones are possible too.

    `base` is the index of the first word in the file. `where` is the name and line for messages,
    such as `gold.txt:12`. `reverse` reads a file in which a link names the target word first.
    Raises UserError on anything that is not `i-j` or `ipj`, and on an index below `base`.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    prefix = f"{where}: " if where else ""
    for token in line.split():
        match = TOKEN.fullmatch(token)
        if not match:
            raise UserError(
                f"{prefix}'{token:.60}' is not an alignment link; expected i-j (sure) or ipj "
                "(possible), as in 0-0 1-2 2p1."
            )
        link = int(match[1]) - base, int(match[3]) - base
        if min(link) < 0:
            raise UserError(
                f"{prefix}link '{token}' is before the first word when words count from base "
                f"{base}."
            )
        if reverse:
            link = link[::-1]
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible


def format_links(links: Iterable[Link], base: int = 0, reverse: bool = False) -> str:
    """A Pharaoh line of links `i-j`, sorted; with `reverse` the target word comes first."""
    if reverse:
        links = [link[::-1] for link in links]
    return " ".join(f"{first + base}-{second + base}" for first, second in sorted(links))
