"""What scripts/torture/fuzz.py damages: for each reader, how an input is made and how it is read."""

import gzip
import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from mutation import NASTY, VALUES, mutate_bytes, mutate_tree, to_json
from small_run import small_config

from nmt.commands import check_sentence
from nmt.config.compose import compose_all
from nmt.config.schema import DataConfig, flatten, to_dict
from nmt.config.validation import validate
from nmt.data.corpus import build_corpus
from nmt.data.line_chunks import read_chunks
from nmt.data.parallel_text import read_pairs
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.evaluate.gold import read_gold_alignments
from nmt.runs import run as runs
from nmt.runs import stages
from nmt.runs.comparison.systems import read_training
from nmt.runs.results import read_result
from nmt.runs.scoring import Result


@dataclass
class Material:
    """A sound run, whose files are damaged, and a folder to write to."""

    run: Path
    root: Path


class Prepared(NamedTuple):
    """A target that is ready: `make` draws an input, `read` uses it, or raises UserError."""

    make: Callable[[Random], Any]
    read: Callable[[Any], object]


class Target(NamedTuple):
    """A reader with its share of all inputs."""

    name: str
    share: int  # per mille
    prepare: Callable[[Material], Prepared]


def corpus(material: Material) -> Prepared:
    """Pairs of files, some of them packed."""
    text = "Ein Junge malt das rote Fahrrad.\nDie Frau liest.\n\nGrüße!\n".encode() * 3
    paths = [material.root / f"pairs.{ending}" for ending in ("de", "en", "de.gz")]
    paths[1].write_bytes(text)

    def make(random: Random) -> tuple[bool, bytes]:
        packed = random.random() < 0.3
        return packed, mutate_bytes(random, gzip.compress(text) if packed else text)

    def read(given: tuple[bool, bytes]) -> None:
        path = paths[2 if given[0] else 0]
        path.write_bytes(given[1])
        for source, target in read_pairs(path, paths[1]):
            assert "\n" not in source + target

    return Prepared(make, read)


def corpus_stage(material: Material) -> Prepared:
    """The stage that writes a corpus: whole files with damage, from reading to the report."""
    text = "".join(f"Satz Nummer {number} ist hier.\n" for number in range(30)).encode()
    data = small_config(material.root).data
    prefix = str(material.root / "stage")
    config = DataConfig(**asdict(data) | {"kind": "files", "train": prefix, "valid": prefix, "test": None})
    Path(f"{prefix}.en").write_bytes(text)

    def read(content: bytes) -> None:
        Path(f"{prefix}.de").write_bytes(content)
        folder = material.root / "built"
        folder.mkdir(exist_ok=True)
        build_corpus(config, folder, material.root / "downloads")

    return Prepared(lambda random: mutate_bytes(random, text), read)


def overrides(material: Material) -> Prepared:
    """Words of the command line: values of every key, and words that are none."""
    keys = list(flatten(small_config(material.root)))
    words = [
        *(f"{key}=1" for key in keys),
        "model=transformer",
        "data=files",
        "+a=1",
        "~model",
        "hydra.x=1",
        "model@x=y",
    ]

    def make(random: Random) -> list[str]:
        if random.random() < 0.5:
            value = random.choice([value for value in VALUES if value != 10**400])
            return [f"{random.choice(keys)}={value}"]
        word = mutate_bytes(random, random.choice(words).encode()).decode(errors="surrogateescape")
        return [word[:2000]]

    return Prepared(make, lambda given: compose_all(given, multirun=False))


def saved_configuration(material: Material) -> Prepared:
    """The configuration inside a checkpoint."""
    tree = to_dict(small_config(material.root))
    return Prepared(lambda random: mutate_tree(random, tree), lambda given: validate(as_saved(given)))


def as_saved(tree: Any) -> dict[str, Any]:
    """The tree as JSON gives it back; what is no dict is refused before."""
    tree = json.loads(to_json(tree))
    if not isinstance(tree, dict):
        raise UserError("a checkpoint refuses this before")
    return tree


def tokenizer(material: Material) -> Prepared:
    """The folder of the tokenizer stage; what can be loaded must also work."""
    (folder,) = (material.root / "data").glob("tokenizer-*")
    read_names = ("joint.model", "tokenizer.json")
    contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.name in read_names}
    copy = material.root / "tokenizer"
    copy.mkdir(exist_ok=True)

    def make(random: Random) -> dict[str, bytes]:
        name = random.choice(sorted(contents))
        return contents | {name: mutate_bytes(random, contents[name])}

    def read(given: dict[str, bytes]) -> None:
        for name, content in given.items():
            (copy / name).write_bytes(content)
        tokenizers = Tokenizers.load(copy)
        ids = tokenizers.source.encode("Ein Junge malt das rote Fahrrad.")
        tokenizers.target.decode([min(number, tokenizers.target.size - 1) for number in ids])

    return Prepared(make, read)


def checkpoint_bytes(material: Material) -> Prepared:
    """Bytes of a checkpoint, changed anywhere; the checksum is as it was."""
    content, path = (material.run / "best.safetensors").read_bytes(), material.root / "bytes.safetensors"

    def read(given: bytes) -> None:
        path.write_bytes(given)
        runs.load([path])
        assert given == content, "other bytes were loaded"  # some changes change nothing

    return Prepared(lambda random: mutate_bytes(random, content), read)


