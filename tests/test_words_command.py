"""nmt words: word pairs of a corpus and its links, as a source of training pairs."""

from corpora import run_command, small, write_corpus

from nmt.commands.words import find_words


def linked(*pairs: str):
    """Words that are linked, as `der:the`; after ^ they begin their sentences."""
    for pair in pairs:
        source, target = pair.removeprefix("^").split(":")
        yield (source, pair[0] == "^"), (target, pair[0] == "^")


def test_the_translation_is_the_one_that_a_word_is_linked_to_most():
    rare = ["Katze:cat"] * 2
    doubtful = [
        f"oder:{word}" for word in ("or", "or", "or", "a", "b", "c", "d", "e", "f", "g", "h")
    ]
    links = linked(
        *["^Der:The"] * 9, "der:the", "der:a", *["^Hund:dog"] * 3, "Hund:dog", *rare, *doubtful
    )
    assert find_words(links) == [("der", "the"), ("Hund", "dog")]


def test_words_are_a_source_to_train_on(tmp_path, capfd, refused):
    corpus = write_corpus(tmp_path)
    german = (tmp_path / "train.de").read_text(encoding="utf-8").splitlines()
    (tmp_path / "train.align").write_text("0-0 1-1 1-2 2-2\n" * len(german), encoding="utf-8")
    files = [
        f"--{name}={tmp_path / 'train'}.{end}"
        for name, end in (("source", "de"), ("target", "en"), ("links", "align"))
    ]
    answer = run_command(capfd, "words", *files, f"--output={tmp_path / 'words'}")
    assert answer.code == 0 and answer.out == ""
    pairs = list(
        zip(
            *(
                (tmp_path / f"words.{side}").read_text(encoding="utf-8").split()
                for side in ("de", "en")
            ),
            strict=True,
        )
    )
    assert ("der", "the") in pairs and len(dict(pairs)) == len(pairs)
    assert (tmp_path / "words.align").read_text() == "0-0\n" * len(pairs)
    corpus.append(f"data.train=[{tmp_path / 'train'},{tmp_path / 'words'}]")
    assert (
        run_command(
            capfd,
            "tokenize",
            *small(tmp_path, corpus, "train.guided_alignment=0.1", "train.max_steps=1"),
        ).code
        == 0
    )
    assert "overwrite" in refused("words", *files, f"--output={tmp_path / 'train'}")
    (tmp_path / "train.align").write_text(
        "0-0\n" * 9 + "0-50\n" * (len(german) - 9), encoding="utf-8"
    )
    assert ":10:" in refused("words", *files, f"--output={tmp_path / 'more'}")
