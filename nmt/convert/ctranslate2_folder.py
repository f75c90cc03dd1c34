"""A Transformer as a folder of CTranslate2, and CTranslate2 as our engine of search.

CTranslate2 (https://opennmt.net/CTranslate2) is a C++ engine for Transformers; its folder
translates without nmt. N positions, D model size, K beam.

The same search: score = log-probability / length^α with </s> counted in both, a sentence is
closed as soon as K of its hypotheses have ended. Deviations: of the hypotheses that end in its last
step all are ranked, not only as many as make K, which may change the lower ranks of an n-best list,
never the first. A hypothesis that our search never keeps, with <pad>, <s>, a loop or a lost
placeholder, may take up a part of the beam; it is left out of the n-best list. Where that was the
place of what our search would have found best, the translation is another one: 1 line of 600.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmt.config.schema import Config
from nmt.config.transformer import TransformerConfig
from nmt.convert.export import Export, position_table
from nmt.data.batches import batches_by_length
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizers
from nmt.decode.beam_search import Hypothesis
from nmt.decode.constraints import has_loop
from nmt.decode.translator import NBest, Query, Translator
from nmt.errors import UserError
from nmt.models.layers import DecoderLayer
from nmt.models.transformer import Transformer

NEVER = -1e4  # the logit of <s>, which has no part in the softmax; float16 can hold it
MIN_BATCH_POSITIONS = 128  # of a batch that is made smaller so that each thread has one
NO_PENALTY = 1e-30  # length^1e-30 = 1; with 0 CTranslate2 closes a sentence by another rule
SEARCH = """`nmt translate --engine ctranslate2` searches again where a placeholder was
lost or there is a loop; this example does not.

