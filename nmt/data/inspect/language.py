"""Whether a line is written in the language of its side, and a whole side in the one that its code names.

What is usual in a line, its pairs of characters and its words, is learnt from the corpus itself, from the lines that
fit best, so that a tenth in another language does not become usual. A whole side is told by its script and its most
frequent words: exchanged columns and a wrong code are found so, which no single line shows. Languages that are not
listed are not judged.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from nmt.data.inspect.lines import DIGIT, NEWLINE, SIZE, Lines, is_in, mix, scripts
from nmt.errors import UserError, install_extra

BIGRAMS = 1 << 16  # hash values of two characters
FITTING = 2.0  # standard deviations below the median: words whose lines are on average farther are not known
FARTHEST = 6.0  # standard deviations that one line may count
SEEN = 2  # lines that a known word is in
LETTERS = 0.7  # share of the characters of a judged line
LEAST_SPREAD = 2.0  # nats, times the root of the length; text made from templates has less
UNKNOWN, UNLIKELY, WORDS = 0.7, 1.5, 4  # share of unknown words, standard deviations, words of a judged line
DOUBTFUL, CERTAIN = 0.4, 0.9  # share of unknown words of a line for the identifier, its probability
LEAST_LETTERS, LEAST_WORDS = 1000, 300  # of a side that is judged
LEAST_DIFFERENT = 5  # frequent words of a language that a side must have
MAIN_SCRIPT = 0.8  # share of the letters that are of one script
# Share of the words that are frequent words of the other language; how many times that of the one named.
MIN_WORDS, TIMES = 0.02, 2.5
LONGEST_REGION = 6  # characters of a code with a region, such as de_AT
Pair = tuple[str, str]


@dataclass
class Language:
    log_probability: np.ndarray  # of two characters [BIGRAMS]
    median: float  # over lines of the mean log-probability of a character
    center: float  # of the deviations, times the root of the length
    spread: float  # and their standard deviation
    known: np.ndarray  # sorted hashes of words

    def foreign(self, side: Lines) -> np.ndarray:
        """Which lines have mostly unknown words and unlikely characters; formulas and code are not judged."""
        letters = side.letters_by_script(np.arange(256) > 0)
        candidates = self.unknown(side, UNKNOWN) & (letters >= LETTERS * side.lengths)
        if not candidates.any():
            return candidates
        mean = mean_log_probability(self.log_probability, side)
        deviation = ((mean - self.median) * np.sqrt(side.lengths + 1) - self.center) / self.spread
        return candidates & (deviation < -UNLIKELY)

    def unknown(self, side: Lines, share: float) -> np.ndarray:
        """Which lines of at least WORDS words have at least this share of unknown ones."""
        words = side.words
        plain = words.kind != DIGIT
        unknown = words.lines_with(plain & ~is_in(words.hash, self.known))
        total = words.lines_with(plain)
        return (total >= WORDS) & (unknown >= share * total)


def learn_language(side: Lines) -> Language:
    """The language of a sample of lines: pairs of characters of its better half, and words of lines that fit."""
    everything = learn_bigrams(side, np.ones(side.count, bool))
    mean = mean_log_probability(everything, side)
    log_probability = learn_bigrams(side, mean >= np.median(mean))
    mean = mean_log_probability(log_probability, side)
    median = float(np.median(mean))
    deviation = (mean - median) * np.sqrt(side.lengths + 1)
    center, high = np.quantile(deviation, (0.5, 0.75))
    spread = max(float(high - center) / 0.6745, LEAST_SPREAD)  # of the upper half: faults are in the lower
    _, once = np.unique(mix(side.words.hash ^ mix(side.words.line)), return_index=True)  # each word once in a line
    words, index, seen = np.unique(side.words.hash[once], return_inverse=True, return_counts=True)
    fits = np.clip((deviation - center) / spread, -FARTHEST, FARTHEST)
    fit = np.bincount(index, fits[side.words.line[once]], len(words)) / seen
    return Language(log_probability, median, float(center), spread, words[(seen >= SEEN) & (fit > -FITTING)])


def learn_bigrams(side: Lines, lines: np.ndarray) -> np.ndarray:
    """The log-probability of two characters in the chosen lines [BIGRAMS]."""
    chosen = np.repeat(lines, side.lengths + 1)
    counts = np.bincount(bigram_codes(side)[chosen], minlength=BIGRAMS) + 0.5
    return np.log(counts / counts.sum()).astype(np.float32)


def mean_log_probability(log_probability: np.ndarray, side: Lines) -> np.ndarray:
    return side.sums(log_probability[bigram_codes(side)]) / (side.lengths + 1)


def bigram_codes(side: Lines) -> np.ndarray:
    """A number below BIGRAMS for each character and the one before it."""
    before = np.concatenate(([np.uint32(NEWLINE)], side.codes[:-1]))
    return (before * np.uint32(31337) ^ side.codes) & np.uint32(BIGRAMS - 1)


@lru_cache
def load_identifier(*codes: str) -> Any:
    """py3langid, which is slow and gets doubtful lines only; raises UserError without it, or for an unknown code."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise UserError(
            "data.audit_identifier=true needs the library py3langid (0.4 or newer); install it with "
            f"{install_extra('audit')}, or leave the key out."
        ) from None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    for code in codes:
        if base(code) not in map(str, identifier.labels):
            raise UserError(f"The language identifier does not know '{code}'; leave data.audit_identifier out.")
    return identifier


