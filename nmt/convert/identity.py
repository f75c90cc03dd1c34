"""What formats of export share: a name that changes with its content, the length of its position tables, and the
code that normalizes text and keeps numbers, URLs and the like from being translated.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.schema import Config
from nmt.data import normalization, tags, text_filter
from nmt.data.tokenizer import Tokenizers
from nmt.decode.translator import Translator

HOLD_EVERY_MODEL = "--format onnx and --format html hold every model."


def content_hash(translator: Translator, shape: list[Any]) -> str:
    """Ten digits of the hash of weights, tokenizers and `shape`."""
    digest = hashlib.sha256(json.dumps(shape).encode())
    for name, tensor in sorted(translator.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    for tokenizer in translator.tokenizers:
        digest.update(tokenizer.model)
    return digest.hexdigest()[:10]


def position_count(translator: Translator, config: Config) -> int:
    """The longest sentence of either side in search, </s> counted; a learned table keeps its length."""
    if config.model.positions == "learned":
        return config.model.max_positions
    longest = translator.max_pieces
    return int(max(longest + 1, translator.limits(np.array([longest]))[0]))


def write_text_code(folder: Path, tokenizers: Tokenizers) -> None:
    """normalization.py, and text_filter.py if there are placeholders; they run without this program."""
    for module in (normalization, *((tags, text_filter) if tokenizers.protects else ())):
        assert module.__file__
        code = Path(module.__file__).read_text(encoding="utf-8").replace("from nmt.data.", "from ")
        (folder / Path(module.__file__).name).write_text(code, encoding="utf-8")
