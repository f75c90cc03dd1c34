"""model=auto and tokenizer=auto: what is chosen, in which order it is overridden, and what `nmt
suggest` prints."""

from dataclasses import replace

import pytest
from corpora import compose_one, folder_options, run_command, small, write_corpus

from nmt.commands import interface
from nmt.config import presets
from nmt.config.compose import compose_all
from nmt.config.presets import SIZES, Suggestion, dropout, learning_rate, suggest
from nmt.config.schema import leaves
from nmt.errors import UserError
from nmt.runs.pipeline import kept_value, suggestions

PAIRS = [1, 999, 5_000, 29_000, 160_000, 2_000_000, 50_000_000]


def values(pairs: int, minutes: float | None, gpu: bool = False) -> dict[str, object]:
    suggestions = suggest(pairs, minutes, gpu)
    return {each.key: each.value for each in suggestions}


@pytest.mark.parametrize(
    ("pairs", "minutes", "gpu"),
    [(1, 0.1, False), (5_000, None, False), (29_000, 15, False), (50_000_000, 10_000, True)],
)
def test_every_suggestion_is_a_valid_configuration(pairs, minutes, gpu):
    suggestions = suggest(pairs, minutes, gpu)
    config = compose_one(*(each.word for each in suggestions))
    composed = {key: value for key, value, _ in leaves(config)}
    assert values(pairs, minutes, gpu).items() <= composed.items()
    assert all(each.reason for each in suggestions)


def test_only_a_cpu_draws_pieces_for_the_softmax():
    assert values(5_000, 5)["train.sampled_softmax"] > 0
    assert values(5_000, 5, gpu=True)["train.sampled_softmax"] == 0


@pytest.mark.parametrize("key", ["tokenizer.vocabulary_size", "model.hidden_size"])
@pytest.mark.parametrize("minutes", [5, 15, 60, 600])
def test_more_text_never_makes_a_model_smaller(minutes, key):
    column = [values(pairs, minutes)[key] for pairs in PAIRS]
    assert column == sorted(column)


def test_more_time_never_makes_a_model_smaller():
    for pairs in (29_000, 10**7):
        widths = [values(pairs, minutes)["model.hidden_size"] for minutes in (5, 60, 600, 6_000)]
        assert widths == sorted(widths)
    assert values(10**7, 60, gpu=True)["model.hidden_size"] == SIZES[-1].width


@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: size.width)
def test_a_width_needs_both_its_text_and_its_time(size):
    assert values(size.pairs, size.minutes)["model.hidden_size"] == size.width
    assert values(size.pairs - 1, 10**6)["model.hidden_size"] < size.width
    assert values(10**9, size.minutes - 1)["model.hidden_size"] < size.width


def test_a_width_has_the_rate_of_the_size_that_it_reaches():
    for size in SIZES:
        assert learning_rate(size.width) == learning_rate(size.width + 1) == size.lr
    narrowest = SIZES[0]
    assert learning_rate(narrowest.width // 4) == pytest.approx(4 * narrowest.lr)


@pytest.mark.parametrize("width", [40, 64, 96, 128, 200, 256, 400, 512, 1024])
def test_a_given_width_decides_what_belongs_to_it(width):
    of_given = suggest(5_000, 5, False, width)
    found = {each.key: each.value for each in of_given}
    heads = found["model.num_heads"]
    assert found["optim.lr"] == learning_rate(width)
    assert found["model.feed_forward_size"] == 4 * width
    assert width % heads == 0 and width // heads % 2 == 0
    assert 32 <= width // heads <= 100
    for size in SIZES:
        if size.width == width:
            assert width // heads in (32, 64)


def test_the_width_on_the_command_line_reaches_the_suggestions(tmp_path, monkeypatch):
    """Also a width that is the default where it is not given."""
    words = [*write_corpus(tmp_path, 30), *folder_options(tmp_path), "model=auto"]
    monkeypatch.setattr(presets, "SIZES", [SIZES[0], replace(SIZES[1], minutes=0, pairs=0)])
    for width, rate in ((128, SIZES[0].lr), (64, 2 * SIZES[0].lr)):
        given = [*words, f"model.hidden_size={width}"]
        (config,) = compose_all(given, suggest=suggestions)
        assert (config.model.hidden_size, config.optim.lr) == (width, rate)


def test_more_passes_need_more_dropout():
    found = [dropout(passes) for passes in (0.1, 15, 30, 100, 1000)]
    assert found == sorted(found) and 0 == found[0] < found[-1] < 0.5


def test_some_trainings_need_dropout_however_few_their_passes():
    assert dropout(1, needs_some=True) > 0
    assert dropout(1000, needs_some=True) == dropout(1000)


def test_auto_changes_its_own_group_and_what_is_given_stays():
    keys = {"model.hidden_size": 64, "optim.lr": 1e-3, "tokenizer.vocabulary_size": 700}

    def fixed(config, given) -> list[Suggestion]:
        return [Suggestion(key, value, "a reason") for key, value in keys.items()]

    def composed(*words):
        config = compose_all(words, suggest=fixed)[0]
        return (
            config.model.hidden_size,
            config.optim.lr,
            config.tokenizer.vocabulary_size,
            config.name,
        )

    assert composed("model=auto") == (64, 1e-3, 8000, "phrasebook-auto")
    assert composed("tokenizer=auto") == (128, 3e-3, 700, "phrasebook-transformer")
    assert composed("model=auto", "tokenizer=auto", "optim.lr=1", "name=x") == (64, 1.0, 700, "x")
    assert composed("model='auto'", "data='multi30k'")[-1] == "multi30k-auto"
    assert composed("experiment=speedrun", "model=auto")[-1] == "speedrun"
    configs = compose_all(["model=auto,seq2seq", "tokenizer=auto"], multirun=True, suggest=fixed)
    assert [(each.name, each.model.kind) for each in configs] == [
        ("phrasebook-auto", "transformer"),
        ("phrasebook-seq2seq", "recurrent"),
    ]
    with pytest.raises(UserError, match="from=RUN keeps the model of the run"):
        composed("from=x", "model=auto")


def test_text_of_ones_own_has_the_recipe_unless_a_model_is_chosen():
    auto = ["model=auto", "tokenizer=auto"]
    assert interface.with_auto(["data=files"]) == ["data=files", *auto]
    for word in ("model=bahdanau", "tokenizer=bpe", "+experiment=luong2015", "from=x"):
        assert interface.with_auto(["data=files", word]) == ["data=files", word]
    assert interface.with_auto(["data=multi30k"]) == ["data=multi30k"]


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        (["model.hidden_size=100"], 2),
        (["model.hidden_size=100", "model.num_heads=5"], 5),
        (["model.hidden_size=256"], 4),
    ],
)
def test_a_width_that_is_given_has_heads_that_fit(words, heads):
    def of_a_few_pairs(config, given) -> list[Suggestion]:
        return suggest(5_000, 30, False, config.model.hidden_size)

    (config,) = compose_all(["model=auto", *words], suggest=of_a_few_pairs)
    assert config.model.num_heads == heads


