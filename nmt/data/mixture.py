"""Several training texts of unequal worth: how often each of their pairs is trained on, and a tag for each of them.

A weight w trains on each pair of a part ⌊w⌋ times in an epoch, and once more on the fraction w − ⌊w⌋ of them that a
hash of the pair chooses. A temperature T gives weights (n / largest n)^(1/T − 1), with n pairs in a part: the parts
then have shares ∝ n^(1/T), and the largest is trained on once (Arivazhagan et al. 2019, section 4).
"""

import re

from nmt.config.schema import DataConfig
from nmt.data.filtering import hash_text
from nmt.data.origin import Origin
from nmt.errors import UserError

MAX_WEIGHT = 100.0
TAG = re.compile(r"[^\w.+-]+")
LONGEST_TAG = 40  # characters
SPECIAL = re.compile(r"unk|s|pad|bos|eos|mask|0x[0-9a-f]{2}")  # names of the pieces that a tokenizer has anyway


def check_mixture(data: DataConfig, parts: int) -> None:
    """Raise UserError for weights that do not fit the parts of data.train."""
    if data.weights is not None and data.temperature is not None:
        raise UserError("data.weights and data.temperature cannot be given together: a temperature computes weights.")
    if data.weights is not None:
        if len(data.weights) != parts:
            raise UserError(
                f"data.weights has {len(data.weights)} numbers, but data.train has {parts} parts; give one for each."
            )
        if not all(0 < weight <= MAX_WEIGHT for weight in data.weights):
            raise UserError(f"data.weights={data.weights} is not possible; each is above 0 and at most {MAX_WEIGHT:g}.")


def temperature_weights(sizes: list[int], temperature: float) -> list[float]:
    """The weight of each part, at most MAX_WEIGHT."""
    largest = max(sizes)
    return [min(MAX_WEIGHT, (max(1, size) / largest) ** (1 / temperature - 1)) for size in sizes]


def copies(weight: float, source: str, target: str) -> int:
    """How often a pair is trained on in an epoch: a function of the weight and the pair."""
    whole = int(weight)
    if weight == whole:
        return whole
    return whole + (hash_text(f"{source}\n{target}") / 2**64 < weight - whole)


def origin_tags(origins: list[Origin]) -> list[str]:
    """The tag of each origin, such as <tatoeba>; raises UserError for two that are the same."""
    tags = []
    for origin in origins:
        name = TAG.sub("-", origin.name.lower())[:LONGEST_TAG].strip("-")
        if not name or SPECIAL.fullmatch(name):
            raise UserError(f"data.origin_tags: '{origin.name}' cannot be a tag; rename {origin.word}.")
        tags.append(f"<{name}>")
    words = dict.fromkeys((origin.part, tag) for origin, tag in zip(origins, tags, strict=True))
    names = [tag for _, tag in words]
    if repeated := [tag for tag in names if names.count(tag) > 1]:
        raise UserError(f"data.origin_tags: two parts of data.train have the tag {repeated[0]}; rename one.")
    return tags
