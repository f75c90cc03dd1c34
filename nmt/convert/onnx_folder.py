"""A folder with a model of any kind as ONNX graphs, its tokenizers, and a README whose Python needs nothing of ours."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nmt.config.schema import Config
from nmt.convert.identity import content_hash, write_text_code
from nmt.convert.onnx_graphs import PACKAGES, Graphs, export_graphs, require_packages
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.extractor_choice import default_extractor
from nmt.models.ensemble import Ensemble

VERSION = 1  # part of the folder's name; to be raised when the content of an export changes

README = """# {title}

Two ONNX graphs: `encoder.onnx`, and `decoder.onnx` for one column with its state; weights as {quantization}. This
needs the packages `onnxruntime`, `sentencepiece`, `numpy`{links} and no other; run it in the folder:

```python
import numpy as np
import onnxruntime
import sentencepiece

from normalization import normalize  # a file of this folder{protection}

source = sentencepiece.SentencePieceProcessor(model_file="{source}.model")
target = sentencepiece.SentencePieceProcessor(model_file="{target}.model")
encoder = onnxruntime.InferenceSession("encoder.onnx")
decoder = onnxruntime.InferenceSession("decoder.onnx")
inputs = {{each.name for each in decoder.get_inputs()}}
outputs = [each.name for each in decoder.get_outputs()]


def translate(line: str) -> str:
{protected}    pieces = source.encode(normalize(line{lower}))
    if not pieces:
        return ""
    encoded = encoder.run(None, {{"source": np.array([[*pieces, {eos}]])}})
    known = dict(zip((each.name for each in encoder.get_outputs()), encoded))
    ids = [{bos}]
    for _ in range(int({ratio} * len(pieces) + {extra})):
        feed = {{"ids": np.array([ids[-1:]])}} | {{name: each for name, each in known.items() if name in inputs}}
        after = dict(zip(outputs, decoder.run(None, feed)))
        known |= {{name.replace("next.", "state."): each for name, each in after.items() if name.startswith("next.")}}
        logits = after["logits"][0]  # after["weights"]{weights}
        logits[[{pad}, {bos}]] = -np.inf
        ids.append(int(logits.argmax()))
        if ids[-1] == {eos}:
            break
    text = target.decode([piece for piece in ids[1:] if piece != {eos}])
    return {restored}


print(translate(input()))
```

That is greedy search. The run's own has a beam of {beam} and ranks by log-probability / length^{alpha}; for K
hypotheses the decoder takes ids [K 1] and states of K rows, and the memory stays that of one sentence. `nmt translate`
also searches again where a placeholder was lost or a span is repeated; this example does not.

`model.json` names the inputs and outputs of both graphs, what they mean, and the settings of search. `*.model` are
SentencePiece's. `tokenizer.json` holds whether text is brought to lower case, `provenance.json` the run, its
configuration, the versions of the libraries and the scores of the run.
"""
PROTECTION = "\nfrom text_filter import protect, restore"
PROTECT = """    protected = protect(line)  # numbers, URLs … are copied
    if protected.is_copied:
        return line
    line = protected.text
"""
RESTORE = "restore(text, protected)"


@dataclass
class OnnxExport:
    """A translator to be exported, with its configuration and the number format of its matrices."""

    translator: Translator
    config: Config
    quantization: str

    content = ""  # the whole folder is the export

    @property
    def name(self) -> str:
        """The folder's name."""
        shape = [VERSION, vars(self.config.model), vars(self.config.decode)]
        return f"onnx-{self.quantization}-{content_hash(self.translator, shape)}"

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that write it."""
        return {package: version(package) for package in PACKAGES}

    def check(self) -> None:
        """Raises UserError where a package is missing, and for an ensemble; every model can be exported."""
        if isinstance(self.translator.model, Ensemble):
            raise UserError("--format onnx holds one model, no ensemble; export one run at a time (any model can be).")
        require_packages()

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        """Write the export, `provenance` included, into an empty folder. Raises OSError."""
        graphs = export_graphs(self.translator.model)
        for name, graph in (("encoder", graphs.encoder), ("decoder", graphs.decoder)):
            write_graph(graph, folder / f"{name}.onnx", self.quantization)
        write_json(folder / "model.json", self.description(graphs))
        write_json(folder / "provenance.json", {"quantization": self.quantization} | provenance)
        self.translator.tokenizers.save(folder)
        write_text_code(folder, self.translator.tokenizers)
        (folder / "README.md").write_text(self.readme(), encoding="utf-8")

    def description(self, graphs: Graphs) -> dict[str, Any]:
        """What a program needs to know to run the graphs."""
        model, tokenizers = self.translator.model, self.translator.tokenizers
        extractor = default_extractor(self.config.train, model)
        return {
            "format": VERSION,
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

    def readme(self) -> str:
        """The README, with an example in the run's own settings of search."""
        tokenizers, decode, data = self.translator.tokenizers, self.config.decode, self.config.data
        return README.format(
            title=f"{self.config.name}: {data.source} to {data.target}",
            quantization=self.quantization,
            source="joint" if tokenizers.joint else "source",
            target="joint" if tokenizers.joint else "target",
            protection=PROTECTION if tokenizers.protects else "",
            protected=PROTECT if tokenizers.protects else "",
            links=", `linkify-it-py`" if tokenizers.protects else "",
            restored=RESTORE if tokenizers.protects else "text",
            lower=", lowercase=True" if tokenizers.source.lowercase else "",
            weights="[0]: of attention, [layers heads source]" if self.translator.model.has_attention else ": none",
            pad=PAD,
            bos=BOS,
            eos=EOS,
            ratio=decode.max_length_ratio,
            extra=decode.max_length_extra,
            beam=decode.beam,
            alpha=f"{decode.length_penalty:g}",
        )


def shapes(graph: Any) -> dict[str, list[int | str]]:
    """The dimensions of a graph's inputs and outputs: a number, or the name of one that changes (S, K, P)."""
    return {
        each.name: [part.dim_param or part.dim_value for part in each.type.tensor_type.shape.dim]
        for each in (*graph.input, *graph.output)
    }


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


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
