"""English contractions: two words as one, *do not* as *don't*, *I am* as *I'm*; the links of both
are its links."""

from generator.finish import Word
from generator.lexicon import Lexicon
from generator.rules import PUNCTUATION

SHARE = 0.8  # of the sentences in which it is possible
SUBJECTS = ("I", "you", "he", "she", "it", "we", "they")
# "She is too.": stressed
NOT_BEFORE = (*PUNCTUATION, "too", "also", "now", "today", "and", "or", "in", "at")
# "how tall she is today": a gap behind the verb
GAPS = ("where", "how", "what", "which", "who", "whose", "than", "as")
BETWEEN = (
    "already",
    "never",
    "ever",
    "just",
    "always",
    "often",
    "finally",
    "only",
    "also",
    "still",
    "not",
    "recently",
)


def contract(words: list[Word], lexicon: Lexicon) -> list[Word]:
    """The sentence with every contraction that it allows; the same words where it allows none."""
    contracted = list(words)
    for index in range(len(words) - 1):
        if index + 1 >= len(contracted) or not (
            table := lexicon.contractions.get(contracted[index].text)
        ):
            continue
        word = contracted[index]
        following = contracted[index + 1]
        behind = contracted[index + 2].text if index + 2 < len(contracted) else "."
        if "not" in table and behind == "not" and following.text in SUBJECTS:
            contracted[index : index + 3] = [
                Word(table["not"][0], word.marks + contracted[index + 2].marks),
                following,
            ]
        elif "" in table:
            contracted[index] = Word(table[""][0], word.marks)
        elif (short := table.get(following.text)) and fits(
            contracted, index, behind, short[1], lexicon
        ):
            contracted[index : index + 2] = [Word(short[0], word.marks + following.marks)]
    return contracted


def fits(words: list[Word], index: int, behind: str, where: str, lexicon: Lexicon) -> bool:
    """Whether the two words at `index` can be contracted: anywhere, at the beginning, in a clause,
    in the perfect."""
    if where == "anywhere":
        return True
    if where == "beginning":
        return (index == 0 or words[index - 1].text in ".!?") and behind not in (
            *PUNCTUATION,
            *SUBJECTS,
        )
    if behind in NOT_BEFORE or (behind == "not" and words[index + 1].text != "am"):
        return False
    for word in reversed(words[:index]):
        if word.text in PUNCTUATION:
            break
        if word.text in GAPS:
            return False
    if where == "clause":
        return True
    rest = (word.text for word in words[index + 2 :] if word.text not in BETWEEN)
    return next(rest, "") in lexicon.participles
