"""TensorBoard files read back with TensorBoard's own reader, and progress on stderr."""

import contextlib
import html
import io
import logging
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from corpora import lines_of
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from nmt.errors import UserError
from nmt.view import progress
from nmt.view.heatmap import grid, pixels
from nmt.view.progress import Progress, install_logging, log_file
from nmt.view.tensorboard import TensorBoardLogger, translation_table


def read(folder) -> EventAccumulator:
    return EventAccumulator(
        str(folder), size_guidance={"scalars": 0, "tensors": 0, "images": 0}
    ).Reload()


def curve(folder, tag: str) -> list[tuple[int, float]]:
    return [(event.step, round(event.value, 4)) for event in read(folder).Scalars(tag)]


def test_everything_can_be_read_back(tmp_path):
    logger = TensorBoardLogger(tmp_path)
    figure = grid({"": np.eye(2)}, ["a", "b"], ["c", "d"])
    logger.scalars({"loss/train": 3.25, "lr": 0.5}, 7)
    logger.table("translations", [("ein Hund", "a dog", "a cat")], 7)
    logger.figure("attention/0", figure, 7)
    settings = {"model.hidden_size": 512, "tie": True, "betas": [0.9], "max": None, "name": "x"}
    logger.hyperparameters(settings, {"test/bleu": 31.5})
    logger.close()
    assert curve(tmp_path, "loss/train") == [(7, 3.25)]
    assert curve(tmp_path, "test/bleu") == [(0, 31.5)]
    events = read(tmp_path)
    text = events.Tensors("translations/text_summary")[0].tensor_proto.string_val[0].decode()
    assert text.splitlines()[2] == "| ein Hund | a dog | a cat |"
    image = Image.open(io.BytesIO(events.Images("attention/0")[0].encoded_image_string))
    np.testing.assert_array_equal(np.asarray(image), pixels(figure))
    assert [path.is_file() for path in tmp_path.iterdir()] == [True]  # no run within the run
    start, experiment = (
        plugin_data_pb2.HParamsPluginData.FromString(
            events.SummaryMetadata(f"_hparams_/{tag}").plugin_data.content
        )
        for tag in ("session_start_info", "experiment")
    )
    hparams = start.session_start_info.hparams
    assert hparams["model.hidden_size"].number_value == 512 and hparams["name"].string_value == "x"
    assert hparams["betas"].string_value == "[0.9]" and hparams["max"].string_value == "None"
    assert [metric.name.tag for metric in experiment.experiment.metric_infos] == ["test/bleu"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by TensorBoard's own imports
def test_tensorboard_renders_a_cell_as_text():
    from tensorboard.plugin_util import markdown_to_safe_html

    texts = ("a|b", "*c* _d_ `e` [f](g) \\#", "<b>h</b> &amp;")
    page = markdown_to_safe_html(translation_table([texts]))
    assert "<b>" not in page
    assert tuple(map(html.unescape, re.findall("<td>(.*?)</td>", page))) == texts


@pytest.fixture
def logger_nmt():
    """Logger `nmt` as the command line sets it up."""
    install_logging()
    return logging.getLogger("nmt")


def test_on_a_terminal_log_lines_are_above_the_bar(logger_nmt, monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(10, "step", "training", start=4) as bar:
        bar.update(3, {"loss": 3.0})
        logger_nmt.info("validation: BLEU 12")
        logger_nmt.debug("not shown")
    lines = [line.split("\r")[-1].strip() for line in screen.getvalue().split("\n")]
    assert "validation: BLEU 12" in lines
    assert "7/10" in screen.getvalue() and "loss 3" in screen.getvalue()
    assert "not shown" not in screen.getvalue()


@pytest.mark.parametrize(
    ("total", "start", "count", "line"),
    [
        (10, 4, 3, "training: 7/10 step, 1.5 step/s, 00:02 left, loss 3.142"),
        (None, 0, 2, "training: 2 step, 1 step/s, loss 3.142"),
        (10, 0, 0, "training: 0/10 step, 0 step/s, loss 3.142"),
        (2, 0, 3, "training: 3/2 step, 1.5 step/s, 00:00 left, loss 3.142"),
    ],
)
def test_without_a_terminal_a_line_comes_now_and_then(
    logger_nmt, monkeypatch, capsys, total, start, count, line
):
    """By hand, after 2 seconds; the next one comes 2 seconds later."""
    now = 0.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(progress, "LOG_INTERVAL", 2)
    with Progress(None, "step", "training", start=start) as bar:
        if total:
            bar.set_total(total)
        for now, shown in ((2.0, [line]), (3.9, []), (4.0, [bar.description])):
            bar.update(count if now == 2 else 0, {"loss": 3.14159})
            found = capsys.readouterr().err.splitlines()
            assert [text[: len(name)] for text, name in zip(found, shown, strict=True)] == shown


@pytest.mark.parametrize("error", [None, UserError("too\nmuch"), KeyboardInterrupt()])
def test_a_log_file_says_how_the_work_ended(logger_nmt, tmp_path, error):
    path = tmp_path / "log"
    path.write_text("before\n")
    handlers = list(logger_nmt.handlers)
    with contextlib.suppress(UserError, KeyboardInterrupt), log_file(path):
        logger_nmt.info("in the middle")
        if error:
            raise error
    logger_nmt.info("after")
    lines = lines_of(path)
    assert lines[0] == "before" and "begins" in lines[1]
    assert lines[2].endswith("in the middle")
    wanted = {None: "ended", UserError: "too", KeyboardInterrupt: "ended by KeyboardInterrupt"}
    assert lines[3].endswith(wanted[type(error) if error else None])
    has_traceback = any("Traceback" in line for line in lines)
    assert has_traceback == isinstance(error, KeyboardInterrupt) and "after" not in lines[-1]
    assert logger_nmt.handlers == handlers
    install_logging()
    assert logger_nmt.handlers == handlers
    with pytest.raises(UserError, match="Cannot write"), log_file(tmp_path / "none/log"):
        pass


def test_a_log_file_may_name_a_file_that_is_not_utf8(logger_nmt, tmp_path, monkeypatch):
    # Without pytest's and other handlers: processes of tests cannot exchange what these keep
    monkeypatch.setattr(logger_nmt, "propagate", False)
    monkeypatch.setattr(logger_nmt, "handlers", [])
    path = tmp_path / "log"
    with log_file(path):
        logger_nmt.info("of caf\udce9.de")
    assert r"of caf\udce9.de" in path.read_text(encoding="utf-8")


def test_a_file_comes_after_those_that_are_there(tmp_path):
    """Of the same second, or of a machine whose clock is fast; scores are there once."""
    (tmp_path / "events.out.tfevents.9000000000.x").write_bytes(b"")
    names = []
    for make in (TensorBoardLogger, TensorBoardLogger.for_scores, TensorBoardLogger.for_scores):
        logger = make(tmp_path)
        logger.flush()
        logger.close()
        names.append(logger.path.name.split(".")[3])
    assert names == ["9000000001", "9000000002", "9000000002"]
    assert len(list(tmp_path.iterdir())) == 3
    logger.path.unlink()
    logger = TensorBoardLogger(tmp_path)
    logger.path.unlink()
    with pytest.raises(UserError, match="deleted"):
        logger.flush()
    logger.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write"):
        TensorBoardLogger(tmp_path / "file")
