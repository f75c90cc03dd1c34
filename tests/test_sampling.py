"""Samples follow the model's distribution and nothing else; a choice among them is that of chrF."""

import itertools
import json
import math
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from corpora import Trained, corpus_of, lines_of, run_command, write_lines
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF
from test_beam_search import WORDS, Table, random_table, sources

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.beam_search import Hypothesis, search
from nmt.decode.choice import best_by_chrf, expected_chrf, minimum_bayes_risk
from nmt.decode.sampling import Sampler, Sampling
from nmt.decode.translation import Translation
from nmt.errors import UserError
from nmt.runs.run import Run, load

CPU = torch.device("cpu")
TEXTS = ["Ein Junge malt das rote Fahrrad.", "", "42", "Die Lehrerin kauft kein Brot am Fluss."]
TEXTS += ["Mein Bruder sucht zwei Bücher.", "Eine Frau trägt einen großen Hut im Garten."]


@pytest.fixture(scope="module")
def run(trained: Trained) -> Run:
    return load([trained.folder / "best.safetensors"])


def draw_samples(
    table: torch.Tensor, sampling: Sampling, limits: list[int], places: list[tuple[int, int]]
) -> list[list[Hypothesis]]:
    """The samples of each sentence of a table of logits."""
    found = search(
        Table(table),
        sources(len(table)),
        None,
        1,
        0.0,
        torch.tensor(limits).repeat_interleave(sampling.samples),
        sampler=sampling.sampler(places, max(limits), CPU),
    )
    samples = [hypothesis for (hypothesis,) in found]
    return [list(each) for each in np.array(samples).reshape(len(table), sampling.samples)]


def texts_of(translations: list[Translation]) -> list[list[str]]:
    return [[each.text for each in translation.nbest] for translation in translations]


# The distribution