def base(code: str) -> str:
    """The language of a code such as de-AT."""
    return code.replace("_", "-").split("-")[0].lower()


def other_language(language: Language, code: str, side: Lines) -> np.ndarray:
    found = language.unknown(side, DOUBTFUL)
    for line in np.flatnonzero(found).tolist():
        name, probability = load_identifier().classify(side.texts[line])
        found[line] = name != base(code) and probability >= CERTAIN
    return found


WORD = re.compile(r"[^\W\d_]+")
SCRIPTS = {
    "CYRILLIC": "be bg kk ky mk mn ru tg tt uk", "GREEK": "el", "HEBREW": "he yi", "ARABIC": "ar fa ps sd ug ur",
    "DEVANAGARI": "hi mr ne sa", "BENGALI": "as bn", "CJK": "ja zh", "HANGUL": "ko", "THAI": "th", "ARMENIAN": "hy",
    "GEORGIAN": "ka", "ETHIOPIC": "am ti", "TAMIL": "ta", "TELUGU": "te",
}  # fmt: skip
FREQUENT = {
    "af": "die en is nie het van ek wat sy dit hulle ons vir word met",
    "bg": "на да се не за от това са ще съм беше как той тя като",
    "ca": "de la que el és no els amb per una són aquest està hi molt",
    "cs": "je se že na jsem to jsou byl při jako který aby nebo ale jsme",
    "da": "det er jeg ikke og en til at på af med den der hvad havde",
    "de": "der die und ist nicht ich das zu ein sie den mit eine auf dem",
    "en": "the to of and is you it that was he for with they have this",
    "eo": "la mi estas ne kaj vi de li al ŝi tio estis kiu por ĉu",
    "es": "el la que no los una por está es con las pero muy del hay",
    "et": "on ma ei ja see ta et oli kui mis ning oma tema olen seda",
    "fi": "on ei ja hän se että oli en minä mutta mitä ovat hänen kun olen",
    "fr": "le les est pas je une des vous dans et elle nous que qui pour",
    "hr": "je se da na nije sam su što bio nisam ali ovo kako će biti",
    "hu": "az nem és mert hogy egy van meg volt ez csak már mint kell vagy",
    "id": "yang saya dia tidak ini itu dan di akan dengan untuk ada dari kamu apa",
    "is": "og að ég er það ekki hann hún var við þú sem með fyrir um",
    "it": "il non che è di un una per sono gli della ha con mi questo",
    "lt": "ir yra kad jis aš tai ne jos buvo su kaip mano bet nuo iki",
    "lv": "ir un es nav tas ka viņš par no kas ar bija man lai viņa",
    "nl": "het een ik niet van de dat zijn hij voor met wat heeft deze naar",
    "no": "det er jeg ikke og en til på av med som hva har den fra",
    "pl": "nie się w jest to że na z do jak jestem czy ale który był",
    "pt": "o não que uma do da em para eu ele você com os está foi",
    "ro": "nu este un să în la pe și cu am că care sunt mai din",
    "ru": "не в что я на и он это как был она мы для но они",
    "sk": "je sa že na som nie to sú bol ako ktorý aby alebo ale sme",
    "sl": "je se da ne ni sem so kot bil ki ali pri smo tudi bi",
    "sv": "det är jag inte och en att som på av har den för vad ett",
    "tl": "ang ng sa na mga ay ako si hindi siya ko at ba ito kung",
    "tr": "bir bu ve ne için çok değil var ben mi daha o gibi kadar ama",
    "uk": "не в що я на і він це як був вона ми для але та",
    "vi": "tôi không là có một anh này của cho và đã người được những với",
}  # language → its most frequent words in running text
SCRIPT_OF = {language: script for script, languages in SCRIPTS.items() for language in languages.split()}
FREQUENT_WORDS = {language: set(words.split()) for language, words in FREQUENT.items()}
LANGUAGES_OF = Counter(word for words in FREQUENT_WORDS.values() for word in words)  # word → how many languages have it


