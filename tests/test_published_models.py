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
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from corpora import run_command
from test_pretrained import ODD

import nmt

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
MODELS = {"opus-mt-en-mg": [], "opus-mt-uk-en": [], "opus-mt-tc-big-fr-en": []}
SCRIPTS = "LATIN GREEK CYRILLIC ARMENIAN HEBREW ARABIC DEVANAGARI".split()
SCRIPTS += "BENGALI TAMIL THAI GEORGIAN HANGUL HIRAGANA ETHIOPIC".split()
LIMIT = 24  # pieces of a translation


def save_bed(name: str, folder: Path, **changes: Any) -> None:
    """A published folder with random weights as legacy pytorch_model.bin; the published files stay
    as they are."""
    for path in (PUBLISHED / name).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text("utf-8")) | SMALL | changes
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    kinds = {
        "marian": transformers.MarianMTModel,
        "m2m_100": transformers.M2M100ForConditionalGeneration,
    }
    kind = kinds[config["model_type"]]
    torch.manual_seed(1)
    model = kind(kind.config_class.from_dict(config))
    if hasattr(model, "final_logits_bias"):
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


def open_theirs(folder: Path) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return transformers.AutoModelForSeq2SeqLM.from_pretrained(
            folder, dtype=torch.float32
        ).eval(), tokenizer


def different_pieces(ours: Any, theirs: Any, lines: list[str]) -> tuple[list[str], int]:
    """The lines whose pieces differ without an <unk> on either side, and how many have one; on both
    sides."""
    wrong = []
    unknown = 0
    theirs._switch_to_target_mode()
    for side, text in ((ours.target, "text_target"), (ours.source, "text")):
        ids = [theirs.convert_tokens_to_ids(piece) for piece in side.all_pieces]
        theirs._switch_to_input_mode()
        for line, mine in zip(lines, side.encode_all(lines), strict=True):
            wanted = theirs(**{text: line}).input_ids[:-1]
            if theirs.unk_token_id in wanted or side.processor.unk_id() in mine:
                unknown += 1
            elif [ids[piece] for piece in mine] != wanted:
                wrong.append(line)
    return wrong, unknown


def different_translations(
    run: Any, model: Any, theirs: Any, lines: list[str], **options: Any
) -> list[str]:
    """The lines whose greedy translations differ."""
    decode = replace(
        run.translator.decode,
        beam=1,
        avoid_loops=False,
        max_length_ratio=0.0,
        max_length_extra=LIMIT,
    )
    translated = list(replace(run.translator, decode=decode, num_processes=1).translate(lines))
    of_piece = [
        theirs.convert_tokens_to_ids(piece) for piece in run.translator.tokenizers.target.all_pieces
    ]
    end = model.generation_config.eos_token_id
    wrong = []
    transformers.logging.set_verbosity_error()
    for start in range(0, len(lines), 50):
        batch = theirs(lines[start : start + 50], return_tensors="pt", padding=True)
        rows = model.generate(
            **batch, num_beams=1, do_sample=False, max_new_tokens=LIMIT, **options
        )[:, 1:].tolist()
        for line, ids, ours in zip(lines[start:], rows, translated[start:], strict=False):
            wanted = ids[: ids.index(end)] if end in ids else ids
            mine = [of_piece[piece] for piece in ours.ids]
            # one that does not end is cut there, and gets </s> here
            if mine[: LIMIT - 1] != wanted[: LIMIT - 1]:
                wrong.append(line)
    return wrong


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_is_the_same(name, tmp_path, capfd):
    """As it is on the hub: its languages are told by its tokenizer_config.json, its weights are of
    torch < 1.6."""
    (tmp_path / "model").mkdir()
    save_bed(name, tmp_path / "model")
    answer = run_command(
        capfd, "import", str(tmp_path / "model"), "--name", "run", "--runs", str(tmp_path)
    )
    assert answer.code == 0, answer.err
    model, theirs = open_theirs(tmp_path / "model")
    run = nmt.load("run", run_folder=tmp_path, precision="fp32")
    lines = [*lines_of_scripts(80), *shared_lines(80), *ODD]
    wrong, unknown = different_pieces(run.translator.tokenizers, theirs, lines)
    print(name, len(lines), "lines,", unknown, "of both sides with <unk>,", len(wrong), "different")
    assert not wrong
    sources = [
        line
        for line in shared_lines(60)
        if len(line) < 200 and theirs.unk_token_id not in theirs(line).input_ids
    ]
    sources = sources[:300]
    different = different_translations(run, model, theirs, sources)
    print(name, len(different), "of", len(sources), "greedy translations differ")
    assert not different
