"""The folder of a model of transformers: what is fetched from the hub, what is kept, and which
kinds are refused."""

import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.errors import UserError

READABLE = "Marian (OPUS-MT), M2M-100, NLLB-200, and what `nmt export --format hf` wrote"
HUB = "hf:"
# Small files, which nmt export writes back
KEPT = [
    "config.json",
    "generation_config.json",
    "*.spm",
    "*.model",
    "*vocab.json",
    "tokenizer.json",
]
KEPT += [
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "README.md",
    "LICENSE*",
]
# The first of these that a folder has; an index names several files
WEIGHTS = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
]
INDEX = ".index.json"
# model_type → norm, positions
FAMILIES = {
    "marian": ("post", "sinusoidal"),
    "pegasus": ("pre", "sinusoidal"),
    "m2m_100": ("pre", "sinusoidal_fairseq"),
}
MAX_JSON = 1 << 27  # bytes
LFS = b"version https://git-lfs"
LONGEST_POINTER = 1024  # bytes
ADAPTER = (
    "it has an adapter (LoRA); merge that into its base model with merge_and_unload() of peft, and "
    "import the folder "
    "that save_pretrained() of the merged model writes"
)
MARIAN = (
    "these are Marian's own files; convert them with convert_marian_to_pytorch of transformers, or "
    "take the same model "
    f"from the hub, such as {HUB}Helsinki-NLP/opus-mt-de-en"
)
QUANTIZED = (
    "its weights are quantized; take the original, or write it again after "
    "model.dequantize() of transformers"
)
SMALL100 = (
    "it is SMaLL-100, which is told the target language where M2M-100 is told the source language; "
    "take "
    f"{HUB}facebook/m2m100_418M"
)
WMT21 = (
    "it is a model of WMT21, whose language codes are not those of M2M-100; take "
    f"{HUB}facebook/m2m100_1.2B or {HUB}facebook/nllb-200-1.3B"
)
SMALL100_LAYERS = (12, 3)  # of encoder and decoder, which no published M2M-100 or NLLB-200 has


def fetch(source: str) -> tuple[Path, str]:
    """A folder, or that of hf:OWNER/NAME[@REVISION] from the hub or its cache, and its origin;
    raises UserError."""
    if not source.startswith(HUB):
        check_names(source, names_of(Path(source)))
        if not Path(source).is_dir():
            raise UserError(
                f"{source} is no folder; import takes a folder or {HUB}OWNER/NAME of {READABLE}."
            )
        return Path(source), f"imported from {source}"
    name, _, revision = source.removeprefix(HUB).partition("@")
    path = download(source, name, revision or None)
    return path, f"imported from {HUB}{name}@{path.name}"


def download(source: str, name: str, revision: str | None) -> Path:
    """The folder of a model in the hub's cache: first its small files, then one form of its
    weights.

    Without a network it is what the cache has. Raises UserError, for a model that cannot be
    imported before its weights are downloaded.
    """
    from huggingface_hub import HfApi, snapshot_download

    try:
        found = HfApi().model_info(name, revision=revision).siblings or []
        names = {each.rfilename for each in found}
    except Exception:  # the hub and its libraries fail in many ways; snapshot_download says why
        names = set()
    check_names(source, names)
    try:
        folder = Path(
            snapshot_download(name, revision=revision, allow_patterns=[*KEPT, f"*{INDEX}"])
        )
        check_folder(folder)
        names = names or names_of(folder)
        weights = next((each for each in WEIGHTS if each in names), None)
        patterns = WEIGHTS if weights is None else [weights]
        if weights and weights.endswith(INDEX):
            patterns = shard_names(folder / weights)
        return Path(
            snapshot_download(
                name, revision=revision, allow_patterns=[*KEPT, f"*{INDEX}", *patterns]
            )
        )
    except UserError as error:
        raise UserError(f"{source} cannot be imported: {error}.") from None
    except Exception as error:
        raise UserError(
            f"{source} cannot be downloaded: {str(error).splitlines()[0]:.300}"
        ) from None


