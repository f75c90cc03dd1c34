"""Translations chosen from n-best lists by several models, also of other pieces, and by one of the other direction.

python scripts/rerank.py RUN[,RUN] --with RUN[,RUN] --backward RUN --valid valid.de valid.en --test test.de test.en

The first run, or ensemble, translates with a beam of 20. Of its 20 hypotheses y for a source x the one is taken with
the highest log p(y | x) + Σ_m w_m log p_m(y | x) + w_b log p(x | y) + λ |y|, |y| in its own pieces (noisy-channel
reranking, Yee et al. 2019; the reward for length, He et al. 2016). The weights are those of a grid with the highest
BLEU on the validation set; with them each test set is scored once.
"""

import argparse
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sacrebleu
import torch

import nmt
from nmt.data.batches import batches_by_length, collate
from nmt.data.parallel_text import read_lines
from nmt.data.tokenizer import PAD
from nmt.decode.forced_decoding import force_decode
from nmt.decode.translator import Translator
from nmt.runs.comparison.perplexity import MAX_LOGITS

BEAM = 20
FORWARD, BACKWARD, REWARD = (0.0, 0.5, 1.0), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (0.0, 0.3, 0.6, 1.0, 1.4)


@dataclass
class Hypotheses:
    """The n-best lists of a set, one after the other, the best of each first."""

    source: list[str]
    reference: list[str]
    texts: list[str]
    owners: np.ndarray  # the line of each
    features: np.ndarray  # [hypotheses, features]

    def choose(self, weights: np.ndarray) -> list[str]:
        """For each line the hypothesis with the highest weighted sum of its features."""
        order = np.lexsort((-self.features @ weights, self.owners))
        first = np.flatnonzero(np.diff(self.owners[order], prepend=-1))
        return [self.texts[number] for number in order[first]]

    def bleu(self, weights: np.ndarray) -> float:
        """BLEU of the hypotheses that these weights choose."""
        return sacrebleu.corpus_bleu(self.choose(weights), [self.reference]).score


@torch.inference_mode()
def log_probabilities(translator: Translator, pairs: list[tuple[str, str]]) -> np.ndarray:
    """[pairs, 2]: log p(target | source), and the pieces of the target, </s> counted; zeros where a side is blank."""
    encoded = translator.tokenizers.encode_pairs(pairs)
    shorter, longer = (np.array([end(map(len, ids)) for ids in encoded]) for end in (min, max))
    written, found = np.flatnonzero(shorter), np.zeros((len(pairs), 2))
    for indices in batches_by_length(longer[written], MAX_LOGITS // translator.tokenizers.target.size):
        rows = written[indices]
        batch = collate(*([np.asarray(encoded[row][side]) for row in rows] for side in (0, 1))).to(translator.device)
        decoded = force_decode(translator.model, batch.source, batch.mask, batch.target, batch.output, weights=False)
        real = batch.output != PAD
        found[rows, 0] = (decoded.log_probabilities * real).sum(1).cpu().numpy()
        found[rows, 1] = real.sum(1).cpu().numpy()
    return found


def read_hypotheses(run: nmt.Run, others: list[nmt.Run], backward: list[nmt.Run], files: list[str]) -> Hypotheses:
    """The n-best lists of a set with their features: log p of each run, and the length; raises UserError."""
    source, reference = (list(read_lines(Path(file))) for file in files)
    if len(source) != len(reference) or not source:
        raise nmt.UserError(f"{files[0]} has {len(source)} lines and {files[1]} {len(reference)}; each needs its own.")
    translations = run.translate(source, beam=BEAM, nbest=BEAM)
    pairs = [(source[line], each.text) for line, best in enumerate(translations) for each in best.nbest]
    owners = np.repeat(np.arange(len(source)), [len(best.nbest) for best in translations])
    own = log_probabilities(run.translator, pairs)
    columns = [own[:, 0], *(log_probabilities(other.translator, pairs)[:, 0] for other in others)]
    exchanged = [(target, given) for given, target in pairs]
    columns += [log_probabilities(other.translator, exchanged)[:, 0] for other in backward]
    return Hypotheses(source, reference, [text for _, text in pairs], owners, np.stack([*columns, own[:, 1]], axis=1))


def main(arguments: list[str] | None = None) -> None:
    """Print BLEU of each set as the first run translates it, and as it is chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="RUN")
    parser.add_argument("--backward", action="append", default=[], metavar="RUN")
    parser.add_argument("--valid", nargs=2, required=True, metavar=("SOURCE", "REFERENCE"))
    parser.add_argument("--test", nargs=2, action="append", default=[], metavar=("SOURCE", "REFERENCE"))
    given = parser.parse_args(arguments)
    run, *runs = [nmt.load(*names.split(",")) for names in (given.run, *given.others, *given.backward)]
    others, backward = runs[: len(given.others)], runs[len(given.others) :]
    valid = read_hypotheses(run, others, backward, given.valid)
    grid = itertools.product((1.0,), *[FORWARD] * len(others), *[BACKWARD] * len(backward), REWARD)
    weights = max(map(np.array, grid), key=valid.bleu)
    names = [given.run, *given.others, *given.backward, "length"]
    print("weights", *(f"{name} {weight:g}" for name, weight in zip(names, weights, strict=True)), sep="\t")
    for files in (given.valid, *given.test):
        found = valid if files is given.valid else read_hypotheses(run, others, backward, files)
        first = np.flatnonzero(np.diff(found.owners, prepend=-1))
        before = sacrebleu.corpus_bleu([found.texts[number] for number in first], [found.reference]).score
        print(files[0], f"{before:.2f}", f"{found.bleu(weights):.2f}", sep="\t", flush=True)


if __name__ == "__main__":
    try:
        main()
    except nmt.UserError as error:
        print(f"rerank: {error}", file=sys.stderr)
        sys.exit(2)
