"""The pieces that a translation can need, for each piece of a source, from the run's own links.

CTranslate2 calls it a vocabulary map: with `use_vmap=True` it computes the logits of these pieces alone. A line of
vmap.txt is a source piece, a tab and target pieces; the first line, without a source piece, holds those of every
sentence.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from nmt.data.tokenizer import BOS, EOS, PAD, UNK
from nmt.decode.translator import Translator
from nmt.evaluate.extraction import Extractor, encode_pairs, fitting_pairs
from nmt.view.progress import Progress

FILE = "vmap.txt"
PAIRS = 20000  # of the training text, evenly spread
LINKED, COMMON = 100, 400  # pieces for a source piece, and for every sentence


def vocabulary_map(translator: Translator, extractor: Extractor, pairs: Sequence[tuple[str, str]]) -> str:
    """The content of vmap.txt: each target piece is a candidate of the source piece that it attends to most."""
    pairs = [pairs[number * len(pairs) // PAIRS] for number in range(PAIRS)] if len(pairs) > PAIRS else pairs
    ids = encode_pairs(translator, [pairs[row] for row in fitting_pairs(translator, pairs)])
    linked: defaultdict[str, Counter[str]] = defaultdict(Counter)
    frequency: Counter[str] = Counter()
    with Progress(len(pairs), "pair", "linking pieces") as bar:
        for record in translator.force_decode_all(ids):
            best = extractor.piece_weights(record).argmax(axis=1)
            frequency.update(record.target_pieces)
            for target, source in zip(record.target_pieces, best.tolist(), strict=True):
                if source < len(record.source_pieces):
                    linked[record.source_pieces[source]][target] += 1
            bar.update(1)
    return "".join(map_lines(translator, linked, frequency))


def map_lines(translator: Translator, linked: dict[str, Counter[str]], frequency: Counter[str]) -> list[str]:
    """The lines of the map: the common target pieces, then SOURCE PIECE, tab, its target pieces.

    A source piece that is a target piece too can be copied.
    """
    source, target = (side.pieces(range(1 + max(PAD, UNK, BOS, EOS), side.size)) for side in translator.tokenizers)
    copied = set(target)
    lines = ["\t" + " ".join(piece for piece, _ in frequency.most_common(COMMON)) + "\n"]
    for piece in source:
        candidates = [each for each, _ in linked.get(piece, Counter[str]()).most_common(LINKED)]
        candidates += [piece] if piece in copied and piece not in candidates else []
        lines += [f"{piece}\t{' '.join(candidates)}\n"] if candidates else []
    return lines
