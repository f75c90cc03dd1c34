"""Heatmaps, read back from the figure: where words, weights and marks are, and that no word can
break them."""

from itertools import combinations, pairwise

import matplotlib
import numpy as np
import pytest
from fontTools.ttLib import TTFont
from matplotlib import font_manager

from nmt.evaluate.alignment import cut_span
from nmt.view.curves import plot_curves
from nmt.view.heatmap import (
    CAPTION,
    COLORMAP,
    DASHES,
    DPI,
    GOLD,
    MARGIN,
    NUMBER_POINTS,
    WINDOW,
    grid,
    legend_handles,
    pixels,
)
from nmt.view.labels import BOX, MAX_LENGTH, find_fonts, make_label, warn_script

WEIGHTS = np.array([[0.94, 0.02, 0.04], [0.11, 0.01, 0.88], [0.03, 0.95, 0.02]])
SOURCE = ["I", "love", "you"]
TARGET = ["je", "t'", "aime"]


def heatmap(matrix: np.ndarray, source: list[str], target: list[str], title: str = "", **options):
    return grid({title: matrix}, source, target, columns=1, **options)


def corner(figure) -> tuple[float, float]:
    """The upper left corner of the cells in the image, in pixels from its own: the image is cut
    around all words."""
    cut = figure.get_tightbbox().padded(MARGIN)
    axes = figure.axes[0].get_window_extent()
    return cut.y1 * DPI - axes.y1, axes.x0 - cut.x0 * DPI


def cells(figure, image: np.ndarray, rows: int, columns: int, y: float, x: float) -> np.ndarray:
    """The colors at one point of every cell, in fractions of it from its upper left corner, [rows
    columns 3]."""
    size, (top, left) = figure.axes[0].get_window_extent(), corner(figure)
    down = top + (np.arange(rows) + y) * size.height / rows
    across = left + (np.arange(columns) + x) * size.width / columns
    return image[np.ix_(down.astype(int), across.astype(int))]


def test_the_worked_example_in_pixels():
    """I love you → je t' aime: the darkest cell of each row is (je, I), (t', you), (aime, love),
    with gold links.

    The first source word is left and above the cells, the first target word on top.
    """
    gold = ({(0, 0), (2, 1), (1, 2)}, {(0, 1)})
    # unlike the worked example, its transpose has other strong cells
    weights = np.roll(WEIGHTS, 1, axis=1)
    for matrix, darkest in ((WEIGHTS, [0, 2, 1]), (weights, [1, 0, 2])):
        figure = heatmap(matrix, SOURCE, TARGET, gold=gold)
        image = pixels(figure).astype(int)
        for y in (0.27, 0.73):  # above and below the number, inside of the outlines
            light = cells(figure, image, 3, 3, y=y, x=0.5).sum(-1)
            assert light.argmin(axis=1).tolist() == darkest
            assert (np.sort(light, axis=1)[:, 1] - light.min(axis=1) > 250).all()
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        assert axis.get_minorticklocs().tolist() == [-0.5, 0.5, 1.5, 2.5]  # lines between cells
    inside = figure.axes[0].get_window_extent()
    above = [text.get_window_extent() for text in figure.axes[0].get_xticklabels()]
    left = [text.get_window_extent() for text in figure.axes[0].get_yticklabels()]
    assert all(box.y0 >= inside.y1 for box in above) and above[0].x0 < above[1].x0 < above[2].x0
    assert all(box.x1 <= inside.x0 for box in left) and left[0].y0 > left[1].y0 > left[2].y0


def has(colors: np.ndarray, name: str) -> np.ndarray:
    """Where the color is nearly the named one."""
    return np.abs(colors - 255 * np.array(matplotlib.colors.to_rgb(name))).max(-1) < 70


def test_gold_links_are_outlined_where_they_are():
    """Two sure links and a possible one, unlike under transposition: outlines there and nowhere
    else, ink left."""
    weights = np.full((3, 4), 0.25)
    figure = heatmap(weights, [*SOURCE, "</s>"], TARGET, gold=({(3, 0), (1, 2)}, {(3, 0), (0, 1)}))
    image = pixels(figure).astype(int)
    sure, possible = (np.zeros((3, 4), dtype=bool) for _ in range(2))
    sure[0, 3] = sure[2, 1] = possible[1, 0] = True

    def has_gold(inset: float) -> np.ndarray:
        """Whether any of a few points at the left edge has the color of gold."""
        return np.any(
            [
                has(cells(figure, image, 3, 4, y=0.5 + y, x=inset), GOLD)
                for y in np.linspace(-0.2, 0.2, 9)
            ],
            axis=0,
        )

    assert (has_gold(0.07) == sure).all()
    assert (has_gold(0.19) == possible).all()
    # also without color: those of possible links are dashed, on the figure and in its legend
    drawn = [square.get_linestyle() for square in figure.axes[0].patches]
    assert sorted(style == DASHES for style in drawn) == [False, False, True]
    samples = [sample.get_linestyle() for sample in legend_handles(["sure link", "possible link"])]
    assert [style == DASHES for style in samples] == [False, True]
    ink = 255 * np.array(matplotlib.colormaps[COLORMAP](0.25)[:3])
    assert np.abs(cells(figure, image, 3, 4, y=0.3, x=0.5) - ink).max() <= 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "sure link",
        "possible link",
    ]


