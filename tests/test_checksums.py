"""Stages are checked: one flipped bit, a cut or missing file in any stage is one sentence that
names the remedy."""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpora import compose_one, write_corpus

from nmt.config.compose import FREE
from nmt.config.schema import Config
from nmt.corpus.checksums import MANIFEST, check_folder, write_manifest
from nmt.data import dataset, write_ids
from nmt.data.dataset import open_training_pairs
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers
from nmt.errors import UserError
from nmt.runs import stages
from nmt.runs.stages import StageFolders, build_stages


def words(root: Path) -> list[str]:
    more = ["tokenizer.vocabulary_size=376", f"data_folder={root}", "device=cpu"]
    return [*write_corpus(root.parent / "text"), *more]


def settings(root: Path) -> Config:
    return compose_one(*words(root))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with all stages, the ids in three shards."""
    root = tmp_path_factory.mktemp("stages") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "PAIRS_PER_SHARD", 100)
        build_stages(settings(root))
    return root


@pytest.fixture
def use(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], StageFolders]:
    """A copy of the stages in tmp_path/data; the call uses them as a training does, shard after
    shard."""
    shutil.copytree(built, tmp_path / "data")
    monkeypatch.setattr(dataset, "PAIRS_PER_SHARD", 100)
    config = settings(tmp_path / "data")

    def read() -> StageFolders:
        folders = build_stages(config)
        pairs = open_training_pairs(folders.ids)
        for number in range(pairs.shard_count):
            pairs.shard(number)
        return folders

    return read


def files(root: Path) -> list[Path]:
    """Every file that a training on these stages reads."""
    found = sorted(path for path in root.glob("*-*/*") if path.is_file())
    return [
        path
        for path in found
        if not (path.parent.name.startswith("corpus") and path.name.startswith("train."))
    ]


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_sound_stages_are_used_again(use, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in files(tmp_path / "data")}
    folders = use()
    assert {path: path.stat().st_mtime_ns for path in files(tmp_path / "data")} == before
    assert len(list(folders.ids.glob("train-*.arrow"))) == 3


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "last bit": lambda content: flipped(content, 8 * len(content) - 1),
    "a bit": lambda content: flipped(
        content, random.Random(len(content)).randrange(8 * len(content))
    ),
    "cut": lambda content: content[:-2],
    "gone": lambda content: None,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_of_each_file_of_each_stage_is_noticed(use, tmp_path, damage):
    for path in files(tmp_path / "data"):
        content = path.read_bytes()
        damaged = DAMAGE[damage](content)
        if damaged is None:
            path.unlink()
        else:
            path.write_bytes(damaged)
        with pytest.raises(UserError) as caught:
            use()
        message = str(caught.value)
        assert path.name in message or damaged is None
        assert f"delete the folder {path.parent}," in message and "\n" not in message
        path.write_bytes(content)
    use()


@pytest.mark.parametrize("later", ["tokenizer", "ids"])
def test_training_text_is_checked_when_a_later_stage_is_built_from_it(use, tmp_path, later):
    root = tmp_path / "data"
    text = next(root.glob("corpus-*/train.en"))
    shutil.rmtree(next(root.glob(f"{later}-*")))
    content = text.read_bytes()
    text.write_bytes(flipped(content, 4321))
    with pytest.raises(UserError, match=f"{text} is damaged: its sha256"):
        use()
    assert not list(root.glob(f"{later}-*"))
    text.write_bytes(content)
    use()


def test_text_that_is_not_read_again_is_checked_by_its_size(use, tmp_path):
    text = next((tmp_path / "data").glob("corpus-*/train.en"))
    size = text.stat().st_size
    text.write_bytes(text.read_bytes() + b"x")
    with pytest.raises(UserError, match=f"{text} has {size + 1:,} bytes instead of {size:,}"):
        use()


def test_the_remedy_is_one(use, tmp_path):
    """What is deleted is built again with the same bytes; but a report names the files, which lie
    elsewhere now."""
    root = tmp_path / "data"
    names = {"report.json", "manifest.json"}
    before = {
        path.relative_to(root): path.read_bytes()
        for path in root.glob("*-*/*")
        if path.name not in names
    }
    for stage in ("corpus", "tokenizer", "ids"):
        shutil.rmtree(next(root.glob(f"{stage}-*")))
        use()
    assert {path: (root / path).read_bytes() for path in before} == before


def test_any_number_of_processes_writes_the_same_ids(use, tmp_path, monkeypatch):
    folders = build_stages(settings(tmp_path / "data"))
    monkeypatch.setattr(write_ids, "ROWS", 17)
    written = []
    for processes in (1, 3):
        shutil.rmtree(folders.ids)
        monkeypatch.setattr(write_ids, "BYTES_PER_PROCESS", 1)
        monkeypatch.setattr(write_ids, "usable_processors", lambda count=processes: count)
        use()
        written.append({path.name: path.read_bytes() for path in folders.ids.iterdir()})
    assert written[0] == written[1]


def test_a_folder_without_manifest_is_refused(tmp_path):
    with pytest.raises(
        UserError, match=f"{MANIFEST} is missing, .*; delete the folder {tmp_path},"
    ):
        check_folder(tmp_path)
    (tmp_path / "a").write_text("1")
    write_manifest(tmp_path)
    check_folder(tmp_path)
    (tmp_path / "a").write_text("2")
    check_folder(tmp_path, unread="a")
    with pytest.raises(UserError, match="a is damaged"):
        check_folder(tmp_path)


@pytest.fixture
def only_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages have their folders' names, and nothing is built."""

    def named(root: Path, name: str, recipe: stages.Recipe, *_: object, **__: object) -> Path:
        return stages.stage_folder(root, name, recipe)[0]

    monkeypatch.setattr(stages, "build_stage", named)
    monkeypatch.setattr(stages, "read_report", lambda folder: {"audit": {}, "tags": []})


