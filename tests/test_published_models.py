"""Published tokenizers and configurations with random weights: the pieces and greedy translations
of transformers.

They are in ../shared/pretrained, which a checkout need not have; the models are made smaller, and
saved as published.
"""

import gzip
import json
import random
import unicodedata
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from test_pretrained import ODD, different_pieces, import_run, open_theirs, translations

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; `make test` brings it"
)
SHARED = Path(__file__).parents[2] / "shared"
PUBLISHED = SHARED / "pretrained"
TEXT = SHARED / "data"
needs_shared = pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"{PUBLISHED} is not there")
SMALL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_hidden_layers": 2,
    "init_std": 0.3,
}
SMALL |= {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
SMALL |= {f"{side}_ffn_dim": 64 for side in ("encoder", "decoder")}
MODELS = ["opus-mt-en-mg", "opus-mt-uk-en", "opus-mt-tc-big-fr-en"]
SCRIPTS = "LATIN GREEK CYRILLIC ARMENIAN HEBREW ARABIC DEVANAGARI".split()
SCRIPTS += "BENGALI TAMIL THAI GEORGIAN HANGUL HIRAGANA ETHIOPIC".split()


def save_bed(name: str, folder: Path, **changes: Any) -> None:
    """A published folder with random weights as legacy pytorch_model.bin; the published files stay
    as they are."""
    for path in (PUBLISHED / name).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text("utf-8")) | SMALL | changes
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    kind = transformers.MarianMTModel
    torch.manual_seed(1)
    model = kind(kind.config_class.from_dict(config))
    model.final_logits_bias.normal_()
    torch.save(
        model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=False
    )


def lines_of_scripts(count: int) -> list[str]:
    """Random words of random letters of each script."""
    generator = random.Random(1)
    found = []
    for script in SCRIPTS:
        letters = [
            chr(code)
            for code in range(0x20000)
            if unicodedata.name(chr(code), "").startswith(f"{script} ")
        ]
        for _ in range(count):
            words = (
                "".join(generator.choices(letters, k=generator.randint(1, 8))) for _ in range(8)
            )
            found.append(" ".join(words))
    return found


def shared_lines(count: int) -> list[str]:
    """The first lines of each text of ../shared/data."""
    found = []
    for path in sorted(TEXT.glob("*/*.gz")):
        if path.suffixes[-2] != ".align":
            with gzip.open(path, "rt", encoding="utf-8") as file:
                found += [line.strip() for line in islice(file, count) if line.strip()]
    return found


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_is_the_same(name, tmp_path):
    """As it is on the hub: its languages are told by its tokenizer_config.json, its weights are of
    torch < 1.6."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_bed(name, folder)
    run = import_run(folder, tmp_path, "run")
    model, theirs = open_theirs(folder)
    lines = [*lines_of_scripts(80), *shared_lines(80), *ODD]
    wrong, unknown = different_pieces(run.translator.tokenizers, theirs, lines)
    print(name, len(lines), "lines,", unknown, "of both sides with <unk>,", len(wrong), "different")
    assert not wrong
    sources = [line for line in shared_lines(60) if len(line) < 200]
    sources = [line for line in sources if theirs.unk_token_id not in theirs(line).input_ids][:300]
    found = list(translations(run, model, theirs, sources, beam=1))
    different = sum(ours != wanted for ours, wanted in found)
    print(name, different, "of", len(sources), "greedy translations differ")
    assert not different


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_trimmed_model_divides_kept_text_as_before(name, tmp_path):
    """And all text as transformers do with its tokenizer."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_bed(name, folder)
    given = shared_lines(40)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in given), "utf-8")
    whole = import_run(folder, tmp_path, "whole").translator.tokenizers
    options = ["--trim", str(tmp_path / "text")]
    trimmed = import_run(folder, tmp_path, "trimmed", options).translator.tokenizers
    lines = shared_lines(160)
    for before, after in zip(whole, trimmed, strict=True):
        gone = set(before.all_pieces) - set(after.all_pieces)
        divided = [before.pieces(ids) for ids in before.encode_all(lines)]
        kept = [n for n, pieces in enumerate(divided) if gone.isdisjoint(pieces)]
        again = [after.pieces(ids) for ids in after.encode_all([lines[n] for n in kept])]
        print(name, after.size, "of", before.size, "pieces;", len(kept), "of", len(lines), "lines")
        assert len(gone) > 1000 and len(kept) > len(given)
        assert again == [divided[n] for n in kept]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "trimmed/pretrained")
    wrong, _ = different_pieces(trimmed, theirs, [*lines, *ODD])
    assert not wrong