def test_a_window_is_drawn_around_its_words_and_p_t_below_its_number():
    """Row 0 sees words 1 to 2 with p_t = 1.5, row 1 nothing special, row 2 words 0 to 3 with p_t =
    3."""
    window_spans = [(1.5, 1, 2), None, (3, 0, 3)]
    figure = heatmap(np.full((3, 4), 0.25), ["a", "b", "c", "d"], TARGET, window_spans=window_spans)
    image = has(pixels(figure).astype(int), WINDOW)
    (top, left), step = corner(figure), figure.axes[0].get_window_extent().width / 4

    def edges(row: int) -> list[float]:
        """The borders of columns that are dark at a quarter of the row's height."""
        line = image[int(top + (row + 0.25) * step)]
        return [edge for edge in range(5) if line[int(left + edge * step) - 2 :][:4].any()]

    assert [edges(row) for row in range(3)] == [[1, 3], [], [0, 4]]

    def arrows(row: int) -> np.ndarray:
        """Where, in columns, the lowest fifth of a row is dark."""
        low = image[int(top + (row + 0.8) * step) : int(top + (row + 0.86) * step)].any(axis=0)
        columns = (np.flatnonzero(low) - left) / step - 0.5
        return columns[(columns > -0.6) & (columns < 3.6)]  # the color bar is dark, too

    assert not arrows(1).size
    assert np.abs(arrows(0) - 1.5).min() < 0.05 and np.abs(arrows(2) - 3).min() < 0.05
    assert np.abs(arrows(0) - 2).min() > 0.3 and np.abs(arrows(2) - 2).min() > 0.3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "window",
        "its centre pₜ",
    ]
    brackets = [line.get_xdata() for line in figure.axes[0].lines if line.get_marker() == "None"]
    inwards = [pytest.approx(0.12, abs=0.1), pytest.approx(-0.12, abs=0.1)]
    assert [ends[0] - ends[1] for ends in brackets] == inwards * 2


@pytest.mark.parametrize(
    ("span", "columns", "drawn"),
    [
        ((1.5, 1, 2), 4, (1.5, 1, 2)),
        ((1.5, 0, 3), 3, (1.5, 0, 2)),  # to the right edge of the last word
        ((2.4, 1, 3), 3, (2.4, 1, 2)),
        ((2.6, 2, 3), 3, None),  # its centre is not drawn
        (None, 3, None),
    ],
)
def test_a_window_ends_with_the_words_that_are_drawn(span, columns, drawn):
    assert cut_span(span, columns) == drawn


def test_shapes_and_marks_must_match_the_words():
    for gold in (({(3, 0)}, set()), (set(), {(0, 3)}), ({(-1, 0)}, set())):
        with pytest.raises(ValueError, match="outside 3 target, 3 source words"):
            heatmap(WEIGHTS, SOURCE, TARGET, gold=gold)
    with pytest.raises(ValueError, match="2 windows do not fit 3"):
        grid({"m": WEIGHTS}, SOURCE, TARGET, window_spans=[None, None])
    for matrices in ({"m": np.ones((2, 3))}, {"m": np.ones((3, 4))}, {}):
        with pytest.raises(ValueError, match="do not fit"):
            grid(matrices, SOURCE, TARGET)


LINE = (
    "the old woman who lives near the river has never seen a Donaudampfschifffahrtsgesellschaft in "
    "her garden".split()
)


def labels(axis, opposite: bool = False) -> list:
    """The words drawn along one axis: above or left, or on the opposite side."""
    ticks = axis.get_major_ticks()
    first = "label2" if axis.axis_name == "x" else "label1"
    second = {"label1": "label2", "label2": "label1"}[first]
    texts = [getattr(tick, second if opposite else first) for tick in ticks]
    return [text for text in texts if text.get_visible()]


