"""Several languages on a side, for one multilingual model: data.source=de+fr+cs data.target=en.

Each word of data.train, data.valid and data.test is read for every language pair that it has. With
several target languages each source begins with a tag of its target language, such as <2fr>
(Johnson et al. 2017), or with data.pair_tags of both languages, such as <de2fr>. A test set is one
set for each pair, NAME-SOURCE-TARGET.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from nmt.config.schema import DataConfig
from nmt.corpus.languages import base_code, choose_language
from nmt.corpus.origin import Origin
from nmt.corpus.tables import listed
from nmt.corpus.tags import OPUS_TAG, language_tag, leading_tags
from nmt.errors import UserError

Sets = dict[str, list[Origin]]


def language_pairs(data: DataConfig) -> list[tuple[str, str]]:
    """All pairs of a source and a target language; raises UserError if there is none."""
    sources = data.source.split("+")
    targets = data.target.split("+")
    pairs = [pair for pair in product(sources, targets) if pair[0] != pair[1]]
    is_twice = len(set(sources)) < len(sources) or len(set(targets)) < len(targets)
    if not pairs or is_twice or "" in sources + targets:
        raise UserError(
            f"data.source={data.source} data.target={data.target} is not possible; several "
            "languages are written de+fr."
        )
    return pairs


def is_multilingual(data: DataConfig) -> bool:
    """Whether a side has several languages."""
    return "+" in data.source + data.target


def each_pair(data: DataConfig) -> Iterator[DataConfig]:
    """The configuration of each language pair by itself."""
    for source, target in language_pairs(data):
        yield replace(data, source=source, target=target)


def pair_tag(pair: DataConfig, data: DataConfig) -> str:
    """The tag that sources of one language pair begin with, such as <2fr>; empty if none."""
    if not is_multilingual(data):
        return ""
    if data.pair_tags:
        return language_tag(pair.target, pair.source)
    return language_tag(pair.target) if "+" in data.target else ""


def of_pair(origin: Origin, pair: DataConfig, data: DataConfig) -> Origin:
    """An origin of one language pair, with its tag if the target language has to be said.

    Its links are those of PREFIX.SOURCE-TARGET.align. PREFIX.align does not say which side is which
    language. An origin of all pairs together stays as it is: it has its tags.
    """
    if pair == data:
        return origin
    links = origin.links
    if links is not None and f".{pair.source}-{pair.target}.align" not in links.name:
        links = None
    return replace(
        origin, languages=(pair.source, pair.target), tag=pair_tag(pair, data), links=links
    )


def divide_tests(sets: Sets) -> Sets:
    """The sets; a test set with several language pairs becomes one set for each of them.

    An origin of all pairs together stays in the set.
    """
    divided: Sets = {}
    for name, origins in sets.items():
        for origin in origins:
            of_pair = name
            if origin.languages and name not in ("train", "valid"):
                of_pair = f"{name}-{'-'.join(origin.languages)}"
            divided.setdefault(of_pair, []).append(origin)
    return divided


def target_language(data: DataConfig, name: str) -> str:
    """The target language of a test set: the last one in its name, or data.target.

    That is zh of test-en-zh and of test-en-zh-capitals.
    """
    if "+" not in data.target:
        return data.target
    languages = data.target.split("+")
    places = {language: f"{name}-".rfind(f"-{language}-") for language in languages}
    last = max(languages, key=places.__getitem__)
    return last if places[last] >= 0 else data.target


def tagged_language(sources: Sequence[str], data: DataConfig) -> str:
    """The language whose tag all sources have, such as zh of <2zh>; else data.target."""
    for language in data.target.split("+"):
        if sources and all(has_tag_of(source, language) for source in sources):
            return language
    return data.target


def has_tag_of(source: str, language: str) -> bool:
    """Whether a tag before a source names a target language: <2fr>, <de2fr> or >>fra<<."""
    for tag in leading_tags(source):
        if OPUS_TAG.fullmatch(tag):
            if base_code(tag.strip("<>")) == base_code(language):
                return True
        elif tag.endswith(language_tag(language)[1:]):
            return True
    return False


def choose_pair(
    data: DataConfig, source: str | None, target: str | None, owner: str
) -> tuple[str, str]:
    """The one language pair that is asked for, by codes in any form; raises UserError."""
    pairs = language_pairs(data)
    for side, code in enumerate((source, target)):
        if not code:
            continue
        try:
            chosen = choose_language(code, {pair[side] for pair in pairs})
        except UserError as error:
            raise UserError(f"{owner} translates {describe_pairs(pairs)}: {error}.") from None
        pairs = [pair for pair in pairs if pair[side] == chosen]
    if len(pairs) > 1:
        raise UserError(
            f"{owner} translates {describe_pairs(pairs)}; choose one with --source and --target."
        )
    return pairs[0]


def describe_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return listed(list(map(" to ".join, pairs)))