def checkpoint_content(material: Material) -> Prepared:
    """The header of best or last, changed and given the right checksum, as somebody who means harm would."""
    contents = [(material.run / f"{name}.safetensors").read_bytes() for name in ("best", "last")]
    folder = material.root / "content"
    folder.mkdir(exist_ok=True)

    def make(random: Random) -> bytes:
        content = random.choice(contents)
        length = struct.unpack("<Q", content[:8])[0]
        header, data = content[8 : 8 + length], content[8 + length : -32]
        match random.randrange(4):
            case 0:
                header = mutate_bytes(random, header)
            case 1:
                header = to_json(mutate_tree(random, json.loads(header)))
            case 2:
                texts = {key: json.loads(text) for key, text in json.loads(header)["__metadata__"].items()}
                texts = {key: json.dumps(value) for key, value in mutate_tree(random, texts).items()}
                header = to_json(json.loads(header) | {"__metadata__": texts})
            case _:
                data = mutate_bytes(random, data)[: len(data)].ljust(len(data), b"\xff")
        signed = struct.pack("<Q", len(header)) + header + data
        return signed + hashlib.sha256(signed).digest()

    def read(given: bytes) -> None:
        for name in ("best", "last"):
            (folder / f"{name}.safetensors").write_bytes(given)
        read_training(folder / "best.safetensors")
        runs.load([folder / "best.safetensors"])

    return Prepared(make, read)


def gold_links(material: Material) -> Prepared:
    """Pharaoh links."""
    text = b"0-0 1-1 2p3 4-2\n\n0-1\n12-7 7p12\n"
    path = material.root / "gold.align"

    def read(given: bytes) -> None:
        path.write_bytes(given)
        read_gold_alignments(path, [("ein Satz", "a sentence")] * 4)

    return Prepared(lambda random: mutate_bytes(random, text), read)


def stored_results(material: Material) -> Prepared:
    """result.json with another content and the right checksum, or with other bytes."""
    source, folder = material.run / "evaluate" / "test", material.root / "evaluate" / "test"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hyp").write_bytes((source / "hyp").read_bytes())
    content = (source / "result.json").read_bytes()
    provenance = json.loads(content)["provenance"]
    tree = {key: value for key, value in json.loads(content).items() if not key.startswith("sha256_of_the")}

    def make(random: Random) -> bytes:
        if random.random() < 0.3:
            return mutate_bytes(random, content)
        text = json.dumps(mutate_tree(random, tree), indent=1).removesuffix("\n}").encode()
        end = f',\n "sha256_of_the_above": "{hashlib.sha256(text).hexdigest()}"\n}}\n'
        return text + end.encode()

    def read(given: bytes) -> None:
        (folder / "result.json").write_bytes(given)
        stored = read_result(folder, provenance)
        if stored is None:
            raise UserError("it is computed again")
        Result("test", stored["bleu"], stored["chrf"], stored["bleu_signature"], stored.get("aer")).line()

    return Prepared(make, read)


def corpus_reports(material: Material) -> Prepared:
    """report.json of a corpus that a checkpoint points to."""
    from nmt.runs.test_sets import existing_corpus

    (report,) = (material.root / "data").glob("corpus-*/report.json")
    tree, folder = json.loads(report.read_bytes()), material.root / "found" / "corpus-1"
    folder.mkdir(parents=True, exist_ok=True)
    config = small_config(material.root)
    config.data_folder = str(folder.parent)

    def read(given: bytes) -> None:
        (folder / "report.json").write_bytes(given)
        if existing_corpus(config, {tree["corpus_hash"]}, material.run):
            assert all("/" not in name for name in stages.read_report(folder)["sets"])

    def make(random: Random) -> bytes:
        content = to_json(mutate_tree(random, tree))
        return mutate_bytes(random, content) if random.random() < 0.3 else content

    return Prepared(make, read)


def lines_to_translate(material: Material) -> Prepared:
    """A line for `nmt translate`, through the tokenizer and a model with a short search."""
    run = runs.load([material.run / "best.safetensors"], beam=1)
    run.translator.decode.max_length_extra = 5
    samples = [*NASTY, b"Wo ist der Bahnhof?", b"", "東京。".encode()]

    def make(random: Random) -> bytes:
        return mutate_bytes(random, random.choice(samples)[:300])[:400]

    def read(given: bytes) -> None:
        lines = [text for chunk in read_chunks(BytesIO(given), "stdin", live=False) for text in chunk.texts] or [""]
        check_sentence(lines[0], "--input")
        assert len(run.translate(lines)) == len(lines)

    return Prepared(make, read)


TARGETS = [
    Target("corpus", 330, corpus),
    Target("corpus stage", 20, corpus_stage),
    Target("overrides", 4, overrides),
    Target("saved configuration", 80, saved_configuration),
    Target("tokenizer", 126, tokenizer),
    Target("checkpoint, bytes", 120, checkpoint_bytes),
    Target("checkpoint, content", 70, checkpoint_content),
    Target("gold links", 100, gold_links),
    Target("stored results", 100, stored_results),
    Target("corpus reports", 40, corpus_reports),
    Target("lines to translate", 10, lines_to_translate),
]