@pytest.mark.parametrize("is_cut", [True, False], ids=["short words", "long words"])
@pytest.mark.parametrize(
    ("count", "heads"), [(3, 1), (8, 1), (8, 4), (12, 1), (12, 4), (20, 1), (28, 1)]
)
def test_words_can_be_read_at_any_length(count, heads, is_cut):
    """Letters of 7 points or more, no word on another, in a figure of bounded size.

    Where words are short, letters can also be read in a picture of 500 pixels, as on TensorBoard's
    cards. Above 25 words they stand on both sides of a single matrix.
    """
    words = [LINE[number % len(LINE)][: 12 if is_cut else None] for number in range(count)]
    source = [*words[:-1], "</s>"]
    matrix = np.full((count, count), 0.1)
    title = "layer 5, mean of all heads, $5" if count > 3 else "$5"
    if heads == 1:
        marked = {"gold": ({(0, 0)}, set()), "window_spans": [(0.0, 0.0, 1)] * count}
        figure = heatmap(matrix, source, words, title, target_name="reference", **marked)
    else:
        panels = {f"head {number}": matrix for number in range(heads)}
        figure = grid(panels, source, words, target_name="reference")
    figure.draw_without_rendering()
    assert max(figure.get_size_inches()) < 60
    assert any(CAPTION in text.get_text() for text in figure.texts)
    apart = [axes.get_tightbbox() for axes in figure.axes]
    apart += [each.get_window_extent() for each in (*figure.texts, *figure.legends)]
    for one, other in combinations(apart, 2):
        assert not one.shrunk(0.99, 0.95).overlaps(other)
    scale = 5 / (figure.get_tightbbox().width + 2 * MARGIN)
    for number, axes in enumerate(each for each in figure.axes if each.images):
        cells_box = axes.get_window_extent()
        names = [axes._left_title, axes.xaxis.label, axes.yaxis.label]
        wanted = ["" if number > 1 else "source", "" if number % 2 else "reference"]
        assert [name.get_text() for name in names[1:]] == wanted
        for axis in (axes.xaxis, axes.yaxis):
            for is_opposite in (False, True):
                found = labels(axis, is_opposite)
                assert bool(found) == (not is_opposite or (heads == 1 and count > 25))
                assert all(word.get_fontsize() >= 7 for word in found)
                assert not is_cut or all(word.get_fontsize() * scale > 5.4 for word in found)
                boxes = [word.get_window_extent() for word in found]
                boxes.sort(key=lambda box: (box.x0, box.y0))
                for left, right in pairwise(boxes):
                    assert not left.shrunk(0.95, 0.8).overlaps(right.shrunk(0.95, 0.8))
                for box in boxes:
                    assert not box.shrunk(1, 0.9).overlaps(cells_box)
                    if not is_opposite:
                        assert not any(name.get_window_extent().overlaps(box) for name in names)
        assert not is_cut or all(
            each.get_fontsize() * scale > 5.4 for each in [*names, *axes.texts]
        )


@pytest.mark.parametrize("shape", [(1, 12), (2, 6), (6, 2), (12, 1), (12, 6), (6, 12), (13, 2)])
def test_numbers_are_where_the_narrowest_card_shows_them(shape):
    """Of 335 pixels, by the width of the picture alone, in a matrix with large cells."""
    rows, columns = shape
    figure = heatmap(np.full(shape, 0.1), ["word"] * columns, ["a word that is long"] * rows)
    width = figure.get_tightbbox().width + 2 * MARGIN
    is_numbered = NUMBER_POINTS * 3.35 / width >= 6 and max(shape) <= 12
    numbers = [text.get_text() for text in figure.axes[0].texts]
    assert numbers == [".10"] * (is_numbered * rows * columns)


@pytest.mark.parametrize("shape", [(3, 5), (700, 2), (2, 900)])
def test_a_name_stands_at_its_own_row_or_column(shape):
    """Also where cells are too small for each of them to be named."""
    rows, columns = shape
    sources = [f"s{number}" for number in range(columns)]
    targets = [f"t{number}" for number in range(rows)]
    figure = heatmap(np.full(shape, 0.1), sources, targets)
    for axis, words in ((figure.axes[0].xaxis, sources), (figure.axes[0].yaxis, targets)):
        places = axis.get_majorticklocs().astype(int)
        assert [text.get_text() for text in labels(axis)] == [words[at] for at in places]
        assert len(places) > len(words) / 8


STRANGE = {
    "$x^2$": "$x^2$",
    "$\\frac{$": "$\\frac{$",
    "bad\udce2": "bad\ufffd",
    "\x00\x07": "∅",
    "\u200b": "∅",
    "a\u200bb\u200d": "ab",
    "می\u200cخواهم": "می\u200cخواهم",
    "a\tb\nc": "a b c",
    "x" * 500: "x" * (MAX_LENGTH - 1) + "…",
    "": "∅",
    "<b>": "<b>",
}


