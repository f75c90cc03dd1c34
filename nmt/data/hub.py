"""Multi30k from two sources: the Hugging Face hub (en and de), else the plain files of its authors' repository.

Both end as a pair of files in the download folder, so that the rest of the program handles files only, and what was
downloaded once needs no network again. Both are verified: the plain files, of a fixed commit, by their sha256, and the
hub's sentences by the sha256 of the same text, whatever revision of the hub they are from. Licence: the Flickr30k
terms, non-commercial research and education.
"""

import hashlib
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from nmt.data.digests import file_digest
from nmt.data.files import open_atomic, write_atomic
from nmt.data.parallel_text import read_lines, to_line
from nmt.errors import UserError, choose

HUB_NAME = "bentrevett/multi30k"
HUB_SPLITS = {"train": "train", "val": "validation", "test_2016_flickr": "test"}
HUB_LANGUAGES = {"de", "en"}
COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"
TIMEOUT = 10  # seconds without an answer
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
    possible = possible_sets(source, target)
    for name in names:
        choose(f"Multi30k set for {source}-{target}", name, dict.fromkeys(possible))


def possible_sets(source: str, target: str) -> list[str]:
    """The sets that exist in both languages."""
    sets = {key.rsplit(".", 1)[0] for key in CHECKSUMS}
    return sorted(name for name in sets if f"{name}.{source}" in CHECKSUMS and f"{name}.{target}" in CHECKSUMS)


def download_sets(source: str, target: str, names: list[str], downloads: Path) -> dict[str, tuple[Path, Path]]:
    """The source and target file of every named set, downloaded unless an earlier call did; raises UserError."""
    check_sets(source, target, names)
    downloads.mkdir(parents=True, exist_ok=True)
    sets = {name: files for name in names if (files := downloaded_files(name, source, target, downloads))}
    missing = [name for name in names if name not in sets]
    on_hub = [name for name in missing if name in HUB_SPLITS]
    if on_hub and {source, target} == HUB_LANGUAGES:
        sets |= load_from_hub(source, target, on_hub, downloads)
    for name in missing:
        if name not in sets:
            sets[name] = (
                download_file(f"{name}.{source}", downloads),
                download_file(f"{name}.{target}", downloads),
            )
    return sets


def downloaded_files(name: str, source: str, target: str, downloads: Path) -> tuple[Path, Path] | None:
    """The files of a set that an earlier call downloaded, from the hub or as plain files; None when there are none."""
    for folder, ending, is_expected in (
        (downloads / "hub", "", has_expected_text),
        (downloads, ".gz", has_expected_checksum),
    ):
        files = folder / f"{name}.{source}{ending}", folder / f"{name}.{target}{ending}"
        if all(path.is_file() and is_expected(path) for path in files):
            return files
    return None


def has_expected_text(path: Path) -> bool:
    """Whether the sentences of a file from the hub are those in TEXT_CHECKSUMS."""
    digest = hashlib.sha256()
    try:
        for sentence in read_lines(path):
            digest.update(to_line(sentence.strip()))
    except UserError:  # not UTF-8
        return False
    return digest.hexdigest() == TEXT_CHECKSUMS.get(path.name)


def has_expected_checksum(path: Path) -> bool:
    """Whether a downloaded .gz has the checksum in CHECKSUMS, if there is one."""
    expected = CHECKSUMS[path.name.removesuffix(".gz")]
    return expected is None or file_digest(path) == expected


def load_from_hub(source: str, target: str, names: list[str], downloads: Path) -> dict[str, tuple[Path, Path]]:
    """The files of the named sets, written from the hub or from its cache; {} when neither is available."""
    if not is_reachable(os.environ.get("HF_ENDPOINT", "https://huggingface.co")):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # use the hub's cache at once, without half a minute of retries
    folder = downloads / "hub"
    folder.mkdir(exist_ok=True)
    sets = {}
    try:
        from datasets import load_dataset  # here, because the import alone takes more than a second

        splits = load_dataset(HUB_NAME)
        for name in names:
            sets[name] = folder / f"{name}.{source}", folder / f"{name}.{target}"
            write_pairs(((row[source], row[target]) for row in splits[HUB_SPLITS[name]]), *sets[name])
    except Exception as error:  # the hub fails in many ways; after each of them the plain files are tried
        logger.info("The Hugging Face hub does not give %s (%s); trying the plain files.", HUB_NAME, error)
        return {}
    return sets


def write_pairs(pairs: Iterable[tuple[str, str]], source: Path, target: Path) -> None:
    """Write the sentences of any iterator, none of which is kept in memory; raises UserError for unexpected text."""
    with open_atomic(source) as source_file, open_atomic(target) as target_file:
        digests = {source: hashlib.sha256(), target: hashlib.sha256()}
        for pair in pairs:
            for sentence, path, file in zip(pair, (source, target), (source_file, target_file), strict=True):
                file.write(to_line(sentence))
                digests[path].update(to_line(sentence.replace("\r", " ").replace("\n", " ").strip()))
        for path, digest in digests.items():
            if digest.hexdigest() != TEXT_CHECKSUMS[path.name]:
                raise UserError(f"{path.name} is not the known text: its sha256 is {digest.hexdigest()}")


def is_reachable(address: str) -> bool:
    """Whether a server answers at all, even if with an HTTP error."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=TIMEOUT).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def download_file(key: str, downloads: Path) -> Path:
    """Download KEY.gz; raises UserError when there is no network or the checksum is not the expected one."""
    address = f"{ADDRESS}/{key}.gz"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            content = answer.read()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error)).rstrip(".")
        raise UserError(
            f"Multi30k cannot be downloaded ({address}: {reason}): connect to a network or, for the sets that the "
            "Hugging Face hub has, set HF_ENDPOINT to a mirror of it, or use files of your own with data=files "
            "data.source=de data.target=en data.train=PREFIX data.valid=PREFIX data.test=PREFIX; data=phrasebook needs "
            "no network."
        ) from None
    expected, actual = CHECKSUMS[key], hashlib.sha256(content).hexdigest()
    if expected is not None and actual != expected:
        raise UserError(
            f"{address} has sha256 {actual} instead of {expected}; the file has changed or the download is damaged."
        )
    path = downloads / f"{key}.gz"
    write_atomic(path, content)
    return path
