"""The commands as a person gives them: what comes out, where, and in which order."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hydra
import pytest
from conftest import MODELS
from corpora import Answer, Trained, environment, run_command, small, write_corpus

import nmt
from nmt import cli
from nmt.commands.options import make_parser, with_home
from nmt.config.keys import config_folder, known_keys
from nmt.config.validation import all_keys
from nmt.corpus import line_chunks
from nmt.errors import UserError
from nmt.evaluate.metrics import Translated, score
from nmt.runs.folders import find_checkpoint, read_config

SENTENCE = "Ein Junge malt das rote Fahrrad."
OTHER = "Mein Bruder sucht kein Brot im Garten."
SIGNATURE = r"nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:[0-9.]+"
MALT = ("\u2028", "\x0b", "\x85", "\r", "\x00", " 👩‍👩‍👧 ")
STRANGE = [
    *(f"Ein Junge{space}malt." for space in MALT),
    "الولد يرسم دراجة.",
    "\u200b",
    "   ",
    "\ufeffEin\tJunge",
    "▁▁ <s> </s>",
]


@pytest.fixture
def translate(trained: Trained, capfd):
    """translate(WORD …) → what came of `nmt translate tiny WORD …`."""
    return lambda *words: run_command(capfd, "translate", "tiny", "--runs", trained.runs, *words)


@pytest.fixture
def align(trained: Trained, capfd):
    return lambda *words: run_command(capfd, "align", "tiny", "--runs", trained.runs, *words)


def test_help_has_the_commands_and_the_keys(capfd):
    """The keys with their values and what conf/ says of them; of the groups all names."""
    for words in ([], ["translate"], ["align"], ["export"], ["train"]):
        with pytest.raises(SystemExit) as caught:
            cli.main([*words, "--help"])
        shown = capfd.readouterr().out
        assert caught.value.code == 0
        assert f"usage: {' '.join(['nmt', *words])}" in shown
    assert re.search(r"\nmodel=NAME: bahdanau, .*, auto\n", shown) and "defaults:" not in shown
    for key in known_keys():
        if key.startswith("train."):
            assert re.search(rf"\n +{key.removeprefix('train.')}: ", shown), key


def test_typing_errors_are_answered_together_and_before_pytorch_is_imported(capfd, refused):
    """With the nearest command, option, key or file; `nmt` alone prints its help."""
    assert "did you mean translate?" in refused("trnslate", "x")
    assert "--inpt (did you mean --input?)" in refused("translate", "x", "--inpt", "y")
    assert "(did you mean --input?)" in refused("translate", "x", "--inpt=a-long-name-of-a-file.de")
    assert "did you mean jsonl?" in refused("translate", "x", "--format", "jsn")
    words = ["train", "modl=transformer", "optim.lrr=1", "model=transformr"]
    message = run_command(capfd, *words).err  # with all models, it is long
    assert all(
        f"did you mean {word}" in message for word in ("model?", "optim.lr ", "transformer?")
    )
    code = (
        f"import sys; from nmt import cli; cli.main({words}); print('torch' in sys.modules, "
        "file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False
    )
    assert message in done.stderr and done.stderr.endswith("False\n")
    for word, printed in ((), "usage: nmt"), (("--version",), f"nmt {nmt.__version__}\n"):
        with pytest.raises(SystemExit) as caught:
            cli.main(list(word))
        assert caught.value.code == 0 and capfd.readouterr().out.startswith(printed)


@pytest.mark.parametrize(
    "words", [["score", "x"], ["distil", "x", "--output", "y"], ["corrections", "list"]]
)
def test_an_empty_name_is_no_file(words, refused):
    """As where a shell variable is unset; it does not count as a file that is not given."""
    assert "empty" in refused(*words, "")


@pytest.mark.parametrize(
    "words",
    [
        ["distil", "--output", "x"],
        ["backtranslate", "--output", "x", "text.de"],
        ["translate", "--glossary", "terms.tsv", "Ja."],
        ["translate", "Ja."],
    ],
    ids=" ".join,
)
def test_pretrained_models_are_imported_with_their_languages(words, refused, monkeypatch, tmp_path):
    """A folder of transformers or a name of the hub may stand for a run."""

    def import_once(name: str, runs: Path, source: str | None, target: str | None) -> str:
        raise UserError(f"{Path(name).name} {source} {target}.")

    monkeypatch.setattr("nmt.commands.pretrained.import_once", import_once)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    command, *rest = words
    for name in (str(tmp_path), f"hf:x/{tmp_path.name}"):
        error = refused(command, name, *rest, "--source", "de", "--target", "en")
        assert f"{tmp_path.name} de en" in error


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_what_is_typed(shell, capfd):
    """Commands, keys after other words, and choices of options."""
    script = run_command(capfd, "completion", shell).out
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    if shell == "zsh":  # its completion needs a terminal
        assert '"*:' in script
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
        return
    typed = (("tr",), ("train", "seed=1", "train.noise_c"), ("export", "x", "--format", "c"))
    if shell == "bash":
        script += """
            shown() { COMP_WORDS=(nmt "$@"); COMP_CWORD=$#; COMPREPLY=(); _nmt 2>/dev/null; echo "${COMPREPLY[*]}"; }
            """  # noqa: E501
        script += "\n".join(f"shown {' '.join(words)}" for words in typed)
    else:
        script += "\n".join(
            f"echo (complete -C 'nmt {' '.join(words)}' | cut -f1)" for words in typed
        )
    done = subprocess.run(
        [shell], input=script, capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines() == [
        "train translate",
        "train.noise_case= train.noise_copy=",
        "ctranslate2",
    ]


def test_the_keys_of_the_files_are_those_of_the_schema():
    """So that a key that exists is never taken for a typing error."""
    groups = [f"model={name}" for name in MODELS] + [
        f"data={name}" for name in ("files", "multi30k")
    ]
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        found = {key for group in groups for key in all_keys(hydra.compose("config", [group]))}
    assert found | {"from", "for"} == set(known_keys())


def test_runs_are_listed_and_described(trained: Trained, capfd):
    where = ["--runs", trained.runs]
    name, _, languages, model, scores, *_ = run_command(capfd, "list", *where).out.split("\t")
    assert (name, languages, model) == ("tiny", "de-en", "transformer")
    assert "test (n = 12): BLEU" in scores
    described = run_command(capfd, "info", "tiny", *where).out.splitlines()
    for line in ("languages\tde-en", "weights\tupdate 120", f"scores\t{scores}"):
        assert line in described
    assert run_command(capfd, "list", "--runs", str(trained.root / "none")).out == ""


def test_what_a_run_lacks_is_said_and_others_are_listed(trained: Trained, tmp_path, capfd):
    """A link to nothing is what a run that is being deleted looks like."""
    for name in ("whole", "bare", "torn", "damaged", "linked"):
        (tmp_path / name).mkdir()
    for name in ("whole", "bare", "torn", "damaged"):
        shutil.copy(Path(trained.runs) / "tiny" / "best.safetensors", tmp_path / name)
    for name in ("whole", "torn"):
        shutil.copy(Path(trained.runs) / "tiny" / "config.yaml", tmp_path / name)
    (tmp_path / "damaged" / "config.yaml").write_text("data: [")
    (tmp_path / "torn" / "current").write_text("7")
    (tmp_path / "linked" / "best.safetensors").symlink_to(tmp_path / "nothing")
    listed = run_command(capfd, "list", "--runs", str(tmp_path))
    rows = {line.split("\t")[0]: line.split("\t")[2:4] for line in listed.out.splitlines()}
    assert rows == {"whole": ["de-en", "transformer"], "bare": ["", ""], "damaged": ["", ""]}
    assert "bare/config.yaml is missing" in listed.err
    assert "damaged/config.yaml cannot be read" in listed.err
    assert "torn is not listed: " in listed.err and listed.code == 0
    (tmp_path / "damaged" / "config.yaml").write_text("data: 3")
    assert read_config(tmp_path / "damaged") == {}

    shutil.rmtree(tmp_path / "torn")
    os.utime(tmp_path / "whole" / "best.safetensors")
    assert find_checkpoint("latest", tmp_path) == tmp_path / "whole" / "best.safetensors"


def test_every_name_of_a_file_may_begin_with_the_home_folder(monkeypatch, tmp_path):
    """Also where a shell leaves ~: in quotes, and behind = and a comma."""
    monkeypatch.setenv("HOME", str(tmp_path))
    commands = make_parser()._actions[-1]
    checked = set()
    for name, command in commands.choices.items():
        for action in command._actions:
            if re.search("FILE|FOLDER|DIR|PREFIX|RUN|OUT", str(action.metavar)):
                assert action.type("~/x") == f"{tmp_path}/x", (name, action.metavar)
                checked.add(action.metavar)
    assert {"FILE", "FOLDER", "DIR", "PREFIX", "RUN", "FILE|KEY=VALUE"} <= checked
    for text, wanted in {
        "data.train=[~/a,~/b+~/c]": "data.train=[{0}/a,{0}/b+{0}/c]",
        "run=~/g.tsv": "run={0}/g.tsv",
        "~": "{0}",
        "~root/x": f"{Path('~root').expanduser()}/x",
        "~model.dropout": "~model.dropout",  # of Hydra
        "a~/b": "a~/b",
        "~$letter.docx": "~$letter.docx",
        "./~/x": "./~/x",
    }.items():
        assert with_home(text) == wanted.format(tmp_path)


def test_stdout_holds_data_only(trained: Trained):
    """What is captured is the file descriptor, so that nothing can bypass sys.stdout."""
    assert re.fullmatch(rf"test\t\d+\.\d\d\t\d+\.\d\d\t{SIGNATURE}\tn = 12", *trained.lines)


def test_arguments_come_before_input_and_stdin(translate, tmp_path, monkeypatch):
    """Options may come anywhere; a file's name is a sentence, with a warning."""
    first = translate(SENTENCE).out
    second = translate(OTHER).out
    assert first != second and first.endswith("\n")
    for words in ([SENTENCE, "--beam", "2", OTHER], ["--beam=2", "--", SENTENCE, OTHER]):
        assert translate(*words).out == first + second
    assert translate("--", "--beam 1").out.count("\n") == 1
    plain = tmp_path / "some.de"
    packed = tmp_path / "some.de.gz"
    plain.write_text(f"{SENTENCE}\n{OTHER}\n", encoding="utf-8")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    with open(plain, encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert translate().out == first + second
        assert translate(OTHER).out == second
    assert translate("--input", str(packed)).out == first + second
    warned = translate(str(plain))
    assert warned.code == 0 and "--input reads the file" in warned.err


def test_one_line_out_for_each_line_in(translate, tmp_path, monkeypatch):
    """Between ordinary sentences, so that a line too many or too few shows next to it, in any
    batches and windows."""
    monkeypatch.setattr(line_chunks, "CHUNK_LINES", 4)
    file = tmp_path / "some.de"
    file.write_bytes("".join(f"{SENTENCE}\n{sentence}\n" for sentence in STRANGE).encode())
    answer = translate("--input", str(file), "--batch-tokens", "40")
    assert answer.code == 0
    lines = answer.out.split("\n")
    assert len(lines) == 2 * len(STRANGE) + 1 and lines[-1] == ""
    assert {line + "\n" for line in lines[:-1:2]} == {translate(SENTENCE).out}
    for sentence, line in zip(STRANGE, lines[1::2], strict=True):
        assert sentence.strip() or line == "", sentence


def test_a_full_disk_behind_stdout_is_one_sentence(translate, monkeypatch):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        answer = translate(SENTENCE)
        assert answer.code == 2 and "No space left" in answer.err and answer.err.count("\n") == 1


def test_a_closed_stream_is_missed_only_by_who_needs_it(translate, tmp_path, monkeypatch):
    """`>&-`, `<&-` and `2>&-` leave None in Python; what goes into a file needs none of the three,
    and messages never take the way of data."""

    def translate_without(streams: str, *words: str) -> Answer:
        with monkeypatch.context() as patch:
            for stream in streams.split():
                patch.setattr(sys, stream, None)
            answer = translate(*words)
            for stream in streams.split():
                getattr(sys, stream).close()
        return answer

    wanted = translate(SENTENCE).out
    for stream, words in {"stdout": [SENTENCE], "stdin": []}.items():
        answer = translate_without(stream, *words)
        assert (answer.code, answer.out) == (2, "") and "Traceback" not in answer.err
        (line,) = [line for line in answer.err.splitlines() if line.startswith("nmt: ")]
        assert stream in line and "closed" in line
    document, output = tmp_path / "some.txt", tmp_path / "some.en.txt"
    document.write_text(SENTENCE)
    words = ["--document", str(document), "--output", str(output)]
    assert translate_without("stdin stdout stderr", *words).code == 0
    assert output.read_text() == wanted.strip()
    assert translate_without("stdin", SENTENCE).out == wanted
    refused = translate_without("stderr", "--beam", "x")
    assert (refused.code, refused.out) == (2, "")


def test_a_record_is_complete_and_the_n_best_come_best_first(translate):
    """score = Σ log p / length^α, </s> counted, with the run's α = 1."""
    words = ["--beam", "4", "--nbest", "3", SENTENCE, OTHER, ""]
    answer = translate("--format", "jsonl", *words)
    *records, blank = [json.loads(line) for line in answer.out.splitlines()]
    texts = [line.split("\t")[1] for line in translate(*words).out.splitlines()]
    for number, (record, sentence) in enumerate(zip(records, (SENTENCE, OTHER), strict=True), 1):
        assert record["line"] == number
        assert plain(record["source_pieces"]) == sentence
        best = record["nbest"]
        assert best[0].items() <= record.items()
        assert best == sorted(best, key=lambda entry: -entry["score"])
        assert [entry["text"] for entry in best] == texts[3 * number - 3 :][:3]
        for entry in best:  # every one of the n has its own pieces, probabilities and alignment
            assert entry.keys() == best[0].keys()
            assert entry["text"].strip() == plain(entry["pieces"])
            log_probabilities = entry["log_probabilities"]
            assert len(log_probabilities) == len(entry["pieces"]) + 1
            assert max(log_probabilities) <= 0
            mean = sum(log_probabilities) / len(log_probabilities)
            assert entry["score"] == pytest.approx(mean, abs=2e-3)
            for source, target in entry["alignment"]:
                assert source < len(record["source_words"]) and target < len(entry["words"])
    assert (blank["text"], blank["pieces"], blank["alignment"]) == ("", [], [])


def test_a_line_without_a_visible_character_is_blank(translate, tmp_path, monkeypatch):
    """Also for a model whose input is not filtered."""
    monkeypatch.setattr("nmt.data.tokenizer.Tokenizers.protects", False)
    path = tmp_path / "blank.de"
    path.write_text(
        "".join(f"{line}\n" for line in ("\t", " \t ", "\u2028", "\x85", "\u200b", OTHER))
    )
    answers = translate("--input", str(path)).out.split("\n")
    assert [answer.strip("\u200b") for answer in answers[:5]] == [""] * 5
    assert answers[5]


def plain(pieces: list[str]) -> str:
    """The text of pieces; a last ▁ may be alone."""
    return "".join(pieces).replace("▁", " ").strip()


def test_a_run_goes_by_name_folder_file_and_latest(trained: Trained, capfd, monkeypatch, tmp_path):
    wanted = run_command(capfd, "translate", "tiny", "--runs", trained.runs, SENTENCE).out
    for name in (str(trained.folder), str(trained.folder / "best.safetensors")):
        assert run_command(capfd, "translate", name, SENTENCE).out == wanted
    monkeypatch.chdir(trained.root)
    assert run_command(capfd, "translate", "tiny", SENTENCE).out == wanted
    monkeypatch.chdir(tmp_path)
    assert run_command(capfd, "translate", "tiny", SENTENCE).code == 2
    for number, name in enumerate(("newer", "older")):
        (tmp_path / name).mkdir()
        shutil.copy(trained.folder / "best.safetensors", tmp_path / name)
        os.utime(tmp_path / name / "best.safetensors", (1e9 - number, 1e9 - number))
    latest = run_command(capfd, "translate", "latest", "--runs", str(tmp_path), SENTENCE)
    assert f"latest run is {tmp_path / 'newer'}." in latest.err and latest.out == wanted


def test_the_table_shows_the_weights_of_each_word(align):
    lines = [line.split("\t") for line in align(SENTENCE, "A boy paints.").out.splitlines()]
    assert [word for word, *_ in lines] == ["A", "boy", "paints", "."]
    for _, *cells in lines:
        words, weights = zip(*(cell.rsplit(" ", 1) for cell in cells), strict=True)
        weights = [float(weight) for weight in weights]
        assert weights == sorted(weights, reverse=True) and 0 < sum(weights) <= 1.03
        assert {*words} <= {*SENTENCE.rstrip(".").split(), ".", "</s>"}


def test_a_given_target_is_aligned_and_not_translated(align, pair_files):
    """Forced decoding: the same through arguments and through files; without a target, the model's
    own words."""
    files, _ = pair_files
    answer = align("--pharaoh", SENTENCE, "A boy paints.").out
    links = [tuple(map(int, link.split("-"))) for link in answer.split()]
    assert links and all(0 <= source < 7 and 0 <= target < 4 for source, target in links)
    assert (
        align(*files, "--pharaoh").out
        == answer + "\n" + align("--pharaoh", OTHER, "My brother.").out
    )
    for threshold in ("0.05", "0.2", "0.9"):  # the same links in both forms
        drawn = align(*files, "--pharaoh", "--threshold", threshold).out.splitlines()
        records = align(*files, "--format", "jsonl", "--threshold", threshold).out.splitlines()
        for links, record in zip(drawn, map(json.loads, records), strict=True):
            assert {*links.split()} == {f"{one}-{other}" for one, other in record["alignment"]}
    alone = align("--pharaoh", *files[:2]).out
    assert alone == align("--pharaoh", SENTENCE).out + "\n" + align("--pharaoh", OTHER).out
    assert align(*files).out.startswith(align(SENTENCE, "A boy paints.").out)


@pytest.fixture
def pair_files(tmp_path):
    """Two pairs, an empty one between them: the words that name the files, and write(FILE, TEXT)
    for one more."""

    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    source = write("a.de", f"{SENTENCE}\n\n{OTHER}\n")
    target = write("a.en", "A boy paints.\n\nMy brother.\n")
    return ["--source", source, "--target", target], write


def rates(answer: Answer) -> dict[tuple[str, ...], list[str]]:
    """(layer, head, step) → AER, precision, recall."""
    header, *rows = answer.out.split("\n\n")[0].splitlines()
    assert header == "layer\thead\tstep\tAER\tprecision\trecall"
    return {tuple(row.split("\t")[:3]): row.split("\t")[3:] for row in rows}


PERFECT = ["0.0000", "1.0000", "1.0000"]


def test_gold_gives_an_error_rate_for_each_layer_head_and_step(align, pair_files):
    files, write = pair_files
    for layer in ("1", "0"):
        own = write("own", align(*files, "--pharaoh", "--layer", layer).out)
        table = rates(align(*files, "--gold", own))
        assert list(table) == [
            (layer, "mean", step) for layer in ("0", "1", "0,1") for step in ("output", "input")
        ]
        assert table[layer, "mean", "output"] == PERFECT  # its own links
    assert (
        rates(align(*files, "--gold", write("none", "1-0\n\n0-1\n")))["0", "mean", "output"]
        != PERFECT
    )
    heads = rates(align(*files, "--gold", own, "--heads"))
    assert {key[:2] for key in heads} == {
        (layer, head) for layer in ("0", "1", "0,1") for head in ("mean", "0", "1")
    }
    chosen = rates(align(*files, "--gold", own, "--head", "0", "--layer", "-1"))
    assert chosen == {key: rate for key, rate in heads.items() if key[:2] == ("1", "0")}


def test_reversed_gold_is_swapped(align, pair_files):
    files, write = pair_files
    drawn = align(*files, "--pharaoh").out
    turned = re.sub(r"(\d+)-(\d+)", r"\2-\1", drawn)
    table = align(*files, "--gold", write("own", turned), "--reverse", "--links")
    assert PERFECT in rates(table).values()
    written, gold = (
        [sorted(line.split()) for line in text.splitlines()]
        for text in (table.out.split("\n\n", 1)[1], turned)
    )
    assert written == gold


@pytest.mark.parametrize(
    ("links", "option", "names"),
    [
        ("5-0\n\n\n", "--reverse", "target word 5"),  # 5 of 3
        ("5-3\n\n\n", "--tokenized", "beyond:1: .*target word 3"),  # Fahrrad – the full stop
        ("7-0\n\n\n", "--links", "source word"),  # at </s>
    ],
)
def test_words_of_gold_links_exist(links, option, names, align, pair_files):
    files, write = pair_files
    gold = ["--gold", write("beyond", links)]
    assert align(*files, *gold).code == (2 if option == "--links" else 0)
    refused = align(*files, *gold, option)
    assert refused.code == 2
    assert re.search(names, refused.err)


def test_tokenized_text_is_counted_at_spaces(align, pair_files):
    table = align(*pair_files[0], "--tokenized").out.split("\n\n")[0].splitlines()
    assert [line.split("\t")[0] for line in table] == ["A", "boy", "paints."]


def test_layers_and_heads_can_be_chosen(align):
    """Several layers are averaged; a number from the top is negative, as the value after the option
    too."""
    chosen = [["--layer", "0"], ["--layer", "1"], ["--layer", "0,1"], ["--head", "0"]]
    drawn = [align(SENTENCE, "A boy paints.", *words).out for words in chosen]
    assert len(set(drawn)) == len(drawn)
    for words, index in ((["--layer", "-1"], 1), (["--layer", "-2,-1"], 2)):
        assert align(SENTENCE, "A boy paints.", *words).out == drawn[index]


def test_a_page_shows_every_layer_and_the_gold_links(align, pair_files, tmp_path):
    files, write = pair_files
    page = tmp_path / "page.html"
    gold = write("gold", "0-0 1p1\n\n\n")
    answer = align(
        *files, "--heads", "--html", str(page), "--png", str(tmp_path / "many.png"), "--gold", gold
    )
    assert answer.code == 0 and answer.out == ""
    assert {one.name for one in tmp_path.glob("many*")} == {"many-1.png", "many-3.png"}
    assert (tmp_path / "many-3.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    text = page.read_text(encoding="utf-8")
    for shown in (
        "layer 1, head 0",
        "rollout through all layers",
        "sure link",
        "possible link",
        "seed 1",
    ):
        assert shown in text
    refused = align(SENTENCE, "--html", str(tmp_path / "no" / "page.html"))
    assert refused.code == 2 and "--html" in refused.err and "cannot be written" in refused.err


def test_what_is_scored_is_what_translate_writes(trained: Trained, translate):
    written = (trained.folder / "evaluate" / "test" / "hyp").read_text(encoding="utf-8")
    assert written == translate("--input", str(trained.root / "corpus" / "test.de")).out
    references = (trained.root / "corpus" / "test.en").read_text(encoding="utf-8").splitlines()
    scores = score(Translated(written.splitlines(), [references]))
    assert trained.lines[0].split("\t")[1:3] == [f"{scores[name]:.2f}" for name in ("bleu", "chrf")]
    assert scores["bleu"] > 0


def test_other_text_can_be_scored(trained: Trained, capfd, tmp_path):
    """The validation set, and files: with `--noised`, the same noise each time."""
    run = copied_run(trained, tmp_path)
    evaluate = ["evaluate", str(run)]
    assert run_command(capfd, *evaluate, "--split", "valid").out.startswith("valid\t")
    source = tmp_path / "some.de"
    reference = tmp_path / "some.en"
    source.write_text(f"{SENTENCE}\n{OTHER}\n", encoding="utf-8")
    reference.write_text("A boy paints the red bicycle.\nMy brother.\n", encoding="utf-8")
    evaluate += [f"--source={source}", f"--reference={reference}", "--noised", "--metrics=ter"]
    answer = run_command(capfd, *evaluate)
    lines = answer.out.splitlines()
    assert answer.code == 0
    assert re.fullmatch(rf"some.de\t\d+\.\d\d\t\d+\.\d\d\t{SIGNATURE}\tTER .*", lines[0])
    assert "some.de has 2 pairs" in answer.err
    assert all("\tTER " in line for line in lines)
    assert run_command(capfd, *evaluate, f"--reference={reference}").code == 2
    assert {"some.de-capitals", "some.de-noised"} <= {line.split("\t")[0] for line in lines}
    assert run_command(capfd, *evaluate).out == answer.out
    assert (run / "evaluate" / "some.de" / "result.json").exists()


def test_a_source_that_is_the_reference_is_named(trained: Trained, capfd, tmp_path):
    run = copied_run(trained, tmp_path)
    files = [tmp_path / "some.de", tmp_path / "some.en"]
    texts = "Der Hund ist nicht bei ihm und das ist gut.", "The dog is not with him and that is it."
    for path, text in zip(files, texts, strict=True):
        path.write_text(f"{text}\n" * 60)
    for source, reference in (files, files[::-1]):
        words = ["evaluate", str(run), "--source", str(source), "--reference", str(reference)]
        said = run_command(capfd, *words).err
        assert ("exchanged" in said) == (source != files[0])


def test_a_reference_that_is_its_source_is_named_each_time(trained: Trained, capfd, tmp_path):
    run = copied_run(trained, tmp_path)
    source = tmp_path / "some.de"
    source.write_text(f"{SENTENCE}\n{OTHER}\n", encoding="utf-8")
    evaluate = f"evaluate {run} --source {source} --reference {source}"
    chosen = f"translate {run} --input {source} --choose reference --reference {source}"
    for command in (evaluate, evaluate, chosen):
        assert "2 of 2 references are copies" in run_command(capfd, *command.split()).err


def test_given_gold_links_give_an_error_rate(trained: Trained, align, pair_files, tmp_path, capfd):
    files, write = pair_files
    own = write("own", align(*files, "--pharaoh", "--base", "1").out)
    runs = copied_run(trained, tmp_path).parent
    words = ["evaluate", "tiny", "--runs", str(runs), "--source", files[1], "--reference", files[3]]
    answer = run_command(capfd, *words, "--gold", own, "--base", "1")
    assert answer.out.endswith("\tAER 0.000 (layer 0, output)\tn = 3\n")
    assert "no gold links to choose a layer on" in answer.err
    result = json.loads((runs / "tiny/evaluate/a.de/result.json").read_text(encoding="utf-8"))
    assert (result["aer"], result["precision"], result["recall"]) == (0.0, 1.0, 1.0)
    refused = run_command(capfd, *words, "--reverse")
    assert refused.code == 2 and "--reverse" in refused.err
    refused = run_command(capfd, *words[:4], "--gold", own)
    assert refused.code == 2 and "--gold" in refused.err


def copied_run(trained: Trained, root: Path) -> Path:
    """A run with its checkpoint alone, which tests may write to."""
    folder = root / "runs" / "tiny"
    folder.mkdir(parents=True)
    shutil.copy(trained.folder / "best.safetensors", folder)
    return folder


def test_a_multirun_runs_each_combination_under_its_own_name(tmp_path, capfd):
    """A line for each run; a run that fails does not stop the next. Stages can be made before."""
    corpus = write_corpus(tmp_path / "corpus", train=40)
    words = small(tmp_path, corpus, "train.max_steps=2")
    for verb, kinds in (("download", {"corpus"}), ("tokenize", {"corpus", "tokenizer", "ids"})):
        answer = run_command(capfd, verb, *words)
        assert answer.code == 0 and answer.out == ""
        assert {path.name.split("-")[0] for path in (tmp_path / "data").glob("*-*")} == kinds
    answer = run_command(
        capfd, "train", *small(tmp_path, words, "tokenizer.vocabulary_size=5,330"), "-m"
    )
    assert (
        answer.code == 2
        and ("vocabulary_size5: tokenizer.vocabulary_size=5 is too small") in answer.err
    )
    name = "files-transformer_tiny-vocabulary_size330"
    assert [line.split("\t")[:2] for line in answer.out.splitlines()] == [[name, "test"]]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [name]


@pytest.mark.parametrize("left", ["nothing", "best.safetensors", "config.yaml"])
def test_a_run_that_is_deleted_meanwhile_is_not_listed(left, tmp_path, monkeypatch, capfd):
    for name in ("kept", "gone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "best.safetensors").touch()
        (tmp_path / name / "config.yaml").touch()

    def delete(folder: Path) -> dict:
        if folder.name == "gone":
            for path in folder.iterdir():
                if path.name != left:
                    path.unlink()
        return read_config(folder)

    monkeypatch.setattr("nmt.commands.runs.read_config", delete)
    listed = run_command(capfd, "list", "--runs", str(tmp_path))
    assert listed.code == 0
    names = [line.split("\t")[0] for line in listed.out.splitlines()]
    assert sorted(names) == ["gone", "kept"] if left == "best.safetensors" else names == ["kept"]