"""


class CTranslate2Export(Export):
    format = "ctranslate2"
    held = (
        "model=transformer, transformer_big, transformer_learned, transformer_rotary and "
        "transformer_tiny can."
    )

    @property
    def versions(self) -> dict[str, str]:
        return {"ctranslate2": import_ctranslate2().__version__}

    @classmethod
    def misfit(cls, config: Config, is_imported: bool) -> str:
        model = config.model
        if not isinstance(model, TransformerConfig):
            return "CTranslate2 runs Transformers only"
        if model.self_attention != "softmax":
            return (
                "CTranslate2's self-attention is a full softmax; "
                f"model.self_attention={model.self_attention} is not"
            )
        return ""

    @classmethod
    def check_packages(cls) -> None:
        import_ctranslate2()

    def write_model(self, folder: Path, positions: int) -> None:
        model = self.translator.model
        assert isinstance(model, Transformer)
        spec = build_spec(model, self.config.model, self.translator.tokenizers, positions)
        spec.optimize(self.quantization)
        spec.save(str(folder))

    def write(self, folder: Path, provenance: dict[str, Any]) -> None:
        tokenizers = self.translator.tokenizers
        self.write_model(folder, self.positions)
        tokenizers.save(folder)
        readme = self.readme(
            "ctranslate2",
            reason=f"the table of positions ends at {self.positions}, and the training data has "
            "nothing longer",
            search=SEARCH if tokenizers.protects else "",
            longest=self.translator.max_pieces,
        )
        about = {"quantization": self.quantization, "positions": self.positions}
        self.write_files(folder, {"provenance.json": about | provenance, "README.md": readme})


def import_ctranslate2() -> ModuleType:
    """The module ctranslate2; raises UserError where it is not installed."""
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError as error:
        raise UserError(
            f"ctranslate2 cannot be imported here ({error}); install it into this environment with "
            "`pip install 'ctranslate2>=4.7'`. `nmt translate --engine torch` does without it."
        ) from None
    version = ctranslate2.__version__
    if tuple(map(int, version.split(".")[:2])) < (4, 7):
        raise UserError(f"ctranslate2 {version} is too old here; `pip install 'ctranslate2>=4.7'`.")
    return ctranslate2


def build_spec(
    model: Transformer, config: TransformerConfig, tokenizers: Tokenizers, positions: int
) -> Any:
    """A valid TransformerSpec with the weights of the model.

    `positions` is the length of the position tables: the longest sentence, </s> counted.
    """
    specs = import_ctranslate2().specs
    names = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
    activation = getattr(specs.Activation, names[config.activation])
    options: dict[str, Any] = {"pre_norm": config.norm == "pre", "activation": activation}
    if config.positions == "rotary":  # dimension i is paired with i + K/2 in both: no interleaving
        options |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": 10000.0}
    encoder = specs.TransformerEncoderSpec(len(model.encoder), config.num_heads, **options)
    decoder = specs.TransformerDecoderSpec(len(model.decoder), config.num_heads, **options)
    layers = zip([*encoder.layer, *decoder.layer], [*model.encoder, *model.decoder], strict=True)
    for spec, layer in layers:
        set_layer(spec, layer)
    encoder.embeddings[0].weight = array(model.source_embedding.weight)
    decoder.embeddings.weight = array(model.target_embedding.weight)
    decoder.projection.weight = array(model.output.weight)
    bias = model.output.bias if config.output_bias else torch.zeros(tokenizers.target.size)
    decoder.projection.bias = array(bias)
    decoder.projection.bias[BOS] = NEVER
    if config.norm == "pre":
        set_norm(encoder.layer_norm, model.encoder_norm)
        set_norm(decoder.layer_norm, model.decoder_norm)
    # in full: CTranslate2's own sinusoids count from 1 and have other frequencies
    if config.positions != "rotary":
        for spec, module in ((encoder, model.source_positions), (decoder, model.target_positions)):
            table = position_table(module, config.hidden_size, positions)
            spec.position_encodings.encodings = array(table)
    result = specs.TransformerSpec(encoder, decoder)
    target = tokenizers.target.all_pieces
    result.register_source_vocabulary(tokenizers.source.all_pieces)
    result.register_target_vocabulary(target)
    about = result.config
    about.unk_token = target[UNK]
    about.bos_token = target[BOS]
    about.eos_token = target[EOS]
    about.decoder_start_token = target[BOS]
    about.add_source_eos = True
    norm = model.encoder[0].feed_forward_residual.norm
    about.layer_norm_epsilon = norm.eps  # type: ignore[union-attr]
    result.validate()
    return result


def set_layer(spec: Any, layer: Any) -> None:
    """Copy the weights of a layer; query, key and value are one matrix in self-attention."""
    if isinstance(layer, DecoderLayer):
        set_attention(spec.self_attention, layer.self_attention, layer.self_residual, (0, 3))
        set_attention(spec.attention, layer.cross_attention, layer.cross_residual, (0, 1, 3))
    else:
        set_attention(spec.self_attention, layer.attention, layer.attention_residual, (0, 3))
    set_linear(spec.ffn.linear_0, layer.feed_forward[0])
    set_linear(spec.ffn.linear_1, layer.feed_forward[2])
    set_norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def set_attention(spec: Any, module: Any, residual: Any, bounds: tuple[int, ...]) -> None:
    """Copy an attention module; `bounds` divides query, key and value among the matrices."""
    for linear, first, last in zip(spec.linear, bounds, bounds[1:], strict=False):
        set_linear(linear, module.projection(first, last))
    set_linear(spec.linear[-1], module.output)
    set_norm(spec.layer_norm, residual.norm)


def set_linear(spec: Any, linear: Any) -> None:
    spec.weight = array(linear.weight)
    spec.bias = array(linear.bias)


def set_norm(spec: Any, norm: Any) -> None:
    spec.gamma = array(norm.weight)
    spec.beta = array(norm.bias)


def array(tensor: Tensor) -> np.ndarray:
    """Weights as float32; a copy, because CTranslate2 quantizes in place."""
    return tensor.detach().float().cpu().numpy().copy()


@dataclass(frozen=True, eq=False)
class CTranslate2Translator(Translator):
    """A translator whose hypotheses come from an exported folder; `open` makes one.

    A sentence is searched by PyTorch alone if it may become longer than the exported table of
    positions, as one that begins with a given text may. It is searched again if its best hypothesis
    does not end within its limit, which CTranslate2 returns unfinished, where our search forces
    </s> and counts it; if it breaks the constraints of our search, by a loop or a lost or doubled
    placeholder; and if it has <pad> or <s> in it. CTranslate2 could suppress those two, but does so
    before the softmax, and other scores lead the search elsewhere.
    """

    engine: Any = None  # ctranslate2.Translator
    positions: int = 0  # the longest sentence that the engine can hold, </s> counted
    threads: int = 1  # that search a batch each
    lock: RLock = field(
        default_factory=RLock
    )  # our own search runs in one thread at a time, and may divide a batch

    @classmethod
    def open(cls, base: Translator, folder: Path) -> "CTranslate2Translator":
        """The same translator with the engine of an exported folder.

        It is on the same device, and has PyTorch's threads. Raises UserError where CTranslate2
        cannot open the folder.
        """
        cuda = base.device.type == "cuda"
        threads = 1 if cuda else torch.get_num_threads()
        try:
            about = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
            engine = import_ctranslate2().Translator(
                str(folder),
                device="cuda" if cuda else "cpu",
                device_index=(base.device.index or 0) if cuda else 0,
                inter_threads=threads + 1,  # one for a translator beside this one
                intra_threads=1,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"CTranslate2 cannot open {folder}: {str(error).strip().rstrip('.')}."
            ) from None
        same = {each.name: getattr(base, each.name) for each in fields(Translator)}
        same |= {"num_processes": 1, "map_batches": partial(map_in_threads, threads)}
        return cls(**same, engine=engine, positions=about["positions"], threads=threads)

    def beside_others(self) -> "CTranslate2Translator":
        map_batches = partial(map_in_threads, 1)
        return replace(self, lock=RLock(), threads=1, map_batches=map_batches)

    def batches(self, queries: Sequence[Query]) -> list[np.ndarray]:
        """Indices of queries to search together, longest first.

        Each thread gets a batch where that is enough work.
        """
        lengths = np.array([len(query.source) for query in queries])
        positions = int((lengths + 1).sum())
        budget = self.batch_tokens // self.decode.beam
        budget = min(budget, max(positions // self.threads + 1, MIN_BATCH_POSITIONS))
        return batches_by_length(lengths, budget)

    def search_batch(self, queries: Sequence[Query]) -> NBest:
        """Search over one batch, our own for samples and where target columns are forced."""
        if self.sampling is not None or queries[0].template is not None:
            with self.lock:
                return super().search_batch(queries)
        limits = list(map(self.limit, queries))
        found: dict[int, list[Hypothesis] | None] = {}
        # 1 is </s> alone, for which CTranslate2 has no option
        rows = [row for row, limit in enumerate(limits) if 1 < limit <= self.positions]
        if rows:
            # One limit for the batch, the longest. A hypothesis above its own is not complete, so
            # that what remains was found as with its own.
            sources = [queries[row].source for row in rows]
            results = self.run_engine(sources, max(limits[row] for row in rows))
            for row, source, result in zip(rows, sources, results, strict=True):
                found[row] = self.complete_hypotheses(result, source, limits[row])
        missing = [row for row in range(len(queries)) if found.get(row) is None]
        if missing:
            with self.lock:
                again = super().search_batch([queries[row] for row in missing])
            found |= dict(zip(missing, again, strict=True))
        return [found[row] or [] for row in range(len(queries))]

    def run_engine(self, sources: Sequence[Encoded], limit: int) -> list[Any]:
        pieces = []
        begins = []
        for ids in sources:
            pieces.append(self.tokenizers.source.pieces(ids))
            begins.append(self.tokenizers.target.pieces(ids.begin))
        try:
            return self.engine.translate_batch(
                pieces,
                beam_size=self.decode.beam,
                num_hypotheses=self.decode.beam,
                length_penalty=self.decode.length_penalty or NO_PENALTY,
                target_prefix=begins,
                max_input_length=0,
                min_decoding_length=0,
                max_decoding_length=limit - 1,
                return_end_token=True,
                return_scores=True,
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"CTranslate2 cannot translate this: {str(error).strip().rstrip('.')}."
            ) from None

    def complete_hypotheses(
        self, result: Any, source: Encoded, limit: int
    ) -> list[Hypothesis] | None:
        """The n best of a sentence without those that our search would not write.

        None where the best one is such. `limit`: their maximum length, </s> counted.
        """
        hypotheses: list[Hypothesis] = []
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            ids = self.tokenizers.target.processor.piece_to_id(pieces)
            if self.is_right(ids, source, limit):
                hypotheses.append(Hypothesis(ids[:-1], score))
            elif not hypotheses:
                return None
        return hypotheses

    def is_right(self, ids: list[int], source: Encoded, limit: int) -> bool:
        """Whether our search might have written a hypothesis, which ends with </s>."""
        if ids[-1:] != [EOS] or len(ids) > limit or PAD in ids or BOS in ids:
            return False
        tokenizers = self.tokenizers
        pairs = zip(
            tokenizers.source.placeholder_ids, tokenizers.target.placeholder_ids, strict=False
        )
        for of_source, of_target in pairs:
            if ids.count(of_target) != (of_source in source):
                return False
        if not self.decode.avoid_loops:
            return True
        return not has_loop(source, ids[:-1])


def map_in_threads(
    count: int, function: Callable[[np.ndarray], NBest], batches: Sequence[np.ndarray]
) -> list[NBest]:
    """`map(function, batches)`; each thread searches a batch of its own."""
    if len(batches) == 1:
        return [function(batches[0])]
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(function, batches))
