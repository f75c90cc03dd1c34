"""Pictures of attention, read back from the figure: what stands where, and that no word can break them."""

import io
import logging

import numpy as np
import pytest
from PIL import Image

from nmt.view.heatmap import CAPTION, grid, heatmap, missing_glyphs, pixels, png
from nmt.view.labels import BOX, LONGEST, fonts, label, warn_script

WEIGHTS = np.array([[0.94, 0.02, 0.04], [0.11, 0.01, 0.88], [0.03, 0.95, 0.02]])
SOURCE, TARGET = ["I", "love", "you"], ["je", "t'", "aime"]


def names(axis) -> dict[int, str]:
    return {
        round(place): text.get_text() for place, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    }


def test_the_worked_example():
    """I love you → je t' aime: the strong cells are (je, I), (t', you), (aime, love)."""
    axes = heatmap(WEIGHTS, SOURCE, TARGET).axes[0]
    columns, rows = names(axes.xaxis), names(axes.yaxis)
    image = axes.images[0].get_array()
    strong = {(rows[row], columns[column]) for row, column in zip(*np.nonzero(image > 0.5), strict=True)}
    assert strong == {("je", "I"), ("t'", "you"), ("aime", "love")}
    assert {text.get_text() for text in axes.texts} == {f"{weight:.2f}" for weight in WEIGHTS.flat}


def test_words_stand_where_they_are_read():
    """In the pixels: the first source word is left and above the cells, the first target word on top."""
    weights = np.roll(np.eye(3), 1, axis=1)  # unlike the worked example, its transpose has other strong cells
    figure = heatmap(weights, SOURCE, TARGET)
    picture = pixels(figure).astype(int)
    height, width, _ = picture.shape
    axes = figure.axes[0]
    corner = axes.get_window_extent()
    step = corner.width / 3

    def dark(row: int, column: int) -> bool:
        # Near a corner of the cell, away from its number.
        y, x = height - corner.y1 + (row + 0.15) * step, corner.x0 + (column + 0.15) * step
        return picture[int(y), int(x)].sum() < 300

    assert [[dark(row, column) for column in range(3)] for row in range(3)] == (weights > 0).tolist()
    assert corner.width == pytest.approx(corner.height)
    above = [text.get_window_extent() for text in axes.get_xticklabels()]
    beside = [text.get_window_extent() for text in axes.get_yticklabels()]
    assert all(box.y0 >= corner.y1 for box in above) and above[0].x0 < above[1].x0 < above[2].x0
    assert all(box.x1 <= corner.x0 for box in beside) and beside[0].y0 > beside[1].y0 > beside[2].y0


def inside(figure) -> bool:
    """Whether every text lies in the picture."""
    pixels(figure)
    box = figure.bbox
    texts = [text for axes in figure.axes for text in (*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title)]
    extents = [text.get_window_extent() for text in texts + figure.texts if text.get_text()]
    return all(e.x0 >= 0 and e.y0 >= 0 and e.x1 <= box.x1 and e.y1 <= box.y1 for e in extents)


def test_forty_words_stay_readable():
    words = [f"word{number}" for number in range(39)] + ["Donaudampfschiff"]
    figure = heatmap(np.full((38, 40), 0.025), words, words[-38:], title="a title of some length")
    axes = figure.axes[0]
    assert inside(figure)
    assert not axes.texts  # no numbers
    assert {text.get_rotation() for text in axes.get_xticklabels()} == {90.0}
    boxes = [text.get_window_extent() for text in axes.get_xticklabels()]
    assert all(left.x1 <= right.x0 for left, right in zip(boxes, boxes[1:], strict=False))
    boxes = [text.get_window_extent() for text in axes.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 - 1 for upper, lower in zip(boxes, boxes[1:], strict=False))


def test_a_huge_matrix_stays_drawable():
    figure = heatmap(np.zeros((1000, 3)), ["a", "b", "c"], ["w"] * 1000)
    assert max(figure.get_size_inches()) < 45


def test_the_scale_is_fixed_and_the_caption_is_there():
    figure = heatmap(np.full((2, 2), 0.1), ["a", "b"], ["c", "d"], title="layer 5, mean of all heads, step $5")
    assert figure.axes[0].images[0].get_clim() == (0, 1)
    assert CAPTION in [text.get_text() for text in figure.texts]
    assert figure.axes[0].get_title(loc="left") == "layer 5, mean of all heads, step $5"
    assert inside(figure)


STRANGE = [
    "$x^2$",
    "$",
    "$\\frac{$",
    "bad\udce2",
    "\x00\x07",
    "\u200b",
    "a\u200b\u200db",
    "a\tb\nc",
    "x" * 500,
    "",
    "<b>",
    "🙂",
]


def test_strange_words_change_nothing_but_their_label():
    strange, plain = (heatmap(np.eye(12), words, ["w"] * 12) for words in (STRANGE, ["word"] * 12))
    shown = [text.get_text() for text in strange.axes[0].get_xticklabels()]
    assert shown[:8] == ["$x^2$", "$", "$\\frac{$", "bad\ufffd", "∅", "∅", "ab", "a b c"]
    assert shown[8] == "x" * (LONGEST - 1) + "…" and shown[9:11] == ["∅", "<b>"]
    assert inside(strange)
    assert strange.axes[0].get_window_extent().size == pytest.approx(plain.axes[0].get_window_extent().size)
    assert not any(text.get_parse_math() for text in strange.axes[0].get_xticklabels())


def test_missing_letters_become_boxes_and_are_told_once(monkeypatch, caplog):
    """As on a machine that has no font but matplotlib's own."""
    monkeypatch.setattr("nmt.view.labels.FALLBACKS", ())
    monkeypatch.setattr(logging.getLogger("nmt"), "propagate", True)
    for cache in (fonts, warn_script):
        cache.cache_clear()
    assert missing_glyphs(["cat", "猫が", "кот"]) == {"猫", "が"}
    figure = heatmap(np.eye(2), ["猫", "が"], ["cat", "кот"])
    heatmap(np.eye(2), ["猫", "犬"], ["cat", "кот"])
    fonts.cache_clear()
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == [BOX, BOX]
    said = [record.message for record in caplog.records]
    assert len(said) == 2 and "CJK" in said[0] and "HIRAGANA" in said[1]


def test_right_to_left_words_are_drawn():
    assert missing_glyphs(["القطة", "חתול"]) == set()
    assert inside(heatmap(np.eye(2), ["القطة", "نائمة"], ["חתול", "ישן"]))


def test_label_keeps_plain_words():
    assert label("don't", set()) == "don't" and label("é", set()) == "é"


def test_grid_shows_every_head():
    matrices = [np.full((3, 3), number / 10) for number in range(5)]
    figure = grid(matrices, SOURCE, TARGET)
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title(loc="left") for axes in panels] == [f"head {number}" for number in range(1, 6)]
    assert [axes.images[0].get_array()[0, 0] for axes in panels] == [0, 0.1, 0.2, 0.3, 0.4]
    assert inside(figure)


def test_shapes_must_fit():
    for matrix in (np.ones((2, 3)), np.ones((3, 4))):
        with pytest.raises(ValueError, match="do not fit"):
            heatmap(matrix, SOURCE, TARGET)
    with pytest.raises(ValueError, match="do not fit"):
        grid([], SOURCE, TARGET)


def test_png_and_pixels_are_the_same_picture():
    figure = heatmap(WEIGHTS, SOURCE, TARGET)
    picture = pixels(figure)
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png(figure))).convert("RGB")), picture)
