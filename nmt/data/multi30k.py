"""Multi30k from two sources: the Hugging Face hub (en and de), else the plain files of its authors' repository.

Both end as a pair of files in the download folder, so that what was downloaded once needs no network again. Both are
verified: the plain files, of a fixed commit, by their sha256, and the hub's sentences by the sha256 of the same text,
whatever revision of the hub they are from. Licence: the Flickr30k terms, non-commercial research and education.
"""

import hashlib
import logging
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.data import hub
from nmt.data.checksums import has_digest
from nmt.data.download import download
from nmt.data.files import report_write_errors
from nmt.data.language_pairs import each_pair, is_multilingual, of_pair
from nmt.data.origin import Origin, plain_origin
from nmt.data.parallel_text import read_lines
from nmt.errors import UserError, choose

HUB_NAME = "bentrevett/multi30k"
HUB_SPLITS = {"train": "train", "val": "validation", "test_2016_flickr": "test"}
COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"
LANGUAGES = ("en", "de", "fr", "cs")
LICENSE = "the Flickr30k terms, for non-commercial research and education"
# sha256 of NAME.LANGUAGE.gz; None: unknown, the file is pinned by the commit in its address alone.
CHECKSUMS: dict[str, str | None] = {
    "test_2016_flickr.cs": "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
    "test_2016_flickr.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "test_2017_flickr.de": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.fr": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    "train.cs": "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077",
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.cs": "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc",
    "val.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2017_mscoco.de": None,
    "test_2017_mscoco.en": None,
    "test_2017_mscoco.fr": None,
}
# sha256 of the text of the same files, spaces at both ends of each line removed; what the hub gives must be this text.
TEXT_CHECKSUMS = {
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "train.de": "67aa53ff412b6af1f47c604a623e112e2c28c61519aa7cf8a5348af21722b67a",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
}

logger = logging.getLogger("nmt")


def check_sets(source: str, target: str, names: list[str]) -> None:
    """Raise UserError unless every named set exists in both languages."""
    for language in (source, target):
        choose("language of Multi30k", language, dict.fromkeys(LANGUAGES))
    for name in names:
        choose(f"Multi30k set for {source}-{target}", name, dict.fromkeys(possible_sets(source, target)))


def possible_sets(source: str, target: str) -> list[str]:
    sets = {key.rsplit(".", 1)[0] for key in CHECKSUMS}
    return sorted(name for name in sets if f"{name}.{source}" in CHECKSUMS and f"{name}.{target}" in CHECKSUMS)


def find(data: DataConfig, groups: dict[str, list[str]], downloads: Path) -> dict[str, list[Origin]]:
    """The origins of sets of Multi30k; with several language pairs, those that each pair has. Raises UserError."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    sets: dict[str, list[Origin]] = {name: [] for name in groups}
    for pair in each_pair(data):
        possible = possible_sets(pair.source, pair.target) if is_multilingual(data) else names
        files = download_sets(pair, [name for name in names if name in possible], downloads)
        for name, group in groups.items():
            origins = [plain_origin(part, *files[part], {"license": LICENSE}) for part in group if part in files]
            sets[name] += [of_pair(origin, pair, data) for origin in origins]
    return sets


def download_sets(data: DataConfig, names: list[str], downloads: Path) -> dict[str, tuple[Path, Path]]:
    """The source and target file of every named set, downloaded unless an earlier call did; raises UserError."""
    check_sets(data.source, data.target, names)
    has_hub, sets = {data.source, data.target} == {"de", "en"}, {}
    for name in names:
        keys = f"{name}.{data.source}", f"{name}.{data.target}"
        sets[name] = files = downloads / f"{keys[0]}.gz", downloads / f"{keys[1]}.gz"
        missing = [
            (key, path)
            for key, path in zip(keys, files, strict=True)
            if not path.is_file() or (CHECKSUMS[key] is not None and not has_digest(path, CHECKSUMS[key]))
        ]
        if missing and has_hub and name in HUB_SPLITS:
            try:
                sets[name], missing = from_hub(keys, data, downloads), []
            except UserError as error:
                has_hub = False
                logger.info("The Hugging Face hub does not give %s (%s); trying the plain files.", HUB_NAME, error)
        for key, path in missing:
            download_file(key, path)
    return sets


def from_hub(keys: tuple[str, str], data: DataConfig, downloads: Path) -> tuple[Path, Path]:
    """The two files of a set, from the hub or an earlier call; raises UserError where they are not the known text."""
    split = HUB_SPLITS[keys[0].rpartition(".")[0]]
    source, target = hub.find(f"hub:{HUB_NAME}:{split}", data, downloads)().files
    for path, key in ((source, keys[0]), (target, keys[1])):
        digest = hashlib.sha256()
        for sentence in read_lines(path):
            digest.update(sentence.strip().encode() + b"\n")
        if digest.hexdigest() != TEXT_CHECKSUMS[key]:
            raise UserError(f"{key} is not the known text: its sha256 is {digest.hexdigest()}")
    return source, target


def download_file(key: str, path: Path) -> None:
    """Download KEY.gz; raises UserError when there is no network or the checksum is not the expected one."""
    try:
        with report_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            download(f"{ADDRESS}/{key}.gz", path, lambda _: None, CHECKSUMS[key])
    except UserError as error:
        raise UserError(
            f"{error} Connect to a network or, for the sets that the Hugging Face hub has, set HF_ENDPOINT to a mirror "
            "of it; data=files reads your own pairs, and data=phrasebook needs no network."
        ) from None