def cached_models() -> Iterator[tuple[str, Path]]:
    """OWNER/NAME and folder of each model in the hub's cache whose weights are there."""
    from huggingface_hub.constants import HF_HUB_CACHE

    for path in sorted(Path(HF_HUB_CACHE).glob("models--*--*/snapshots/*/")):
        if any((path / name).exists() for name in WEIGHTS):
            owner, name = path.parts[-3].removeprefix("models--").split("--", 1)
            yield f"{owner}/{name}", path


def names_of(path: Path) -> set[str]:
    """The names of the files in a folder, or in a zip archive."""
    if path.is_dir():
        return {each.name for each in path.iterdir()}
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return {name.rpartition("/")[2] for name in archive.namelist()}
    return {path.name}


def check_names(source: str, names: Collection[str]) -> None:
    """Raise UserError for a kind of folder that its file names tell, and that cannot be read."""
    problem = ""
    if "adapter_config.json" in names:
        problem = ADAPTER
    elif "config.json" not in names and any(
        name == "decoder.yml" or name.endswith(".npz") for name in names
    ):
        problem = MARIAN
    if problem:
        raise UserError(f"{source} cannot be imported: {problem}.")


def check_folder(folder: Path) -> dict[str, Any]:
    """The configuration of a model that can be read; raises UserError for one that cannot, from its
    small files."""
    for path in folder.iterdir():
        if (
            path.is_file()
            and path.stat().st_size <= LONGEST_POINTER
            and path.read_bytes().startswith(LFS)
        ):
            raise UserError(
                f"{path.name} is a pointer of git-lfs; run `git lfs pull` in its "
                "folder to get the file"
            )
    config = read_json(folder / "config.json")
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise UserError(
            f"a model of type '{family:.40}' is of another architecture; choose one of {READABLE}"
        )
    if config.get("quantization_config"):
        raise UserError(QUANTIZED)
    if family == "m2m_100":
        check_relatives(config, read_optional(folder / "tokenizer_config.json"))
    return config


def check_relatives(config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> None:
    """Raise UserError for models of M2M-100's type that are told their languages in another way."""
    names = (
        config.get("_name_or_path"),
        tokenizer.get("name_or_path"),
        tokenizer.get("tokenizer_class"),
    )
    text = " ".join(str(name) for name in names).lower()
    layers = (config.get("encoder_layers"), config.get("decoder_layers"))
    if "small100" in text or layers == SMALL100_LAYERS:
        raise UserError(SMALL100)
    if "wmt21" in text or tokenizer.get("language_codes") == "wmt21":
        raise UserError(WMT21)
    if tokenizer.get("legacy_behaviour"):
        raise UserError(
            "its tokenizer puts the language behind the sentence (legacy_behaviour); NLLB-200 was "
            "trained with it "
            "before the sentence: set legacy_behaviour to false in tokenizer_config.json to import "
            "it so"
        )


def kept_files(folder: Path) -> list[Path]:
    """The small files of a folder of transformers; raises UserError."""
    found = sorted({path for pattern in KEPT for path in folder.glob(pattern)})
    if large := [path for path in found if path.stat().st_size > MAX_JSON]:
        raise UserError(f"{large[0]} is larger than {MAX_JSON >> 20} MiB.")
    return found


def shard_names(index: Path) -> list[str]:
    """The files that an index of weights names, each beside it; raises UserError."""
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise UserError(f"{index.name} has no weight_map")
    for name in files.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise UserError(f"{index.name} names {str(name)!r:.100}, which is no file beside it")
    return sorted(set(files.values()))


def read_optional(path: Path) -> dict[str, Any]:
    """The content of a JSON file, {} where there is none; raises UserError."""
    return read_json(path) if path.exists() else {}


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; raises UserError."""
    try:
        if path.stat().st_size > MAX_JSON:
            raise UserError(f"{path.name} is larger than {MAX_JSON >> 20} MiB")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise UserError(f"{path.name} cannot be read: {reason}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path.name} does not hold an object")
    return content