@pytest.mark.usefixtures("only_names")
def test_links_are_asked_for_where_only_the_files_can_have_them(tmp_path):
    """The phrasebook has its own, which are found when it is written."""
    guided = ["train.guided_alignment=1"]
    config = compose_one(*words(tmp_path / "data"), *guided)
    with pytest.raises(UserError, match="beside its two files"):
        stages.build_corpus_stage(config)
    own = ["data=phrasebook", f"data_folder={tmp_path / 'data'}", *guided]
    assert stages.build_corpus_stage(compose_one(*own)).parent == tmp_path / "data"


ALL = {"corpus", "tokenizer", "ids"}
FROM_TOKENIZER = {"tokenizer", "ids"}


@pytest.mark.parametrize(
    ("word", "renamed"),
    [
        ("data.max_characters=99", ALL),
        ("data.max_length_ratio=2", ALL),
        ("data.pair_tags=true", ALL),
        ("data.origin_tags=true", ALL),
        ("tokenizer.vocabulary_size=300", FROM_TOKENIZER),
        ("tokenizer.lowercase=true", FROM_TOKENIZER),
        # It is learnt from all pairs, however long
        ("tokenizer.max_pieces=32", {"ids"}),
        ("data.audit_examples=1", set()),
        ("model.hidden_size=8", set()),
        ("train.max_steps=3", set()),
        ("decode.beam=1", set()),
        ("seed=5", set()),
        ("name=other", set()),
        ("text", ALL),
        ("synthetic", ALL),
        ("shards", {"ids"}),
        ("code of corpus", ALL),
        ("code of tokenizer", FROM_TOKENIZER),
        ("code of ids", {"ids"}),
    ],
)
@pytest.mark.usefixtures("only_names")
def test_a_stage_goes_by_all_that_it_depends_on(tmp_path, monkeypatch, word, renamed):
    """A configuration, the content of files, and the code of its builder; nothing else counts."""
    config = settings(tmp_path / "data")
    before = build_stages(config)
    assert build_stages(config) == before
    synthetic = None
    what, _, stage = word.partition(" of ")
    if what == "code":
        digest = stages.code_digest
        changed = stages.BUILDERS[stage]
        monkeypatch.setattr(
            stages, "code_digest", lambda name: "other" if name == changed else digest(name)
        )
    elif word == "text":
        with (tmp_path / "text" / "train.de").open("a", encoding="utf-8") as file:
            file.write("Noch ein Satz.\n")
    elif word == "synthetic":
        synthetic = tmp_path / "data" / "synthetic-0123456789"
    elif word == "shards":
        monkeypatch.setattr(dataset, "PAIRS_PER_SHARD", 100)
    else:
        config = compose_one(*words(tmp_path / "data"), word)
    after = build_stages(config, synthetic=synthetic)
    assert {stage for stage in ALL if getattr(after, stage) != getattr(before, stage)} == renamed


# Of each type a value that is not the given one
OTHERS: dict[type, Callable] = {
    bool: lambda value: not value,
    int: lambda value: value + 1,
    float: lambda value: value / 2 + 0.1,
    str: lambda value: f"{value}x",
}


def test_a_training_starts_from_a_run_with_its_model_and_tokenizer(tmp_path, monkeypatch):
    """Only what does not change the weights may differ."""
    config = settings(tmp_path / "data")
    assert stages.open_parent(config) is None
    for key in ("replay", "rehearsal"):
        alone = replace(config, train=replace(config.train, **{key: 0.5}))
        with pytest.raises(UserError, match=f"train.{key} .*needs from=RUN"):
            stages.open_parent(alone)
    parent = SimpleNamespace(config=config, path=tmp_path / "best.safetensors")
    monkeypatch.setattr(stages, "find_parent", lambda name, root: parent.path)
    monkeypatch.setattr(stages, "load_parent", lambda path: parent)
    child = replace(config, from_run="tiny", seed=5, name="child")
    assert stages.open_parent(child) is parent
    for group in ("model", "tokenizer"):
        for name, value in vars(getattr(config, group)).items():
            if type(value) not in OTHERS:
                continue
            changed = replace(getattr(config, group), **{name: OTHERS[type(value)](value)})
            parent.config = replace(config, **{group: changed})
            if f"{group}.{name}" in FREE:
                assert stages.open_parent(child) is parent
                continue
            with pytest.raises(UserError, match=f"another {group} than {parent.path}"):
                stages.open_parent(child)


@pytest.mark.parametrize("tags", [[], ["<a>"], ["<bt>", "<a>"], ["<c>", "<a>", "<b>"]])
def test_each_tag_of_new_text_has_a_piece_in_the_run_that_is_started_from(
    built, tmp_path, monkeypatch, tags
):
    config = settings(tmp_path / "data")
    corpus = next(built.glob("corpus-*"))
    texts = (corpus / "train.de", corpus / "train.en")
    train_tokenizers(config.tokenizer, *texts, tmp_path, ["<bt>", "<a>"])
    parent = SimpleNamespace(tokenizers=Tokenizers.load(tmp_path), path=tmp_path / "tiny" / "best")
    monkeypatch.setattr(stages, "read_report", lambda folder: {"tags": tags})
    if "<b>" in tags:
        with pytest.raises(UserError, match=f"{tmp_path}/tiny has no piece <b>, <c>,"):
            stages.build_tokenizer_stage(config, corpus, parent)
    else:
        folder = stages.build_tokenizer_stage(config, corpus, parent)
        assert Tokenizers.load(folder).source.model == parent.tokenizers.source.model
