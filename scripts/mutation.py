"""Random damage to bytes, to nested JSON data and to lines of text."""

import copy
import json
from random import Random
from typing import Any

NASTY = [
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\x1b[2J", b"\xc3", b"\xed\xa0\x80", b"../../",
    b"${oc.env:HOME}", b"!!python/object/apply:os.system ['true']", b"<script>", b"&lt;", b"\xe2\x80\xa8",
    b"\xe2\x80\xae", b"9" * 5000,
    b"-1", b"1e999", b"NaN", b"{", b"[" * 3000, b'"', b",", b":", b"=", b"'", b"\\",
    b"\x80\x04\x95", b"PK\x03\x04", "ẞ𝔘́ﷺ".encode(), b"a" * 70_000, b" ", b"\t", b"null", b"0-0", b"p",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**12, 10**400, 0.5, -0.0, 1e300, -1e300, float("inf"),
    float("nan"), "", "a", "0", "\0", "\x1b[2J", "../x", "/etc/passwd", "${oc.env:HOME}", "${data}", "???", "null",
    "x" * 5000, "\u202e", "\ud800", [], {}, [0], [[]], ["a", None], {"a": 1}, {"_target_": "os.system"}, [1e300, "a"],
    "auto", "meta", "transformer", "recurrent", "cuda:99", "de", "en",
]  # fmt: skip


def mutate_bytes(random: Random, content: bytes) -> bytes:
    """Content with one to four changes: bits, bytes, cuts, copies of its parts, and bytes that often harm."""
    result = bytearray(content)
    for _ in range(random.randint(1, 4)):
        place, other = (random.randint(0, len(result)) for _ in range(2))
        first, last = min(place, other), max(place, other)
        match random.randrange(7):
            case 0 if result:
                result[place % len(result)] ^= 1 << random.randrange(8)
            case 1 if result:
                result[place % len(result)] = random.randrange(256)
            case 2:
                del result[first : min(last, first + random.choice((1, 4, 100, 10**6)))]
            case 3:
                result[place:place] = random.choice(NASTY)
            case 4:
                result[place:place] = result[first : min(last, first + 200)]
            case 5:
                result = result[:place]
            case _:
                result[place:place] = random.randbytes(random.choice((1, 3, 30)))
    return bytes(result)


def mutate_tree(random: Random, tree: Any) -> Any:
    """A copy of nested dicts and lists with one to three changes."""
    tree = copy.deepcopy(tree)
    for _ in range(random.randint(1, 3)):
        nodes = [node for node in nodes_of(tree) if node]
        if not nodes:
            return random.choice(VALUES)
        node = random.choice(nodes)
        key = random.choice(list(node) if isinstance(node, dict) else range(len(node)))
        match random.randrange(6):
            case 0:
                del node[key]
            case 1 if isinstance(node, dict):
                node[random.choice(["a", "", "kind", "a.b", "${a}", "_target_", "0", "\0"])] = random.choice(VALUES)
            case 2 if isinstance(node, dict):
                value = node.pop(key)
                node[random.choice([*node, "other"])] = value
            case 3 if isinstance(node[key], int | float) and not isinstance(node[key], bool) and abs(node[key]) < 1e9:
                node[key] = random.choice(
                    [-node[key], node[key] * 10**6, node[key] + 1, node[key] // 7, str(node[key])]
                )
            case _:
                node[key] = copy.deepcopy(random.choice(VALUES))
    return tree


def nodes_of(tree: Any) -> list[Any]:
    """All dicts and lists of a tree."""
    if not isinstance(tree, dict | list):
        return []
    return [tree, *(node for child in (tree.values() if isinstance(tree, dict) else tree) for node in nodes_of(child))]


def to_json(value: Any) -> bytes:
    """JSON of a tree; keys that are no text and lone surrogates included."""
    return json.dumps(value).encode()
