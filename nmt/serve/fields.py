"""The fields of a request: the query with JSON or a form. Nothing is dropped without a word."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from nmt.corpus.parallel_text import is_unicode
from nmt.errors import printable
from nmt.serve.limits import Refusal, invalid

URL_ENCODED = "application/x-www-form-urlencoded"
LISTS = ("q",)  # fields that may be given more than once
YES = ("1", "true", "yes", "on")
NO = ("", "0", "false", "no", "off")
Values = dict[str, Any]


async def read_fields(request: Request) -> Values:
    """The fields of a request; a file is its name and content. Raises Refusal."""
    coding = request.headers.get("content-encoding", "identity").lower()
    if coding not in ("", "identity"):
        raise Refusal(415, f"A body is sent as it is, without Content-Encoding {printable(coding)}")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    items: list[tuple[str, Any]] = []
    items += encoded_fields(request.scope["query_string"], "query")
    fields: Values = {}
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        fields = json_fields(await request.body())
    elif kind == URL_ENCODED:
        items += encoded_fields(await request.body(), "form")
    elif kind == "multipart/form-data":
        items += await multipart_fields(request)
    elif await request.body():
        shown = f"of type {printable(kind)}" if kind else "without a Content-Type"
        raise invalid(f"a body {shown}; send JSON or a form")
    given = []
    for name, value in items:
        if isinstance(value, str):
            # Forms of browsers end each line with CR LF, however it ended in the text.
            given.append((name, value.replace("\r\n", "\n")))
        else:
            given.append((name, value))
    return collected([*given, *fields.items()])


class WholeForm(MultiPartParser):
    """Notes whether a form has its last boundary, without which a part may be missing."""

    is_whole = False

    def on_end(self) -> None:
        self.is_whole = True


async def multipart_fields(request: Request) -> list[tuple[str, Any]]:
    """The fields of a form with files; raises Refusal for other bytes than UTF-8 in a text."""
    # The library reads as Latin-1, without a word, what is not UTF-8. In Latin-1 each byte is one
    # character, so that the bytes are known.
    headers = Headers({"content-type": f"{request.headers['content-type']}; charset=latin-1"})
    most_bytes = request.scope["nmt.body"].most_bytes
    parser = WholeForm(headers, request.stream(), max_part_size=most_bytes)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise invalid(f"{error.message}") from None
    items: list[tuple[str, Any]] = []
    try:
        if not parser.is_whole:
            raise invalid("the form does not come to its end")
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                file = (utf8(value.filename or ""), await value.read())
                items.append((utf8(name), file))
            else:
                items.append((utf8(name), utf8(value)))
    except UnicodeError:
        raise invalid("the form is not UTF-8") from None
    finally:
        await form.close()
    return items


def utf8(text: str) -> str:
    """What the bytes of a text in Latin-1 are in UTF-8; raises UnicodeError."""
    return text.encode("latin-1").decode()


def encoded_fields(text: bytes, place: str) -> list[tuple[str, str]]:
    """The fields of a form or a query, whose UTF-8 need not be percent-encoded, as by curl.

    Raises Refusal for other bytes.
    """
    try:
        return parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise invalid(f"the {place} is not UTF-8") from None


def json_fields(body: bytes) -> Values:
    try:
        fields = json.loads(body, object_pairs_hook=collected)
    except UnicodeDecodeError:
        raise invalid("the JSON is not UTF-8") from None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise invalid("the body is not a JSON object")
    return fields


def collected(items: Sequence[tuple[str, Any]]) -> Values:
    """The fields by their names; those of LISTS are lists if they are given more than once."""
    fields: Values = {}
    for name, value in items:
        if name not in fields:
            fields[name] = value
        elif name not in LISTS:
            raise invalid(f"{printable(name)} is given more than once")
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields


def text_field(values: Values, name: str) -> str:
    """A field that must be there and be a text; raises Refusal."""
    value = values.get(name)
    if value in (None, "", []):
        raise invalid(f"missing {name} parameter")
    if not isinstance(value, str) or not is_unicode(value):
        raise invalid(f"{name} is not text")
    return value


def number_field(values: Values, name: str, highest: int) -> int:
    """A number from 0 to `highest`, 0 if it is not given; raises Refusal."""
    value = given_value(values, name) or "0"
    if value.isascii() and value.isdigit() and len(value) < 10 and int(value) <= highest:
        return int(value)
    raise invalid(f"{name} is a whole number from 0 to {highest}")


def details_field(values: Values) -> str:
    """What is wanted beside a translation: "", words (with their confidences), or all."""
    value = given_value(values, "details").lower()
    if value in YES:
        return "all"
    if value in NO:
        return ""
    if value == "words":
        return value
    raise invalid("details is true, false or words")


def given_value(values: Values, name: str) -> str:
    """A value as it is written; "" if it is not given."""
    value = values.get(name)
    return "" if value is None else str(value)
