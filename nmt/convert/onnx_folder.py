"""A folder with a model of any kind as ONNX graphs, its tokenizers, and a README whose Python needs nothing of ours."""

from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nmt.convert.export import Export
from nmt.convert.onnx_graphs import PACKAGES, Graphs, export_graphs, require_packages
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.errors import UserError
from nmt.evaluate.extraction import default_extractor
from nmt.models.ensemble import Ensemble

FORMAT = 1  # of model.json


class OnnxExport(Export):
    """The folder; `quantization` is the number format of its matrices."""

    format = "onnx"

    @property
    def versions(self) -> dict[str, str]:
        return {package: version(package) for package in PACKAGES}

    def check(self) -> None:
        if isinstance(self.translator.model, Ensemble):
            raise UserError("--format onnx holds one model, no ensemble; export one run at a time (any model can be).")
        require_packages()

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        graphs = export_graphs(self.translator.model)
        for name, graph in (("encoder", graphs.encoder), ("decoder", graphs.decoder)):
            write_graph(graph, folder / f"{name}.onnx", self.quantization)
        weights = "[0]: of attention, [layers heads source]" if self.translator.model.has_attention else ": none"
        files: dict[str, str | dict[str, Any]] = {
            "model.json": self.description(graphs),
            "provenance.json": {"quantization": self.quantization} | provenance,
            "README.md": self.readme("onnx", weights=weights, pad=PAD, bos=BOS, eos=EOS),
        }
        self.translator.tokenizers.save(folder)
        self.write_files(folder, files)

    def description(self, graphs: Graphs) -> dict[str, Any]:
        """What a program needs to know to run the graphs."""
        model, tokenizers = self.translator.model, self.translator.tokenizers
        extractor = default_extractor(self.config.train, model)
        return {
            "format": FORMAT,
            "kind": self.config.model.kind,
            "source": self.config.data.source,
            "target": self.config.data.target,
            "memory": [f"memory.{name}" for name in graphs.memory],
            "state": {name: {"grows": grows} for name, grows in graphs.state.items()},
            "outputs": [each.name for each in graphs.decoder.graph.output],
            "shapes": {"encoder": shapes(graphs.encoder.graph), "decoder": shapes(graphs.decoder.graph)},
            "special": {"pad": PAD, "bos": BOS, "eos": EOS},
            "vocabulary": {"source": tokenizers.source.size, "target": tokenizers.target.size},
            "joint": tokenizers.joint,
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
    """The dimensions of a graph's inputs and outputs: a number, or the name of one that changes (S, K, P)."""
    return {
        each.name: [part.dim_param or part.dim_value for part in each.type.tensor_type.shape.dim]
        for each in (*graph.input, *graph.output)
    }


def write_graph(graph: Any, path: Path, quantization: str) -> None:
    """Write a graph, its matrices in float32, or in int8 with a scale for each column (activations: when it runs)."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    if quantization == "float32":
        onnx.save(graph, str(path))
    else:
        onnx.helper.set_model_props(
            graph, {"onnx.quant.pre_process": "onnxruntime.quant"}
        )  # or it recommends what is done already
        # 7 bits: sums of products of 8 saturate on CPUs without VNNI (and half of the greedy translations change)
        quantize_dynamic(graph, str(path), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
