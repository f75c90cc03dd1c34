"""BLEU and chrF: numbers worked out by hand, signatures, and what users of other toolkits get wrong."""

import json
from math import exp

import pytest

from nmt.errors import UserError
from nmt.evaluate.bleu_chrf import score, tokenization_warning, tokenizer_for
from nmt.evaluate.compositional_gap import compositional_gap
from nmt.evaluate.significance import paired_bootstrap
from nmt.runs.results import write_result


def test_identical_text_scores_100():
    lines = ["The cat sat on the mat.", "It's 3.50, isn't it?"]
    result = score(lines, lines)
    assert (result["bleu"], result["chrf"], result["sentences"]) == (pytest.approx(100), pytest.approx(100), 2)


def test_bleu_by_hand():
    # Six words, the last one wrong: precisions 5/6, 4/5, 3/4, 2/3, product 1/3, no brevity penalty.
    assert score(["a b c d e x"], ["a b c d e f"])["bleu"] == pytest.approx(100 * (1 / 3) ** 0.25)
    # Four of five words: all precisions 1, brevity penalty exp(1 − 5/4).
    assert score(["a b c d"], ["a b c d e"])["bleu"] == pytest.approx(100 * exp(-0.25))


def test_text_is_raw():
    """13a cuts the full stop off by itself, so raw and spaced text agree, and case counts."""
    assert score(["The cat sat there ."], ["The cat sat there."])["bleu"] == pytest.approx(100)
    assert score(["the cat sat there."], ["The cat sat there."])["bleu"] < 90


def test_signatures_name_the_options():
    result = score(["a"], ["a"])
    assert result["bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.")
    assert result["chrf_signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.")


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("de", "13a"),
        ("zh", "zh"),
        ("zh_CN", "zh"),
        ("ZH-tw", "zh"),
        ("ja", "char"),
        ("ko", "char"),
        ("zho_Hans", "zh"),
        ("yue_Hant", "zh"),
        ("jpn_Jpan", "char"),
        ("tha", "char"),
        ("deu_Latn", "13a"),
    ],
)
def test_languages_without_spaces_have_their_tokenizer(language, tokenizer):
    assert tokenizer_for(language) == tokenizer
    assert f"|tok:{tokenizer}|" in score(["東京都"], ["東京都"], language)["bleu_signature"]


def test_japanese_is_more_than_one_word():
    # 5 of 6 characters as above; with 13a the sentence would be one wrong word.
    assert score(["私は猫が犬"], ["私は猫が好"], "ja")["bleu"] == pytest.approx(
        100 * (4 / 5 * 3 / 4 * 2 / 3 / 2) ** 0.25
    )
    assert score(["私は猫が犬"], ["私は猫が好"], "en")["bleu"] < 1


def noisy(lines, every):
    """Lines of which one of so many has a wrong word."""
    return [line.replace(" d ", " x ") if number % every == 0 else line for number, line in enumerate(lines)]


def test_the_compositional_gap_is_a_difference_of_independent_scores():
    """The score of each set is sacreBLEU's; squares of half-widths of independent samples add up."""
    references = [f"a b c d e {number % 7} g h" for number in range(300)]
    seen, unseen = noisy(references, 20), noisy(references, 3)[:200]
    sets = (seen, references), (unseen, references[:200])
    gap = compositional_gap(*sets)
    scores = [score(*each)["bleu"] for each in sets]
    assert gap.gap == pytest.approx(scores[0] - scores[1])
    half_widths = [paired_bootstrap([each[0]], each[1]).intervals["bleu"][0].half_width for each in sets]
    assert (gap.high - gap.low) / 2 == pytest.approx(sum(width**2 for width in half_widths) ** 0.5, rel=0.15)
    assert gap.low < gap.gap < gap.high and gap == compositional_gap(*sets)
    assert compositional_gap(sets[0], sets[0]).low < 0 < compositional_gap(sets[0], sets[0]).high
    with pytest.raises(UserError, match="empty"):
        compositional_gap(sets[0], ([], []))
    with pytest.raises(UserError, match="1 translations .* 2 references"):
        compositional_gap((["a"], ["a", "b"]), sets[1])


def test_lines_must_match():
    with pytest.raises(UserError, match="2 translations .* 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(UserError, match="empty"):
        score([], [])


@pytest.mark.parametrize("line", ["A man sleeps .", "Well , he &apos;s here", "a well @-@ known man"])
def test_moses_tokenization_is_noticed(line):
    warning = tokenization_warning([line] * 2 + ["A man sleeps."])
    assert warning is not None and "2 of 3" in warning and line[:10] in warning


@pytest.mark.parametrize(
    "line", ["A man sleeps.", "Il dort, non ?", "Cost: .5 or ,5 percent", "Nun ... gut", "AT&T says: me@home-alone"]
)
def test_raw_text_is_not_suspected(line):
    assert tokenization_warning([line] * 3) is None
    assert tokenization_warning([line] * 9 + ["An odd one ."]) is None
    assert tokenization_warning([]) is None


def test_results_are_written_atomically(tmp_path):
    folder = tmp_path / "run" / "test"
    path = write_result(folder, ["Ein Hund.", "zwei\nZeilen", ""], {"bleu": 1.5, "of": "größte"})
    written = json.loads(path.read_text(encoding="utf-8"))
    assert {"bleu": 1.5, "of": "größte"}.items() <= written.items() and len(written) == 4  # and two checksums
    assert (folder / "hyp").read_text(encoding="utf-8") == "Ein Hund.\nzwei Zeilen\n\n"
    with pytest.raises(TypeError):
        write_result(folder, ["new"], {"bad": object()})
    assert json.loads(path.read_text(encoding="utf-8"))["bleu"] == 1.5
    assert sorted(entry.name for entry in folder.iterdir()) == [".lock", "hyp", "result.json"]
