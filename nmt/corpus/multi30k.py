"""Multi30k from the Hugging Face hub (en and de), else from the files of its authors' repository.

Both end as a pair of files in the download folder, so that what was downloaded once needs no
network again. Both are verified: the plain files, of a fixed commit, by their sha256, and the hub's
sentences, of any revision, by the sha256 of the same text. Licence: the Flickr30k terms,
non-commercial research and education.
"""

import hashlib
import logging
from itertools import chain
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.corpus import hub
from nmt.corpus.checksums import has_digest
from nmt.corpus.download import download
from nmt.corpus.files import report_write_errors
from nmt.corpus.language_pairs import each_pair, is_multilingual, of_pair
from nmt.corpus.origin import Origin, plain_origin
from nmt.corpus.parallel_text import read_lines
from nmt.errors import UserError, choose

HUB_NAME = "bentrevett/multi30k"
HUB_SPLITS = {"train": "train", "val": "validation", "test_2016_flickr": "test"}
COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"
LANGUAGES = ("en", "de", "fr", "cs")
LICENSE = "the Flickr30k terms, for non-commercial research and education"
# A line has NAME.LANGUAGE, the sha256 of NAME.LANGUAGE.gz ("": the commit in the address alone pins
# it), and the sha256 of its text without spaces at both ends of each line, which the hub must give.
CHECKSUMS: dict[str, str | None] = {}
TEXT_CHECKSUMS: dict[str, str] = {}
for line in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines():
    key, packed_digest, text_digest = line.split("\t")
    CHECKSUMS[key] = packed_digest or None
    if text_digest:
        TEXT_CHECKSUMS[key] = text_digest
logger = logging.getLogger("nmt")


def digest() -> str:
    """What its text depends on."""
    return COMMIT


def check_sets(data: DataConfig, groups: dict[str, list[str]]) -> None:
    """Raise UserError for languages or sets that Multi30k does not have.

    With several language pairs, each has some of the sets.
    """
    for pair in each_pair(data):
        for language in (pair.source, pair.target):
            choose("language of Multi30k", language, dict.fromkeys(LANGUAGES))
        possible = dict.fromkeys(possible_sets(pair.source, pair.target))
        for name in chain(*groups.values()):
            if not is_multilingual(data):
                choose(f"Multi30k set for {pair.source}-{pair.target}", name, possible)


def possible_sets(source: str, target: str) -> list[str]:
    """The sets that exist in both languages."""
    names = {key.rpartition(".")[0] for key in CHECKSUMS}
    return sorted(
        name for name in names if CHECKSUMS.keys() >= {f"{name}.{source}", f"{name}.{target}"}
    )


def find_sets(
    data: DataConfig, groups: dict[str, list[str]], downloads: Path
) -> dict[str, list[Origin]]:
    """The origins of sets of Multi30k, of each language pair that has them. Raises UserError."""
    names = list(dict.fromkeys(chain(*groups.values())))
    sets: dict[str, list[Origin]] = {name: [] for name in groups}
    for pair in each_pair(data):
        possible = possible_sets(pair.source, pair.target)
        wanted = [name for name in names if name in possible]
        files = download_sets(pair, wanted, downloads)
        for name, group in groups.items():
            for part in group:
                if part in files:
                    origin = plain_origin(part, *files[part], {"license": LICENSE})
                    sets[name].append(of_pair(origin, pair, data))
    return sets


def download_sets(
    data: DataConfig, names: list[str], downloads: Path
) -> dict[str, tuple[Path, Path]]:
    """The source and target file of every named set, downloaded unless an earlier call did.

    Raises UserError.
    """

    has_hub = {data.source, data.target} == {"de", "en"}
    sets = {}
    for name in names:
        keys = f"{name}.{data.source}", f"{name}.{data.target}"
        sets[name] = downloads / f"{keys[0]}.gz", downloads / f"{keys[1]}.gz"
        missing = []
        for key, path in zip(keys, sets[name], strict=True):
            checksum = CHECKSUMS[key]
            if not path.is_file() or (checksum is not None and not has_digest(path, checksum)):
                missing.append((key, path))
        if missing and has_hub and name in HUB_SPLITS:
            try:
                sets[name] = from_hub(keys, data, downloads)
                continue
            except UserError as error:
                has_hub = False
                logger.info(
                    "The Hugging Face hub does not give %s (%s); trying the plain files.",
                    HUB_NAME,
                    error,
                )
        for key, path in missing:
            download_file(key, path)
    return sets


def from_hub(keys: tuple[str, str], data: DataConfig, downloads: Path) -> tuple[Path, Path]:
    """The two files of a set, from the hub or an earlier call.

    Raises UserError if they are not the known text.
    """
    split = HUB_SPLITS[keys[0].rpartition(".")[0]]
    source, target = hub.find_data_set(f"hub:{HUB_NAME}:{split}", data, downloads)().files
    for path, key in ((source, keys[0]), (target, keys[1])):
        digest = hashlib.sha256()
        for sentence in read_lines(path):
            digest.update(sentence.strip().encode() + b"\n")
        if digest.hexdigest() != TEXT_CHECKSUMS[key]:
            raise UserError(f"{key} is not the known text: its sha256 is {digest.hexdigest()}")
    return source, target


def download_file(key: str, path: Path) -> None:
    """Download KEY.gz; raises UserError without a network, and for another checksum."""
    try:
        with report_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            download(f"{ADDRESS}/{key}.gz", path, lambda _: None, CHECKSUMS[key])
    except UserError as error:
        raise UserError(
            f"{error} Connect to a network or, for the sets that the Hugging Face hub has, set "
            "HF_ENDPOINT to a mirror of it; data=files reads your own pairs, and data=phrasebook "
            "needs no network."
        ) from None
