"""Sentence pairs of TMX and XLIFF files (1.2 and 2), read as a stream of units.

The parser is expat, which never loads another file. A file that declares entities of its own, or uses one that it does
not declare, is refused: such a text can grow without bounds, or is incomplete. Of the markup inside a sentence, what
stands for codes (`bpt`, `ept`, `ph`, `it`, `ut`, `sub`) is left out with its content; of all else (`hi`, `g`, `mrk`,
`pc`, `x` …) the text stays and the tags go. Line breaks and indentation become one space.
"""

from collections import Counter
from collections.abc import Iterator
from xml.parsers import expat

from nmt.config.schema import DataConfig
from nmt.data.packed import PackedFile
from nmt.data.tables import Pair, Skipped, printable
from nmt.errors import UserError

CODES = {"bpt", "ept", "ph", "it", "ut", "sub"}
UNITS = {"tu", "trans-unit", "segment"}
MAX_CHARACTERS = 1 << 20  # of a unit
MAX_DEPTH = 100
MAX_TOKEN = 1 << 24  # bytes of one tag, which expat holds in memory
MAX_LANGUAGES = 1000  # that are counted, for a message
LONGEST_CODE = 40
NO_PAIR = "unit without both languages"
NO_SEG = "its <tuv> elements lack a <seg>, in which TMX has the text"


def read_units(file: PackedFile, data: DataConfig, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of a file in two languages; raises UserError for damage, entities, and when no unit has both."""
    languages = data.source, data.target
    reader = UnitReader(file, languages, skipped)
    fed, found = 0, False
    for block in file.blocks():
        fed += len(block)
        reader.parse(block)
        reader.check_token(fed)
        found = found or bool(reader.pairs)
        yield from reader.pairs
        reader.pairs.clear()
    reader.parse(b"", True)
    yield from reader.pairs
    if not (found or reader.pairs):
        there = ", ".join(printable(code) for code, _ in reader.seen.most_common(10) if code)
        named = f"its languages are: {there}" if there else "it does not name its languages"
        named = NO_SEG if reader.without_seg else named
        raise UserError(f"{file} has no unit in {' and '.join(languages)}; {named}.")


class UnitReader:
    """Collects the pairs of the units that have ended, in `pairs`, and the language codes that occur, in `seen`."""

    def __init__(self, file: PackedFile, languages: Pair, skipped: Skipped) -> None:
        self.file, self.languages, self.skipped = file, languages, skipped
        self.pairs: list[Pair] = []
        self.seen = Counter[str]()
        self.stack: list[str] = []
        self.codes = ["", ""]  # the source and target language of an XLIFF file
        self.language = ""  # of what is read now
        self.sides: dict[str, str] = {}  # language → text, of the unit
        self.text: list[str] | None = None  # of the sentence, or None outside of one
        self.hidden = 0  # how many elements of CODES are open
        self.size = 0
        self.without_seg = 0  # how many <tuv> have none
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.EntityDeclHandler = self.refuse_declaration
        self.parser.SkippedEntityHandler = self.refuse_reference

    def parse(self, block: bytes, is_last: bool = False) -> None:
        """Read the next bytes; raises UserError."""
        try:
            self.parser.Parse(block, is_last)
        except expat.ExpatError as error:
            problem = "it ends too early" if is_last else expat.ErrorString(error.code)
            raise self.error(f"is no well-formed XML ({problem})", error.lineno) from None
        except (LookupError, ValueError):  # an encoding that Python does not know, or one of several bytes
            raise self.error("has an encoding that cannot be read; convert the file to UTF-8") from None

    def check_token(self, fed: int) -> None:
        """Raise UserError for a tag without an end."""
        if fed - max(0, self.parser.CurrentByteIndex) > MAX_TOKEN:
            raise self.error("has a tag without an end")

    def error(self, problem: str, line: int | None = None) -> UserError:
        """The error for a line of the file, by default the current one."""
        return UserError(f"{self.file}, line {line or self.parser.CurrentLineNumber}, {problem}.")

    def refuse_declaration(self, name: str, *more: object) -> None:
        """Raise UserError for an entity that the file declares."""
        raise self.error(f"declares the entity '{printable(name)}'; a file with entities of its own is refused")

    def refuse_reference(self, name: str, is_parameter: bool) -> None:
        """Raise UserError for an entity that is used without a declaration in the file."""
        raise self.error(f"uses the entity '{printable(name)}', which the file does not declare")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name, parent = local_name(tag), self.stack[-1] if self.stack else ""
        self.stack.append(name)
        if len(self.stack) > MAX_DEPTH:
            raise self.error(f"has more than {MAX_DEPTH} elements inside each other")
        if self.text is not None:
            self.hidden += name in CODES
        elif name in UNITS:
            self.sides, self.size = {}, 0
        elif name == "tuv":
            self.language = attributes.get("xml:lang", attributes.get("lang", ""))
            self.without_seg += 1
        elif name == "seg" and parent == "tuv":
            self.text = []
            self.without_seg -= 1
        elif name in ("source", "target") and parent in ("trans-unit", "segment"):
            self.language, self.text = attributes.get("xml:lang", self.codes[name == "target"]), []
        elif name == "file" and "source-language" in attributes:  # 1.2
            self.codes = [attributes["source-language"], attributes.get("target-language", "")]
        elif name == "xliff" and "srcLang" in attributes:  # 2
            self.codes = [attributes["srcLang"], attributes.get("trgLang", "")]

    def characters(self, text: str) -> None:
        """Text between two tags."""
        if self.text is not None and not self.hidden:
            self.text.append(text)
            self.grow(len(text))

    def grow(self, characters: int) -> None:
        """Count characters of the unit; raises UserError for too many."""
        self.size += characters
        if self.size > MAX_CHARACTERS:
            raise self.error(f"has a unit with more than {MAX_CHARACTERS:,} characters")

    def end(self, tag: str) -> None:
        """An element ends."""
        name = self.stack.pop()
        if self.text is not None and self.stack and self.stack[-1] in ("tuv", "trans-unit", "segment"):
            self.sides.setdefault(normal_code(self.language), " ".join("".join(self.text).split()))
            self.grow(LONGEST_CODE)
            self.text = None
        elif self.text is not None:
            self.hidden -= name in CODES
        elif name in UNITS:
            if len(self.seen) < MAX_LANGUAGES:
                self.seen.update(list(self.sides))
            source, target = (self.find_side(language) for language in self.languages)
            if source is None or target is None:
                self.skipped[NO_PAIR] += 1
            else:
                self.pairs.append((source, target))

    def find_side(self, language: str) -> str | None:
        """The unit's text in a language: its very code, else the first with any region (de-AT for de)."""
        wanted = normal_code(language)
        if wanted in self.sides:
            return self.sides[wanted]
        return next((text for code, text in self.sides.items() if code.startswith(f"{wanted}-")), None)


def local_name(tag: str) -> str:
    """The name of an element without the prefix of its namespace."""
    return tag.rpartition(":")[2]


def normal_code(language: str) -> str:
    """A language code in lower case with `-` before the region: de-at for de_AT."""
    return language.lower().replace("_", "-")[:LONGEST_CODE]
