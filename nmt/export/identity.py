"""What every format of export has: a name that changes with its content, and a length of its position tables."""

import hashlib
import json
from typing import Any

import numpy as np

from nmt.config import Config
from nmt.decode.translator import Translator


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