def restricted(p: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The definition, piece by piece."""
    p = p ** (1 / sampling.temperature)
    order = np.argsort(-p)
    if sampling.top_k is not None:
        p[order[sampling.top_k :]] = 0
    p = p / p.sum()
    total = 0.0
    for piece in order:
        if total >= sampling.top_p:
            p[piece] = 0
        total += p[piece]
    return p / p.sum()


@pytest.mark.parametrize("vocabulary", [6, 500])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize(
    "top_k, top_p", [(None, 1.0), (4, 1.0), (None, 0.5), (None, 0.95), (50, 0.9)]
)
def test_evenly_spaced_numbers_draw_each_piece_in_proportion(vocabulary, temperature, top_k, top_p):
    """Of M numbers a piece of probability p gets M·p, to within one; more than `FIRST_SIZE` pieces
    are needed for 0.95 of 500."""
    sampling = Sampling(1, temperature, top_k, top_p)
    log_probabilities = torch.randn(vocabulary, generator=torch.Generator().manual_seed(1))
    log_probabilities[2] = float("-inf")
    log_probabilities = log_probabilities.log_softmax(0)
    wanted = restricted(log_probabilities.double().exp().numpy(), sampling)
    count = 20_000
    numbers = ((torch.arange(count) + 0.5) / count)[:, None]
    drawn = Sampler(sampling, numbers).draw(log_probabilities.expand(count, -1), 0)
    found = drawn.flatten().bincount(minlength=vocabulary).numpy()
    assert np.abs(found - count * wanted).max() < 1.1
    assert not found[wanted == 0].any()


def test_every_number_draws_a_possible_piece():
    """The smallest and the largest number there are, with sums that are not quite 1."""
    edges = torch.tensor([[0.0], [1 - 2**-24]])
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        log_probabilities = 3 * torch.randn(2, 300, generator=generator)
        log_probabilities[:, [0, 7, 299]] = float("-inf")
        for sampling in (Sampling(1, top_p=1), Sampling(1, top_p=0.99), Sampling(1, top_k=400)):
            drawn = Sampler(sampling, edges).draw(log_probabilities.log_softmax(1), 0)
            assert log_probabilities.gather(1, drawn).isfinite().all()


def exact_distribution(table: torch.Tensor, limit: int, temperature: float) -> dict[tuple, float]:
    """The probability of each sentence; at the limit it ends."""
    probabilities = (table.double() / temperature).softmax(-1).tolist()
    result = {}
    for length in range(limit):
        for ids in itertools.product(WORDS, repeat=length):
            pieces = [*ids, EOS] if length + 1 < limit else ids
            last = [BOS, *ids]
            steps = [probabilities[step][last[step]][piece] for step, piece in enumerate(pieces)]
            result[ids] = float(np.prod(steps))
    assert sum(result.values()) == pytest.approx(1)
    return result


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_frequencies_are_probabilities(temperature):
    """All 13 sentences of two sources. Chi square has 12 degrees of freedom, so a mean of 12 and a
    standard deviation of 5. Scores are those of the model, at any temperature."""
    table = random_table(2, 3, seed=4, scale=1.0)
    table[..., [PAD, BOS]] = float("-inf")
    count = 3000
    found = draw_samples(table, Sampling(count, temperature, top_p=1.0), [3, 3], [(1, 0), (2, 0)])
    log_probabilities = table.double().log_softmax(-1)
    for samples, logits, logs in zip(found, table, log_probabilities, strict=True):
        wanted = exact_distribution(logits, 3, temperature)
        frequencies = Counter(tuple(sample.ids) for sample in samples)
        chi_square = 0.0
        for ids, probability in wanted.items():
            expected = count * probability
            chi_square += (frequencies[ids] - expected) ** 2 / expected
        assert chi_square < 12 + 5 * 5
        for sample in samples[:50]:
            pieces = [BOS, *sample.ids, EOS]
            steps = [
                float(logs[step, a, b]) for step, (a, b) in enumerate(itertools.pairwise(pieces))
            ]
            assert sample.log_probabilities == pytest.approx(steps, abs=1e-5)


@given(
    seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3),
    limits=st.lists(st.integers(1, 6), min_size=3, max_size=3),
)
def test_the_most_probable_piece_alone_is_greedy_search(seeds, limits):
    """Also where <pad> and <s> would be the best pieces."""
    table = torch.cat([random_table(1, 7, seed, scale=5.0) for seed in seeds])
    table[..., [PAD, BOS]] += 6.0
    limits = limits[: len(seeds)]
    wanted = search(Table(table), sources(len(table)), None, 1, 0.0, torch.tensor(limits))
    places = [(line, 0) for line in range(len(table))]
    for sampling in (Sampling(2, top_k=1), Sampling(2, top_p=1e-6), Sampling(2, 0.01)):
        for samples, (best,) in zip(
            draw_samples(table, sampling, limits, places), wanted, strict=True
        ):
            assert samples == [best, best]


# Lines


def test_a_line_has_the_same_samples_in_any_company(run, monkeypatch):
    """Alone, in a file, in batches of another size, with two processes; fewer samples are the
    first ones."""
    sampled = run.with_samples(5, temperature=1.3, top_p=1.0).translator
    sampled = replace(sampled, num_processes=1)
    wanted = texts_of(list(sampled.translate(TEXTS)))
    assert [len(set(texts)) > 1 for texts in wanted] == [True, False, False, True, True, True]
    for number, text in enumerate(TEXTS, 1):
        assert texts_of(list(sampled.translate_chunk([text], number))) == [wanted[number - 1]]
    (other_line,) = texts_of(list(sampled.translate_chunk(TEXTS[:1], 2)))
    other_seed = run.with_samples(5, temperature=1.3, top_p=1.0, seed=2).translate(
        TEXTS[:1], nbest=5
    )
    assert wanted[0] not in (other_line, *texts_of(other_seed))
    decode = replace(sampled.decode, batch_tokens=40)
    assert texts_of(list(replace(sampled, decode=decode).translate(TEXTS))) == wanted
    monkeypatch.setattr("nmt.decode.translator.MIN_BATCH_TOKENS", 5)
    assert texts_of(list(replace(sampled, num_processes=2).translate(TEXTS))) == wanted
    fewer = texts_of(run.with_samples(2, temperature=1.3, top_p=1.0).translate(TEXTS, nbest=2))
    assert all(set(few) <= set(texts) for few, texts in zip(fewer, wanted, strict=True))


def test_samples_come_best_first_and_keep_what_search_keeps(run):
    """Prefix, placeholders and the order; a sample of a long line has a part for each of its
    parts."""
    sampled = run.with_samples(6, temperature=2.0, top_p=1.0)
    for translation in sampled.with_prefix("The").translate(
        ["Ein Junge kauft 4711 Bücher."] * 2, nbest=6
    ):
        scores = [each.score for each in translation.nbest]
        assert scores == sorted(scores, reverse=True) and len(set(scores)) > 1
        for each in translation.nbest:
            assert each.text.startswith("The") and each.text.count("4711") == 1
    sampled = replace(sampled, translator=replace(sampled.translator, max_pieces=30))
    long = " ".join([TEXTS[0]] * 4)
    (translation,) = sampled.translate([long], nbest=6)
    assert len(set(each.text for each in translation.nbest)) == 6
    assert all(len(each.parts) == len(translation.parts) > 1 for each in translation.nbest)
    first, second = translation.parts[:2]
    assert first.text != second.text, "parts have numbers of their own"


# The choice


def test_against_one_reference_it_is_sacrebleus_chrf():
    chrf = CHRF()
    words = " ".join(TEXTS).split()
    random = np.random.default_rng(1)
    texts = ["", " ", "a", "aa", "aaaaaaaaaa", "ab ab", "é ü", "x y\u00a0z"]
    for _ in range(40):
        texts.append(
            " ".join(random.choice(words, random.integers(1, 9)))[: random.integers(1, 40)]
        )
    for candidate, reference in itertools.product(texts, repeat=2):
        (score,) = expected_chrf([candidate], {reference: 1.0})
        assert score == pytest.approx(chrf.sentence_score(candidate, [reference]).score)


def near_candidates(random: np.random.Generator) -> list[str]:
    """A sentence with words exchanged, as samples are."""
    words = TEXTS[int(random.choice([0, 3, 4, 5]))].split()
    others = " ".join(TEXTS).split()
    candidates = []
    for _ in range(12):
        is_kept = random.random(len(words)) > 0.3
        candidates.append(" ".join(np.where(is_kept, words, random.choice(others, len(words)))))
    return candidates


def test_the_choice_has_nearly_the_highest_mean_of_all_pairs():
    """F of expectations is not the expectation of F: what is chosen has another mean of all pairs
    by at most half a point, and in the mean of all sets by a twentieth."""
    chrf = CHRF()
    random = np.random.default_rng(1)
    lost = []
    for _ in range(30):
        candidates = near_candidates(random)
        means = []
        for candidate in candidates:
            pairs = [chrf.sentence_score(candidate, [each]).score for each in candidates]
            means.append(np.mean(pairs))
        references = Counter(candidates)
        assert expected_chrf(candidates, references) == pytest.approx(means, abs=3.0)
        lost.append(max(means) - means[best_by_chrf(candidates, references)])
    assert max(lost) < 0.5 and np.mean(lost) < 0.05


def test_what_a_choice_depends_on():
    """Identical candidates: the first. Another order: the same text. What is probable counts as
    much as it is probable."""
    assert best_by_chrf(["same"] * 5, {"same": 1}) == 0
    assert best_by_chrf(["", " "], {"": 1, " ": 1}) == 0
    random = np.random.default_rng(2)
    for _ in range(20):
        candidates = near_candidates(random)
        references = Counter(candidates)
        chosen = candidates[best_by_chrf(candidates, references)]
        reordered = list(random.permutation(candidates))
        assert reordered[best_by_chrf(reordered, references)] == chosen
        doubled = {text: 2 * count for text, count in references.items()}
        assert expected_chrf(candidates, doubled) == expected_chrf(candidates, references)
        references[candidates[3]] += 40
        assert candidates[best_by_chrf(candidates, references)] == candidates[3]


def test_a_candidate_counts_by_its_mean_log_probability_whatever_the_length_penalty(run):
    """p^(10 / |y|), computed here from forced decoding; a text that is drawn often counts once."""
    for alpha in (0.0, 0.6, 1.0):
        decode = replace(run.translator.decode, length_penalty=alpha)
        candidates = run.with_search({}, decode=decode).with_samples(12, seed=3)
        lines = [text for text in TEXTS if " " in text]  # the others are copied
        choices = candidates.with_choice().translate(lines, nbest=12)
        for plain, chosen in zip(candidates.translate(lines, nbest=12), choices, strict=True):
            weights = {}
            for each in plain.nbest:
                weights[each.text] = np.exp(10 * np.mean(each.log_probabilities))
            texts = [each.text for each in plain.nbest]
            assert chosen.text == texts[best_by_chrf(texts, weights)]
            others = [each for each in plain.nbest if each.text != chosen.text]
            with_copies = [*plain.nbest, *others[:1] * 40]
            assert texts[minimum_bayes_risk(1, with_copies)] == chosen.text


def test_the_chosen_translation_comes_first_and_the_others_keep_their_order(run, monkeypatch):
    """Among samples and among the beam."""
    for candidates in (run.with_samples(8), run.with_beam(4)):
        size = candidates.translator.num_hypotheses
        plain = candidates.translate(TEXTS, nbest=size)
        for translation, chosen in zip(
            plain, candidates.with_choice().translate(TEXTS, nbest=size), strict=True
        ):
            texts = [each.text for each in translation.nbest]
            best = minimum_bayes_risk(1, translation.nbest)
            wanted = [texts[best], *texts[:best], *texts[best + 1 :]]
            assert [each.text for each in chosen.nbest] == wanted
        references = [translation.nbest[-1].text for translation in plain]
        with monkeypatch.context() as patch:  # the references of later chunks, too
            patch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", 4)
            nearest = candidates.with_choice(references).translate(TEXTS)
        assert [translation.text for translation in nearest] == references


# The commands


def test_the_command_samples_and_says_how(trained, run, tmp_path, capfd, succeeds):
    source = tmp_path / "in.de"
    write_lines(source, TEXTS)
    words = ["translate", "tiny", "--runs", trained.runs, "--input", str(source)]
    sampling = "--samples 4 --temperature 0.8 --top-k 20 --top-p 0.9 --seed 7".split()
    sampled = (4, 0.8, 20, 0.9, 7)
    wanted = run.with_samples(*sampled).translate(TEXTS, nbest=4)
    answer = succeeds(*words, *sampling, "--nbest", "4")
    lines = []
    for translation in wanted:
        written = [f"{each.score:.4f}\t{each.text}" for each in translation.nbest]
        lines += written + ["-inf\t"] * (4 - len(written))
    assert answer.out.split("\n")[:-1] == lines
    answer = run_command(capfd, *words, *sampling, "--nbest", "4", "--format", "jsonl")
    for translation, line in zip(wanted, answer.out.splitlines(), strict=True):
        record = json.loads(line)
        assert record["sampling"] == asdict(Sampling(*sampled))
        if translation.alternatives:
            for each, of_record in zip(translation.nbest, record["nbest"], strict=True):
                assert of_record["text"] == each.text
                values = of_record["log_probabilities"]
                assert values == pytest.approx(each.searched, abs=1e-3)
    answer = run_command(capfd, *words, *sampling, "--choose", "mbr")
    chosen = run.with_samples(*sampled).with_choice().translate(TEXTS)
    assert answer.out.split("\n")[:-1] == [translation.text for translation in chosen]


def test_a_student_gets_the_hypothesis_nearest_to_the_reference(trained, run, tmp_path, succeeds):
    """By default both are the text that the run was trained on."""
    words = ["distil", "tiny", "--runs", trained.runs, "--choose", "reference"]
    succeeds(*words, "--output", str(tmp_path / "kd"))
    corpus = corpus_of(trained.root)
    sources = lines_of(corpus / "train.de")
    references = lines_of(corpus / "train.en")
    found = lines_of(tmp_path / "kd.en")
    nearest = run.with_choice(references).translate(sources)
    assert found == [translation.text for translation in nearest]


REFUSED = {
    "--samples 4 --temperature 0": "temperature=0",
    "--samples 4 --top-p 1.5": "--top-p",
    "--samples 4 --seed -1": "seed=-1",
    "--samples 4 --beam 5": "--beam",
    "--samples 4 --nbest 5": "--samples 5",
    "--samples 4 --engine ctranslate2": "--engine=ctranslate2",
    "--samples 4 --quantization int8": "--quantization",
    "--samples 4 --glossary GLOSSARY": "--glossary",
    "--choose mbr --glossary GLOSSARY": "--glossary",
    "--temperature 0.5": "--samples",
    "--top-k 5": "--samples",
    "--top-p 0.5": "--samples",
    "--seed 5": "--samples",
    "--choose best": "--choose",
    "--choose mbr --beam 1": "--samples N",
    "--choose mbr --samples 1": "--samples N",
    "--choose reference": "--reference",
    "--choose mbr --reference INPUT": "--choose=reference",
    "--choose reference --reference SHORT": "has 1 lines",
    "--choose reference --reference MISSING": "MISSING",
    "--document INPUT --samples 4": "--samples",
    "--document INPUT --choose mbr": "--choose",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_refused(trained, refused, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "INPUT").write_text("Hallo\nHallo\n", encoding="utf-8")
    (tmp_path / "SHORT").write_text("Hello\n", encoding="utf-8")
    (tmp_path / "GLOSSARY").write_text("Hut\that\n", encoding="utf-8")
    given = words.split()
    if "--document" not in given:
        given += ["--input", "INPUT"]
    assert REFUSED[words] in refused("translate", "tiny", "--runs", trained.runs, *given)


@pytest.mark.parametrize(
    ("option", "possible", "impossible"),
    [
        ("samples", [1, 10_000], [0, 10_001]),
        ("temperature", [0.01, 1e6], [0.0099, -1.0, math.nan, math.inf]),
        ("top_p", [1e-9, 1.0], [0.0, 1.0001, math.nan]),
        ("top_k", [1, None, 10**9], [0, -1]),
        ("seed", [0, 2**70], [-1]),
    ],
)
def test_an_option_is_possible_up_to_its_limits(option, possible, impossible):
    for value in possible:
        Sampling(**{"samples": 4, option: value})
    for value in impossible:
        with pytest.raises(UserError, match=option):
            Sampling(**{"samples": 4, option: value})


def test_python_refuses_the_same(run):
    with pytest.raises(UserError, match="beam"):
        run.with_samples(4).translate(TEXTS, beam=5)
    with pytest.raises(UserError, match="as many samples"):
        run.with_samples(4).translate(TEXTS, nbest=5)
    with pytest.raises(UserError, match="Line 2"):
        run.with_choice(["The only one."]).translate(["Ein Hut.", "Ein Hut."])
