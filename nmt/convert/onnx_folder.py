"""Any model as a folder of two ONNX graphs: the encoder, and one column of the decoder.

The folder has tokenizers and a README too, whose Python needs nothing of ours.

One sentence, K hypotheses of it. S source length, P target columns so far, L layers, H heads, M
memory size, V pieces.

encoder: source [1 S]
    → memory.NAME, which every column reads, and state.NAME [1 …] before the first column
decoder: ids [K 1], memory.NAME, state.NAME [K …]
    → logits [K V], weights [K L H S], p_t [K], and next.NAME, the state after it

Weights are there where a decoder attends, p_t in local attention. The state of a search is
reordered by its rows.
"""

import contextlib
import copy
import importlib
import io
import logging
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from nmt.attention.fast_weights import FastWeightState, normalized_features
from nmt.attention.positions import Learned, Start
from nmt.attention.self_attention import DeltaSelfAttention, FastWeightSelfAttention
from nmt.convert.export import Export
from nmt.convert.formats import FORMATS
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.errors import needs_extra
from nmt.evaluate.extraction import default_extractor
from nmt.models.base import EncoderDecoder, Memory
from nmt.models.cells import StackedRNNCell
from nmt.models.recurrent import RecurrentEncoder

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
VERSION = 1  # of model.json
OPSET = 18
# as ONNX has them: input, output, forget, cell; update, reset, hidden
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
LARGEST = 1 << 40  # bytes of a constant that is made from others
# pieces of the example that is traced, and its hypotheses
EXAMPLE = 7
ROWS = 3


@dataclass
class Graphs:
    """The two graphs, and the names of what goes from one to the other."""

    encoder: Any  # onnx.ModelProto
    decoder: Any
    memory: list[str]
    # name → whether it has one more column, in dimension 2, after every column
    state: dict[str, bool]


class EncoderGraph(nn.Module):
    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def named(self, source: Tensor) -> dict[str, Tensor]:
        """[1 S] → memory.NAME, state.NAME."""
        memory = self.model.encode(source, None)
        of_memory = prefixed("memory", {"values": memory.values} | memory.static)
        return of_memory | prefixed("state", self.model.start(memory))

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(source).values())


