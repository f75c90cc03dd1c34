"""nmt export --format onnx: onnxruntime computes what the model computes, for every model."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import MODELS, VOCABULARY, composed, small_config
from torch.export import Dim

from nmt.config.validation import validate
from nmt.convert.onnx_folder import (
    DecoderGraph,
    EncoderGraph,
    Graphs,
    OnnxExport,
    export_graphs,
    to_onnx,
    without_prefix,
    write_graph,
)
from nmt.models.build import build

# Models that have the graph of another one with other sizes.
SAME_GRAPHS = {
    "luong_global_dot",
    "luong_local_m_dot",
    "luong_local_p_dot",
    "transformer_big",
    "transformer_tiny",
}
CHANGES = {  # choices that no file of conf/model makes, one layer elsewhere
    "bahdanau_hard": (("hard_attention_gradient", "reinforce"), ("tie_embeddings", False)),
    "luong_global": (("cell", "gru"), ("input_feeding", False), ("num_layers", 2)),
    "transformer": (("norm", "post"), ("activation", "gelu"), ("tie_embeddings", False)),
    "transformer_delta": (("positions", "learned"),),
}


@pytest.fixture(scope="module", autouse=True)
def onnxruntime():
    return pytest.importorskip(
        "onnxruntime", reason="onnxruntime is not installed; `make test` brings it"
    )


@pytest.mark.parametrize(
    ("name", "guided", "joint", "attention"),
    [
        ("transformer", 0.0, True, {"layer": 1, "head": None, "decoder_step": "output"}),
        ("transformer", 0.5, False, {"layer": 0, "head": 0, "decoder_step": "input"}),
        ("bahdanau", 0.5, False, {"layer": 0, "head": 0, "decoder_step": "output"}),
        ("luong_local_m", 0.0, True, {"window_reach": 2.0}),
    ],
)
def test_model_json_says_how_the_graphs_are_run(name, guided, joint, attention, vocabularies):
    """Sizes, special pieces and search are those of the run; so is what links are read from."""
    tokenizers = vocabularies[joint]
    config = validate(composed(name))
    config.model = small_config(name, ())
    config.train.guided_alignment = guided
    config.train.heatmap_layer = 1
    source, target = tokenizers
    model = build(config.model, source.size, target.size, joint)
    translator = SimpleNamespace(model=model, tokenizers=tokenizers, max_pieces=77)
    empty = SimpleNamespace(graph=SimpleNamespace(input=[], output=[]))
    graphs = Graphs(empty, empty, ["values"], {"cell": False, "keys": True})
    found = OnnxExport(translator, config).description(graphs)
    assert found["vocabulary"] == {"source": source.size, "target": target.size}
    assert (source.size == target.size) == joint == found["joint"]
    assert found["memory"] == ["memory.values"]
    assert found["state"] == {"cell": {"grows": False}, "keys": {"grows": True}}
    assert found["special"] == {"pad": 0, "bos": 2, "eos": 3}
    assert found["max_pieces"] == 77 and found["decode"]["beam"] == config.decode.beam
    assert (found["source"], found["target"]) == ("de", "en")
    sizes = {"layers": model.num_layers, "heads": model.num_heads}
    assert found["attention"].items() >= (sizes | attention).items()
    assert (found["attention"]["window_reach"] is None) == ("window_reach" not in attention)


def session(onnxruntime, graph):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    content = graph if isinstance(graph, str) else graph.SerializeToString()
    return onnxruntime.InferenceSession(content, options)


def run(opened, feed: dict) -> dict:
    wanted = {each.name for each in opened.get_inputs()}
    outputs = [each.name for each in opened.get_outputs()]
    return dict(zip(outputs, opened.run(None, {name: feed[name] for name in wanted}), strict=True))


@pytest.mark.slow
def test_a_graph_names_no_folder_of_this_machine(onnxruntime):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed; `make test` brings it")
    module = torch.nn.Linear(2, 3).eval()
    graph = to_onnx(module, (torch.ones(1, 2),), ({0: Dim("S")},), ["source"], ["values"])
    source = np.ones((5, 2), np.float32)
    (found,) = run(session(onnxruntime, graph), {"source": source}).values()
    np.testing.assert_allclose(found, module(torch.ones(5, 2)).detach().numpy(), atol=1e-6)
    content = graph.SerializeToString()
    for folder in (Path(torch.__file__).parent, Path(__file__).parents[1], Path.home()):
        assert str(folder).encode() not in content


@pytest.mark.slow
def test_each_column_of_an_int8_matrix_has_its_own_scale(onnxruntime, tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed; `make test` brings it")
    torch.manual_seed(1)
    module = torch.nn.Linear(64, 3, bias=False).eval().requires_grad_(False)
    module.weight *= torch.tensor([[1.0], [1e-2], [1e-4]])
    source = torch.randn(5, 64)
    graph = to_onnx(module, (source,), ({0: Dim("S")},), ["source"], ["values"])
    write_graph(graph, tmp_path / "int8.onnx", "int8")
    opened = session(onnxruntime, str(tmp_path / "int8.onnx"))
    (found,) = run(opened, {"source": source.numpy()}).values()
    wanted = module(source).numpy()
    assert (np.abs(found - wanted).max(0) < 0.05 * np.abs(wanted).max(0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) - SAME_GRAPHS))
def test_every_model_computes_the_same(name, onnxruntime):
    """Memory, logits, weights, p_t and states, column by column, for other lengths than the traced
    ones."""
    torch.manual_seed(1)
    one_layer = {
        key: 1
        for key in ("num_layers", "encoder_layers", "decoder_layers")
        if key in composed(name).model
    }
    config = small_config(name, tuple((one_layer | dict(CHANGES.get(name, ()))).items()))
    model = build(config, VOCABULARY, VOCABULARY, True).eval().requires_grad_(False)
    graphs = export_graphs(model)
    encoder = session(onnxruntime, graphs.encoder)
    decoder = session(onnxruntime, graphs.decoder)
    for length, rows, columns in ((1, 1, 2), (12, 2, 9)):
        source = torch.randint(4, VOCABULARY, (1, length))
        ours = EncoderGraph(model).named(source)
        theirs = run(encoder, {"source": source.numpy()})
        assert_same(theirs, ours)
        memory = without_prefix("memory", ours)
        state = without_prefix("state", ours)
        state = {key: torch.cat([part] * rows) for key, part in state.items()}
        known = theirs | {
            f"state.{key}": np.repeat(theirs[f"state.{key}"], rows, 0) for key in state
        }
        for _ in range(columns):
            ids = torch.randint(4, VOCABULARY, (rows, 1))
            wanted = DecoderGraph(model, memory, state).named(ids, memory, state)
            found = run(decoder, known | {"ids": ids.numpy()})
            assert_same(found, wanted)
            order = torch.randperm(rows)  # as a search reorders its hypotheses
            state = {key: wanted[f"next.{key}"][order] for key in state}
            known |= {f"state.{key}": found[f"next.{key}"][order.numpy()] for key in state}
        assert ("weights" in found) == model.has_attention and ("p_t" in found) == (
            model.window_reach is not None
        )
    assert set(graphs.state) == set(state) and graphs.memory == list(memory)
    grows = {key for key, part in state.items() if part.dim() == 4 and part.size(2) == columns}
    assert {key for key, each in graphs.state.items() if each} == grows


def assert_same(found: dict, wanted: dict) -> None:
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.numpy().dtype
        np.testing.assert_allclose(found[name], tensor.numpy(), atol=1e-4, rtol=0, err_msg=name)
