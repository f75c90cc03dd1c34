"""Where a sentence ends, as a small ONNX graph: what Argos Translate needs to translate paragraphs without a network.

Argos Translate splits text with MiniSBD, an ONNX model that looks at characters. Its own models are downloaded when the
first text is translated; one in the package is used instead. This one is no trained model but rules, a convolution over
kinds of characters:

- . after three letters or digits, then a space and a capital or an opening sign (so Dr. and z. B. end nothing);
- ! or ? or …, then a space and a capital or an opening sign;
- either of them with a closing sign after it;
- 。！？؟۔।॥ in any case.
"""

import json

import numpy as np

from nmt.convert.protobuf import message

KINDS = {
    "stop": ".",
    "mark": "!?…",
    "always": "。！？؟۔।॥",
    "space": " ",
    "closing": "\"'”“’»«)]",
    "opening": "„¿¡([-–—",
    "digit": "0123456789",
    "other": ",;:/\\%&@#*+=_<>|~^$€£",
}
NAMES = ["padding", "letter", *KINDS]  # 1: what is not in the table is a letter
CAPITAL = len(NAMES)  # the last channel: the feature "capitalized"
BEFORE, WIDTH = 4, 7  # of the convolution: characters i - 4 … i + 2
FIRST = {"capital": CAPITAL} | {name: NAMES.index(name) for name in ("opening", "closing", "digit")}
FLOAT, INT64 = 1, 7  # ONNX's numbers for types


def sentence_model() -> bytes:
    """The ONNX file: units [B N] and features [B N 1] to scores [B N 3]: inside, end of a token, of a sentence."""
    nodes = [
        node("Gather", ["kinds", "units"], "kind"),
        node("Concat", ["kind", "features"], "channels", ("axis", 2)),
        node("Transpose", ["channels"], "columns", ("perm", [0, 2, 1])),
        node("Conv", ["columns", "rules", "thresholds"], "found", ("pads", [BEFORE, WIDTH - BEFORE - 1])),
        node("Relu", ["found"], "rule"),
        node("Conv", ["rule", "decision", "bias"], "decided"),
        node("Transpose", ["decided"], "scores", ("perm", [0, 2, 1])),
    ]
    rules = np.stack(list(map(rule_weights, RULES)))
    decision = np.zeros((3, len(RULES), 1))
    decision[2] = 1
    tensors = {
        "kinds": kind_table(),
        "rules": rules,
        "thresholds": np.array([0.5 - len(rule) for rule in RULES]),  # all conditions hold: 1/2, else below 0
        "decision": decision,
        "bias": np.array([0, -1, -0.25]),
    }
    graph = message(
        *((1, each) for each in nodes),
        (2, "sentences"),
        *((5, tensor(name, values)) for name, values in tensors.items()),
        (11, declared("units", INT64, ["B", "N"])),
        (11, declared("features", FLOAT, ["B", "N", 1])),
        (12, declared("scores", FLOAT, ["B", "N", 3])),
    )
    about = {"lang_code": "any", "config": {"feat_funcs": ["capitalized"]}, "vocab": vocabulary(), "lexicon": None}
    properties = ((14, message((1, key), (2, json.dumps(value)))) for key, value in about.items())
    return message((1, 8), (2, "nmt"), (7, graph), (8, message((1, ""), (2, 13))), *properties)


Rule = list[tuple[int, tuple[str, ...]]]
START: Rule = [(1, ("space",)), (2, tuple(FIRST))]
WORD: tuple[str, ...] = ("letter", "digit")
RULES: list[Rule] = [
    [*((-place, WORD) for place in (1, 2, 3)), (0, ("stop",)), *START],
    [*((-place - 1, WORD) for place in (1, 2, 3)), (-1, ("stop",)), (0, ("closing",)), *START],
    [(0, ("mark",)), *START],
    [(-1, ("mark",)), (0, ("closing",)), *START],
    [(0, ("always",))],
]  # conditions (place from i, kinds)


def rule_weights(rule: Rule) -> np.ndarray:
    """[channels WIDTH]: 1 for each kind that meets a condition. A capital is a letter as well, and counts once."""
    weights = np.zeros((len(NAMES) + 1, WIDTH))
    for place, kinds in rule:
        for kind in kinds:
            weights[FIRST["capital"] if kind == "capital" else NAMES.index(kind), BEFORE + place] = 1
    return weights


def vocabulary() -> dict[str, object]:
    """MiniSBD's table of characters; unknown ones are letters."""
    listed = ["<PAD>", "<UNK>", *"".join(KINDS.values())]
    return {"lang": "any", "idx": 0, "cutoff": 0, "lower": False, "_unit2id": {c: n for n, c in enumerate(listed)}}


def kind_table() -> np.ndarray:
    """[characters kinds], one 1 in each row."""
    rows = [0, 1, *(NAMES.index(name) for name, characters in KINDS.items() for _ in characters)]
    return np.eye(len(NAMES))[rows]


def node(operator: str, inputs: list[str], output: str, attribute: tuple[str, int | list[int]] | None = None) -> bytes:
    """A NodeProto with one output and at most one attribute of whole numbers."""
    fields = [*((1, name) for name in inputs), (2, output), (4, operator)]
    if attribute:
        name, value = attribute
        content = ((3, value), (20, 2)) if isinstance(value, int) else (*((8, each) for each in value), (20, 7))
        fields.append((5, message((1, name), *content)))  # type: ignore[arg-type]
    return message(*fields)


def tensor(name: str, values: np.ndarray) -> bytes:
    """A TensorProto of float32."""
    return message(*((1, size) for size in values.shape), (2, FLOAT), (8, name), (9, values.astype("<f4").tobytes()))


def declared(name: str, kind: int, shape: list[str | int]) -> bytes:
    """A ValueInfoProto; sizes with a name vary."""
    sizes = ((1, message((1, size) if isinstance(size, int) else (2, size))) for size in shape)
    return message((1, name), (2, message((1, message((1, kind), (2, message(*sizes)))))))