class DecoderGraph(nn.Module):
    """The graph of one column of the decoder, for memory and state of these names."""

    def __init__(self, model: EncoderDecoder, memory: Iterable[str], state: Iterable[str]) -> None:
        super().__init__()
        self.model = model
        self.memory = list(memory)
        self.state = list(state)

    def named(
        self, ids: Tensor, memory: dict[str, Tensor], state: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """ids [K 1], memory, state [K …] → logits [K V], weights [K L H S], p_t [K], next.NAME."""
        static = {name: part for name, part in memory.items() if name != "values"}
        decoded = self.model.decode(
            ids, state, Memory(memory["values"], None, static), self.model.has_attention
        )
        outputs = {"logits": self.model.logits(decoded.hidden)[:, 0]}
        if decoded.weights is not None:
            outputs["weights"] = decoded.weights[:, :, :, 0]
        if decoded.p_t is not None:
            outputs["p_t"] = decoded.p_t[:, 0]
        return outputs | prefixed("next", {name: decoded.state[name] for name in state})

    def forward(self, ids: Tensor, memory: list[Tensor], state: list[Tensor]) -> tuple[Tensor, ...]:
        of_memory = dict(zip(self.memory, memory, strict=True))
        of_state = dict(zip(self.state, state, strict=True))
        return tuple(self.named(ids, of_memory, of_state).values())


def prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


class ExportedRNN(nn.Module):
    """A layer of PyTorch's LSTM or GRU, in one direction or both, as ONNX's operator.

    PyTorch's own export fixes the length to that of the example.
    """

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.size = layer.hidden_size
        self.operator = layer.mode
        gates = GATES[layer.mode]
        stacked = []  # [directions gates·D …] each
        for directions in zip(*layer.all_weights, strict=True):
            ordered = []
            for weight in directions:
                chunks = weight.detach().chunk(len(gates))
                ordered.append(torch.cat([chunks[gate] for gate in gates]))
            stacked.append(torch.stack(ordered))
        inputs, hidden, *biases = stacked
        parts = (inputs, hidden, torch.cat(biases, 1))
        self.weights = nn.ParameterList(nn.Parameter(part, requires_grad=False) for part in parts)

    def forward(
        self, inputs: Tensor, state: Tensor | tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, Any]:
        """inputs [B S E], state [directions B D] | None → outputs [B S D·directions], state."""
        batch, length, _ = inputs.shape
        directions = len(self.weights[0])
        has_cell = self.operator == "LSTM"
        if state is None:
            state = (inputs.new_zeros(directions, batch, self.size),) * (1 + has_cell)
        parts = state if isinstance(state, tuple) else (state,)
        attributes: dict[str, Any] = {
            "direction": "bidirectional" if directions > 1 else "forward",
            "hidden_size": self.size,
        }
        if not has_cell:
            attributes["linear_before_reset"] = 1
        of_outputs = [length, directions, batch, self.size]
        of_state = [directions, batch, self.size]
        outputs, *last = torch.onnx.ops.symbolic_multi_out(
            f"::{self.operator}",
            (inputs.transpose(0, 1), *self.weights, None, *parts),
            attributes,
            dtypes=[torch.float32] * (1 + len(parts)),
            shapes=[of_outputs, *[of_state] * len(parts)],
            version=OPSET,
        )
        return outputs.permute(2, 0, 1, 3).flatten(2), tuple(last) if has_cell else last[0]


class LearnedAnyStart(Learned):
    """Learned positions whose first column is not read off the graph.

    Who runs the graph must end at max_positions.
    """

    def __init__(self, plain: Learned) -> None:
        nn.Module.__init__(self)
        self.table = plain.table

    def forward(self, embedded: Tensor, start: Start) -> Tensor:
        positions = start + torch.arange(embedded.size(1))
        return embedded + embedded.size(2) ** 0.5 * self.table[positions]


class WholeFastWeights(FastWeightSelfAttention):
    """Fast weights of an encoder, all columns at once.

    By the delta rule they are written one after the other, as `scan`.
    """

    def __init__(self, plain: FastWeightSelfAttention) -> None:
        nn.Module.__init__(self)
        self.causal = False
        if isinstance(plain, DeltaSelfAttention):
            self.rate = plain.rate

    def forward(self, inputs: Tensor, qkv: Any, state: Any, mask: Any, weights: bool) -> Any:
        query, key, value = qkv
        queries = normalized_features(query)
        keys = normalized_features(key)
        if hasattr(self, "rate"):
            written = delta_rule(keys, value, torch.sigmoid(self.rate(inputs)).transpose(1, 2))
        else:
            written = keys.transpose(2, 3) @ value
        return queries @ written, None, FastWeightState(written)


def delta_rule(keys: Tensor, values: Tensor, rates: Tensor) -> Tensor:
    """W after all columns of keys and values [B H T K] at rates [B H T]: [B H K K]."""
    from torch._higher_order_ops.scan import scan

    def write(weights: Tensor, column: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        key, value, rate = column  # [B H K], [B H K], [B H]
        difference = rate[..., None] * (value - (key[:, :, None] @ weights)[:, :, 0])
        after = weights + key[..., None] * difference[:, :, None]
        return after, rate.clone()  # something must come out of each column

    batch, heads, _, size = keys.shape
    columns = tuple(part.movedim(2, 0) for part in (keys, values, rates))
    return scan(write, keys.new_zeros(batch, heads, size, size), columns)[0]


def exportable_copy(model: EncoderDecoder) -> EncoderDecoder:
    """The same model, with the same function in other steps where its own cannot be exported."""
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    result = copy.deepcopy(model, tensors).eval()
    for module in list(result.modules()):
        is_fed = isinstance(module, StackedRNNCell) and module.feed_size
        if isinstance(module, (RecurrentEncoder, StackedRNNCell)) and not is_fed:
            layers = [ExportedRNN(layer) for layer in module.layers]  # type: ignore[arg-type]
            module.layers = nn.ModuleList(layers)
        for name, child in list(module.named_children()):
            if isinstance(child, Learned):
                setattr(module, name, LearnedAnyStart(child))
            elif isinstance(child, FastWeightSelfAttention) and not child.causal:
                setattr(module, name, WholeFastWeights(child))
    return result


@torch.no_grad()
def export_graphs(model: EncoderDecoder) -> Graphs:
    """The graphs of a model in float32, on the CPU. Raises UserError where a package is missing."""
    require_packages()
    model = copy.deepcopy(model).cpu().float().eval()
    exportable = exportable_copy(model)

    # What the encoder gives, and which dimensions are the length of the source
    source = torch.full((1, EXAMPLE), 4)
    longer = torch.full((1, EXAMPLE + 2), 4)
    encoded = EncoderGraph(model).named(source)
    other = EncoderGraph(model).named(longer)
    memory = without_prefix("memory", encoded)
    lengths = []
    for name, part in memory.items():
        lengths.append(changed_dimensions(part, other[f"memory.{name}"], "S"))

    # A state after two columns, and which dimensions grow with a column
    ids = torch.full((ROWS, 1), 4)
    state = {}
    for name, part in without_prefix("state", encoded).items():
        state[name] = torch.cat([part] * ROWS)
    decoder = DecoderGraph(model, memory, state)
    for _ in range(2):  # so that there are earlier columns, as nearly always
        state = without_prefix("next", decoder.named(ids, memory, state))
    decoded = decoder.named(ids, memory, state)
    grows = {}
    dimensions = []
    for name, part in state.items():
        changed = changed_dimensions(part, decoded[f"next.{name}"], "P")
        grows[name] = bool(changed)
        dimensions.append({0: Dim("K")} | changed)

    inputs = (ids, list(memory.values()), list(state.values()))
    shapes = ({0: Dim("K")}, lengths, dimensions)
    names = ["ids", *prefixed("memory", memory), *prefixed("state", state)]
    return Graphs(
        to_onnx(EncoderGraph(exportable), (source,), ({1: Dim("S")},), ["source"], list(encoded)),
        to_onnx(DecoderGraph(exportable, memory, state), inputs, shapes, names, list(decoded)),
        list(memory),
        grows,
    )


def without_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    chosen = {}
    for name, tensor in tensors.items():
        of, _, rest = name.partition(".")
        if of == prefix:
            chosen[rest] = tensor
    return chosen


def changed_dimensions(part: Tensor, other: Tensor, name: str) -> dict[int, Any]:
    """The dimensions in which two shapes differ, under one name."""
    changed = {}
    for number, (size, other_size) in enumerate(zip(part.shape, other.shape, strict=True)):
        if size != other_size:
            changed[number] = Dim(name)
    return changed


def to_onnx(
    graph: nn.Module, arguments: Any, shapes: Any, inputs: list[str], outputs: list[str]
) -> Any:
    """A graph as onnx.ModelProto; slices and transposes of weights are made here, once."""
    import onnxscript.optimizer

    # it tells of libraries that it does without
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph,
            arguments,
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=shapes,
        )
        assert program is not None
        onnxscript.optimizer.optimize(
            program.model, input_size_limit=LARGEST, output_size_limit=LARGEST
        )
        for node in program.model.graph.all_nodes():
            node.metadata_props.clear()  # where in which file of this machine it was made
    return program.model_proto


def require_packages(*packages: str) -> None:
    """Raise UserError unless these packages are there, by default all that ONNX needs."""
    for package in packages or PACKAGES:
        with needs_extra(FORMATS["onnx"].extras):
            importlib.import_module(package)


class OnnxExport(Export):
    """The folder; `quantization` is the number format of its matrices."""

    format = "onnx"
    holds_table = True

    @property
    def versions(self) -> dict[str, str]:
        return {package: version(package) for package in PACKAGES}

    @classmethod
    def check_packages(cls) -> None:
        require_packages()

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        graphs = export_graphs(self.translator.model)
        for name, graph in (("encoder", graphs.encoder), ("decoder", graphs.decoder)):
            write_graph(graph, folder / f"{name}.onnx", self.quantization)
        weights = ": none"
        if self.translator.model.has_attention:
            weights = "[0]: of attention, [layers heads source]"
        files: dict[str, str | dict[str, Any]] = {
            "model.json": self.description(graphs),
            "provenance.json": {"quantization": self.quantization} | provenance,
            "README.md": self.readme("onnx", weights=weights, pad=PAD, bos=BOS, eos=EOS),
        }
        self.translator.tokenizers.save(folder)
        self.write_files(folder, files)

    def description(self, graphs: Graphs) -> dict[str, Any]:
        model = self.translator.model
        tokenizers = self.translator.tokenizers
        extractor = default_extractor(self.config.train, model)
        return {
            "format": VERSION,
            "kind": self.config.model.kind,
            "source": self.config.data.source,
            "target": self.config.data.target,
            "memory": [f"memory.{name}" for name in graphs.memory],
            "state": {name: {"grows": grows} for name, grows in graphs.state.items()},
            "outputs": [each.name for each in graphs.decoder.graph.output],
            "shapes": {
                "encoder": shapes(graphs.encoder.graph),
                "decoder": shapes(graphs.decoder.graph),
            },
            "special": {"pad": PAD, "bos": BOS, "eos": EOS},
            "vocabulary": {"source": tokenizers.source.size, "target": tokenizers.target.size},
            "joint": "joint" in tokenizers.models,
            "lowercase": tokenizers.source.lowercase,
            "protects": tokenizers.protects,
            "max_pieces": self.translator.max_pieces,
            "max_length": model.max_length,
            "decode": asdict(self.config.decode),
            "attention": {
                "layers": model.num_layers,
                "heads": model.num_heads,
                "layer": extractor.layer,
                "head": extractor.head,
                "decoder_step": extractor.decoder_step,
                "window_reach": model.window_reach,
            },
        }


def shapes(graph: Any) -> dict[str, list[int | str]]:
    """The dimensions of inputs and outputs: numbers, or S, K and P where they change."""
    sizes = {}
    for value in (*graph.input, *graph.output):
        dimensions = value.type.tensor_type.shape.dim
        sizes[value.name] = [part.dim_param or part.dim_value for part in dimensions]
    return sizes


def write_graph(graph: Any, path: Path, quantization: str) -> None:
    """Write a graph with its matrices in float32, or in int8 with a scale for each column.

    With int8, activations are quantized when it runs.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    if quantization == "float32":
        onnx.save(graph, str(path))
        return
    # without this it recommends what is done already
    onnx.helper.set_model_props(graph, {"onnx.quant.pre_process": "onnxruntime.quant"})
    # 7 bits: sums of products of 8 saturate on CPUs without VNNI, and half of the greedy
    # translations change
    quantize_dynamic(
        graph, str(path), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
    )