def test_half_an_hour_is_given_where_no_limit_is():
    def minutes(*words: str) -> float | None:
        found = compose_all(["model=auto", *words], suggest=of_a_few_pairs)[0]
        return found.train.max_minutes

    def of_a_few_pairs(config, given) -> list[Suggestion]:
        return suggest(5_000, config.train.max_minutes, False)

    assert minutes("train.max_minutes=null") == presets.DEFAULT_MINUTES
    assert minutes("train.max_minutes=7") == 7
    assert minutes("train.max_minutes=null", "train.max_steps=9") is None


def test_a_begun_run_keeps_all_but_how_long_it_trains():
    """Where no run is begun, what is suggested stays."""
    suggested = suggest(5_000, 30, False)
    begun = {"tokenizer": {}}
    for suggestion in suggested:
        group, _, name = suggestion.key.partition(".")
        begun.setdefault(group, {})[name] = "begun"
    assert {"model", "tokenizer", "train"} <= begun.keys()
    for suggestion in suggested:
        assert kept_value(suggestion, {}) == suggestion
        kept = kept_value(suggestion, begun)
        assert kept.key == suggestion.key
        is_kept = suggestion.key not in ("train.max_minutes", "train.max_epochs")
        assert kept.value == ("begun" if is_kept else suggestion.value)


@pytest.fixture
def words(tmp_path) -> list[str]:
    words = small(tmp_path, write_corpus(tmp_path / "corpus", train=300), "train.max_minutes=15")
    return [word for word in words if not word.startswith(("model", "optim"))]


@pytest.mark.slow
def test_a_training_with_auto_is_continued_by_the_same_command(words, capfd, succeeds, monkeypatch):
    """With more time too, for which another width would be chosen."""
    words = ["train", *words, "model=auto", "train.max_steps=4", "train.validate_every=4"]
    first = run_command(capfd, *words)
    assert first.code == 0 and "model.hidden_size=128" in first.err, first.err
    again = succeeds(*words)
    assert again.out == first.out
    monkeypatch.setattr(presets, "SIZES", [replace(presets.SIZES[0], width=64)])
    monkeypatch.setattr(presets, "SAMPLED", 7)
    longer = succeeds(*words, "train.max_steps=8")
    assert "model.hidden_size=128: as the run was begun" in longer.err
    assert "continuing after update 4" in longer.err


def test_for_a_format_is_chosen_what_it_can_hold(tmp_path, caplog):
    """What is given stays; a model that it cannot hold is refused before anything is read."""
    words = [*write_corpus(tmp_path), f"data_folder={tmp_path / 'data'}"]
    words += ["tokenizer.protect=true", "model=auto"]

    def composed(*more: str) -> tuple[object, ...]:
        (config,) = interface.compose([*words, *more])
        return config.model.positions, config.train.noise_plain, config.train.noise_copy

    caplog.set_level("INFO", "nmt")
    before = composed()
    assert before[0] == "rotary" and "cannot be exported as hf: Pegasus" in caplog.text
    assert composed("for=hf") == ("sinusoidal", 0.9, 0.6)
    assert composed("for=argos", "train.noise_plain=0.1") == ("rotary", 0.1, 0.6)
    assert composed("for=argos", "tokenizer.protect=false") == composed("for=browser") == before
    for more, fragment in (
        (["for=hf", "model=transformer_rotary"], "sinusoidal and learned can"),
        (["for=argos", "model=luong_global"], "Transformers only"),
        (["for=paper"], "possible: ctranslate2, hf"),
    ):
        with pytest.raises(UserError, match=fragment):
            interface.compose(more)