def describe_languages(pairs: Sequence[Pair], languages: Pair) -> str | None:
    """What is wrong with the languages of the two sides; None where nothing is, or nothing can be told."""
    source, target = (other_side_language([pair[side] for pair in pairs], code) for side, code in enumerate(languages))
    if (source, target) == (base(languages[1]), base(languages[0])):
        return f"the sides look exchanged: the source like {source}, the target like {target}"
    found = [
        f"the {side} looks like {language}, not {code}"
        for side, language, code in zip(("source", "target"), (source, target), languages, strict=True)
        if language
    ]
    return "; ".join(found) or None


def other_side_language(texts: Sequence[str], code: str) -> str | None:
    """What a side looks like if that is not the language of `code`: another language's code, or a script; else None."""
    language = base(code)
    script = main_script(texts)
    expected = SCRIPT_OF.get(language, "LATIN" if language in FREQUENT_WORDS else None)
    if script and expected and script != expected and len(code) <= LONGEST_REGION:  # sr-Latn says its script itself
        languages = SCRIPTS.get(script, "").split()
        return languages[0] if len(languages) == 1 else f"{script if script == 'CJK' else script.capitalize()} script"
    shares = word_shares(texts)
    best = max(shares, key=shares.__getitem__, default=language)
    if language not in FREQUENT_WORDS or best == language:
        return None
    is_other = shares[best] >= MIN_WORDS and shares[best] > TIMES * shares.get(language, 0.0)
    return best if is_other else None


def main_script(texts: Sequence[str]) -> str | None:
    """The script of nearly all letters, as `characters` names it; None for few letters or several scripts."""
    table, names = scripts()
    letters = Counter(int(table[ord(each)]) for text in texts for each in text if ord(each) < SIZE)
    letters.pop(0, None)
    if letters.total() < LEAST_LETTERS:
        return None
    number, count = letters.most_common(1)[0]
    return names[number] if count >= MAIN_SCRIPT * letters.total() else None


def word_shares(texts: Sequence[str]) -> dict[str, float]:
    """For each language the share of its frequent words, of which one of n languages counts 1/n; {} for few words."""
    counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
    if counts.total() < LEAST_WORDS:
        return {}
    return {
        language: sum(counts[word] / LANGUAGES_OF[word] for word in words) / counts.total()
        for language, words in FREQUENT_WORDS.items()
        if len(words & counts.keys()) >= LEAST_DIFFERENT
    }
