"""A model by its name: a folder, or what is fetched from the Hugging Face hub."""

import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

from nmt.convert.pretrained.families import READABLE, check_folder
from nmt.convert.pretrained.files import HUB, INDEX, KEPT, WEIGHTS, shard_names
from nmt.errors import UserError

ADAPTER = (
    "it has an adapter (LoRA); merge that into its base model with merge_and_unload() of peft, "
    "and import the folder that save_pretrained() of the merged model writes"
)
MARIAN = (
    "these are Marian's own files; convert them with convert_marian_to_pytorch of transformers, "
    f"or take the same model from the hub, such as {HUB}Helsinki-NLP/opus-mt-de-en"
)


def fetch(source: str) -> tuple[Path, str]:
    """A folder, or that of hf:OWNER/NAME[@REVISION], and its origin; raises UserError."""
    if not source.startswith(HUB):
        check_names(source, names_of(Path(source)))
        if not Path(source).is_dir():
            raise UserError(
                f"{source} is not a folder; import takes a folder or {HUB}OWNER/NAME of {READABLE}."
            )
        return Path(source), f"imported from {source}"
    name, _, revision = source.removeprefix(HUB).partition("@")
    path = download(source, name, revision or None)
    return path, f"imported from {HUB}{name}@{path.name}"


def download(source: str, name: str, revision: str | None) -> Path:
    """The folder of a model in the hub's cache.

    First its small files are downloaded, then one form of its weights; without a network it is what
    the cache has. Raises UserError, for a model that cannot be imported before its weights are
    downloaded.
    """
    from huggingface_hub import HfApi, snapshot_download

    try:
        files = HfApi().model_info(name, revision=revision).siblings or []
        names = {file.rfilename for file in files}
    except Exception:  # the hub and its libraries fail in many ways; snapshot_download says why
        names = set()
    check_names(source, names)
    small = [*KEPT, f"*{INDEX}"]
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=small))
        check_folder(folder)
        names = names or names_of(folder)
        weights = [each for each in WEIGHTS if each in names][:1] or WEIGHTS
        if weights[0].endswith(INDEX):
            weights = shard_names(folder / weights[0])
        patterns = [*small, *weights]
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except UserError as error:
        raise UserError(f"{source} cannot be imported: {str(error).rstrip('.')}.") from None
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{source} cannot be downloaded: {reason:.300}") from None


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
    elif "config.json" not in names:
        if any(name == "decoder.yml" or name.endswith(".npz") for name in names):
            problem = MARIAN
    if problem:
        raise UserError(f"{source} cannot be imported: {problem}.")
