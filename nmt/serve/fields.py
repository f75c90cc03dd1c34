"""The fields of a request: JSON, a form, or the query. Nothing is dropped without a word."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.requests import Request

from nmt.errors import printable
from nmt.serve.limits import Refusal

URL_ENCODED = "application/x-www-form-urlencoded"
LISTS = ("q",)  # fields that may be given more than once
YES = ("1", "true", "yes", "on")
NO = ("", "0", "false", "no", "off")
Values = dict[str, Any]


async def read_fields(request: Request) -> Values:
    """The fields of a request; a file is its name and content. Raises Refusal."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return json_fields(await request.body())
    items: list[tuple[str, Any]] = []
    items += encoded_fields(request.scope["query_string"], "query")
    if kind == URL_ENCODED:
        items += encoded_fields(await request.body(), "form")
    elif kind == "multipart/form-data":
        async with request.form() as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    items.append((name, (value.filename, await value.read())))
                else:
                    items.append((name, value))
    elif await request.body():
        shown = f"of type {printable(kind)}" if kind else "without a Content-Type"
        raise Refusal(400, f"Invalid request: a body {shown}; send JSON or a form")
    fields = []
    for name, value in items:
        if isinstance(value, str):
            # Forms of browsers end each line with CR LF, however it ended in the text.
            fields.append((name, value.replace("\r\n", "\n")))
        else:
            fields.append((name, value))
    return collected(fields)


def encoded_fields(text: bytes, place: str) -> list[tuple[str, str]]:
    """The fields of a form or a query, whose UTF-8 need not be percent-encoded, as by curl.

    Raises Refusal for other bytes.
    """
    try:
        return parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, f"Invalid request: the {place} is not UTF-8") from None


def json_fields(body: bytes) -> Values:
    try:
        fields = json.loads(body, object_pairs_hook=collected)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise Refusal(400, "Invalid request: the body is not a JSON object")
    return fields


def collected(items: Sequence[tuple[str, Any]]) -> Values:
    """The fields by their names; those of LISTS are lists if they are given more than once."""
    fields: Values = {}
    for name, value in items:
        if name not in fields:
            fields[name] = value
        elif name not in LISTS:
            raise Refusal(400, f"Invalid request: {printable(name)} is given more than once")
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields


def text_field(values: Values, name: str) -> str:
    """A field that must be there and be a text; raises Refusal."""
    value = values.get(name)
    if not value:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str) or not is_text(value):
        raise Refusal(400, f"Invalid request: {name} is not text")
    return value


def number_field(values: Values, name: str, highest: int) -> int:
    """A number from 0 to `highest`, 0 if it is not given; raises Refusal."""
    value = str(values.get(name) or 0)
    if value.isascii() and value.isdigit() and len(value) < 10 and int(value) <= highest:
        return int(value)
    raise Refusal(400, f"Invalid request: {name} is a number up to {highest}")


def details_field(values: Values) -> str:
    """What is wanted beside a translation: "", words (with their confidences), or all."""
    value = str(values.get("details") or "").lower()
    if value in YES:
        return "all"
    if value in NO:
        return ""
    if value == "words":
        return value
    raise Refusal(400, "Invalid request: details is true, false or words")


def is_text(text: str) -> bool:
    """Whether a text can be encoded; JSON may hold half a surrogate pair."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
