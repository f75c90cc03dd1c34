"""nmt export --format onnx, beyond float32: int8 of each kind of layer, the shapes in model.json, an ensemble."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import VOCABULARY, small_config

from nmt.convert.onnx_folder import OnnxExport, shapes, write_graph
from nmt.convert.onnx_graphs import EncoderGraph, export_graphs
from nmt.errors import UserError
from nmt.models.build import build
from nmt.models.ensemble import Ensemble

KINDS = ["bahdanau", "luong_local_p", "transformer", "transformer_delta"]  # a GRU, an LSTM, neither, a loop


def small(name: str):
    torch.manual_seed(1)
    return build(small_config(name, ()), VOCABULARY, VOCABULARY, True).eval().requires_grad_(False)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_int8_is_near_the_model_and_shapes_are_named(name, tmp_path):
    """The memory within 5 % of its largest value: int8 rounds by 1/254 of a column's, a few layers add it up."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = small(name)
    graphs = export_graphs(model)
    write_graph(graphs.encoder, tmp_path / "encoder.onnx", "int8")
    write_graph(graphs.decoder, tmp_path / "decoder.onnx", "int8")
    for part in ("encoder", "decoder"):
        opened = onnxruntime.InferenceSession(str(tmp_path / f"{part}.onnx"))
        named = shapes(getattr(graphs, part).graph)
        assert set(named) == {each.name for each in (*opened.get_inputs(), *opened.get_outputs())}
        for each in opened.get_inputs():
            assert named[each.name] == each.shape
    assert named["ids"] == ["K", 1] and named["logits"] == ["K", VOCABULARY]
    encoder = onnxruntime.InferenceSession(str(tmp_path / "encoder.onnx"))
    source = torch.randint(4, VOCABULARY, (1, 9))
    names = [each.name for each in encoder.get_outputs()]
    found = dict(zip(names, encoder.run(None, {"source": source.numpy()}), strict=True))
    wanted = EncoderGraph(model).named(source)["memory.values"].numpy()
    np.testing.assert_allclose(found["memory.values"], wanted, atol=0.05 * np.abs(wanted).max(), rtol=0)
    assert np.abs(found["memory.values"] - wanted).max() > 0  # it is rounded at all


def test_an_ensemble_is_refused():
    ensemble = Ensemble([small("luong_global")])
    with pytest.raises(UserError, match="no ensemble; export one run at a time"):
        OnnxExport(SimpleNamespace(model=ensemble), None, "float32").check()