def test_strange_words_change_nothing_but_their_label():
    strange, plain = (
        heatmap(np.eye(11), words, ["w"] * 11) for words in ([*STRANGE], ["word"] * 11)
    )
    assert [text.get_text() for text in strange.axes[0].get_xticklabels()] == [*STRANGE.values()]
    assert strange.axes[0].get_window_extent().size == pytest.approx(
        plain.axes[0].get_window_extent().size
    )
    assert not any(text.get_parse_math() for text in strange.axes[0].get_xticklabels())


@pytest.fixture
def no_fonts(monkeypatch):
    """As on a machine that has no font but matplotlib's own; warnings can be read."""
    monkeypatch.setattr("nmt.view.labels.FALLBACKS", ())
    for cache in (caches := (find_fonts, warn_script)):
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_missing_letters_become_boxes_with_one_warning_for_each_script(no_fonts, caplog):
    assert find_fonts(frozenset("cat猫がкот"))[1] == {"猫", "が"}
    figure = heatmap(np.eye(2), ["猫", "है"], ["cat", "кот"])
    heatmap(np.eye(2), ["が。", "犬"], ["cat", "हैं"])
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == [BOX, BOX * 2]
    hindi, japanese = sorted((record.message for record in caplog.records), key=len)
    assert "Japanese" in japanese and "fonts-noto-cjk" in japanese
    assert "Devanagari" in hindi and "fonts-noto-core" in hindi


def test_a_font_is_found_that_was_installed_after_matplotlib_made_its_list(
    no_fonts, monkeypatch, tmp_path
):
    """The list of fonts is a file, so that another process has it, too."""
    font = TTFont(font_manager.findfont("DejaVu Sans"))
    for table in font["cmap"].tables:
        if table.isUnicode():
            table.cmap[ord("猫")] = "A"
    for record in font["name"].names:
        if record.nameID in (1, 16):
            font["name"].setName(
                "Newly Installed", record.nameID, record.platformID, record.platEncID, record.langID
            )
    font.save(tmp_path / "new.ttf")
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    monkeypatch.setattr("nmt.view.labels.FALLBACKS", ("Newly",))
    monkeypatch.setattr(
        font_manager, "findSystemFonts", lambda: [str(path) for path in tmp_path.iterdir()]
    )
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*font_manager.fontManager.ttflist])
    assert find_fonts(frozenset("cat猫")) == (["DejaVu Sans", "Newly Installed"], frozenset())


def test_an_old_matplotlib_gets_reversed_words(monkeypatch):
    for version, wanted in (((3, 11, 0), ["חתול", "cat"]), ((3, 10, 9), ["לותח", "cat"])):
        monkeypatch.setattr(matplotlib, "__version_info__", version)
        assert [make_label(word, set()) for word in ("חתול", "cat")] == wanted


def test_words_of_a_small_picture_lie_flat():
    figure = heatmap(WEIGHTS, ["children"] * 3, TARGET)
    assert {label.get_rotation() for label in figure.axes[0].get_xticklabels()} == {0}


def test_grid_shows_every_head():
    figure = grid(
        {f"head {number}": np.full((3, 3), number / 10) for number in range(5)}, SOURCE, TARGET
    )
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title(loc="left") for axes in panels] == [
        f"head {number}" for number in range(5)
    ]
    assert [axes.images[0].get_array()[0, 0] for axes in panels] == [0, 0.1, 0.2, 0.3, 0.4]
    # as one reads, in rows of two
    places = [(-axes.get_position().y0, axes.get_position().x0) for axes in panels]
    assert places == sorted(places)
    assert len({y for y, _ in places}) == 3 and len({x for _, x in places}) == 2


def test_curves_differ_in_more_than_their_color():
    """Each has its values, and the legend names them in the order of their right ends."""
    values = [[number % 7, number * 5 % 19] for number in range(18)]
    curves = {f"_run{number}": row for number, row in enumerate(values)}
    figure = plot_curves(curves, {"1–5": 30, "$6–10$": 40}, "title $")
    (axes,) = figure.axes
    lines = axes.get_lines()
    assert [list(line.get_ydata()) for line in lines] == values
    assert [list(line.get_xdata()) for line in lines] == [[0, 1]] * len(values)
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 18
    assert len({line.get_marker() for line in lines}) == 12
    assert axes.get_title(loc="left") == "title $"
    named = [text.get_text() for text in axes.get_xticklabels()]
    assert named == ["1–5\nn = 30", "$6–10$\nn = 40"] and list(axes.get_xticks()) == [0, 1]
    (legend,) = figure.legends
    handles = zip(legend.get_lines(), legend.get_texts(), strict=True)
    named = {text.get_text().strip(): line.get_color() for line, text in handles}
    assert named == dict(zip(curves, [line.get_color() for line in lines], strict=True))
    ends = [curves[name][-1] for name in named]
    assert ends == sorted(ends, reverse=True)
    figure.draw_without_rendering()
