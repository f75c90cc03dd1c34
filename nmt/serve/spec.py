"""The API as a document of OpenAPI, which clients of LibreTranslate look for at /spec."""

from typing import Any

from nmt.serve.service import Service

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
TEXTS = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
FLAGS = {"oneOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "boolean"}}]}
DETECTED = {
    "type": "object",
    "properties": {"confidence": {"type": "number"}, "language": TEXT},
}
ERROR = {"type": "object", "properties": {"error": TEXT}}


def specification(service: Service) -> dict[str, Any]:
    """OpenAPI 3.0, with the languages and the limits of this service."""
    sources = [source for source, _ in service.directions]
    targets = [target for _, target in service.directions]
    source = {"type": "string", "enum": [*dict.fromkeys(sources), "auto"]}
    target = {"type": "string", "enum": list(dict.fromkeys(targets))}
    key = {"type": "string", "description": "or the header Authorization: Bearer KEY"}
    characters = f"{service.limits.characters} characters, {service.limits.texts} texts at most"
    glossary = {"type": "string", "description": "lines SOURCE<TAB>TARGET"}
    translate = {
        "q": TEXTS | {"description": characters},
        "source": source,
        "target": target,
        "format": {"type": "string", "enum": ["text", "html"]},
        "alternatives": COUNT,
        "details": {"enum": [True, False, "words"]},
        "glossary": glossary,
        "api_key": key,
    }
    file = {
        "file": {"type": "string", "format": "binary"},
        "source": source,
        "target": target,
        "glossary": glossary,
        "api_key": key,
    }
    correction = {
        "q": TEXT,
        "s": TEXT | {"description": "its correct translation, with as many lines"},
        "format": {"type": "string", "enum": ["text"]},
        "source": source,
        "target": target,
        "api_key": key,
    }
    kept = {
        "success": {"type": "boolean"},
        "accepted": {"type": "boolean", "description": "whether it counts at once"},
        "instead": {"type": "array", "items": TEXT, "description": "what counted before"},
    }
    translated = {
        "translatedText": TEXTS,
        "alternatives": {"type": "array", "items": TEXTS},
        "detectedLanguage": {"oneOf": [DETECTED, {"type": "array", "items": DETECTED}]},
        "details": {"type": "array", "items": {"type": "object"}},
        "version": TEXTS | {"description": "of the run"},
        "memory": FLAGS | {"description": "whether it was translated before"},
        "similar": {"type": "array", "items": {"type": "object"}},
    }
    required = ["q", "source", "target"]
    posted = {
        "/translate": post("Translate texts", [JSON, FORM], translate, required, of(translated)),
        "/translate_file": post(
            "Translate a document",
            ["multipart/form-data"],
            file,
            ["file", "source", "target"],
            of(
                {
                    "translatedFileUrl": TEXT,
                    "sentences": COUNT,
                    "unsureSentences": COUNT,
                    "memorySentences": COUNT,
                    "version": TEXT,
                }
            ),
        ),
        "/detect": post(
            "The language of a text",
            [JSON, FORM],
            {"q": TEXT, "api_key": key},
            ["q"],
            {"type": "array", "items": DETECTED},
        ),
    }
    if service.corrections is None:
        posted["/suggest"] = post("Refused: nothing is stored", [JSON, FORM], {}, [], ERROR, 403)
    else:
        needed = ["q", "s", "source", "target"]
        posted["/suggest"] = post("Keep a correction", [JSON, FORM], correction, needed, of(kept))
    language = of({"code": TEXT, "name": TEXT, "targets": {"type": "array", "items": TEXT}})
    read = {
        "/languages": get("The languages", {"type": "array", "items": language}),
        "/frontend/settings": get("The settings of a page", {"type": "object"}),
        "/health": get("Whether a translation would be answered now", of({"status": TEXT})),
        "/metrics": get("Metrics of Prometheus", TEXT, "text/plain"),
        "/spec": get("This document", {"type": "object"}),
        "/download_file/{token}": get("A translated document", {}, "application/octet-stream"),
    }
    read["/languages"]["post"] = read["/languages"]["get"]
    read["/download_file/{token}"]["get"]["parameters"] = [
        {"name": "token", "in": "path", "required": True, "schema": TEXT}
    ]
    return {
        "openapi": "3.0.3",
        # Dialect refuses a service that does not have this title.
        "info": {
            "title": "LibreTranslate",
            "version": "1",
            "description": "The API of LibreTranslate, as nmt serve speaks it",
        },
        "paths": posted | read,
    }


def of(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def post(
    summary: str,
    kinds: list[str],
    fields: dict[str, Any],
    required: list[str],
    answer: dict[str, Any],
    status: int = 200,
) -> dict[str, Any]:
    body = of(fields)
    if required:
        body["required"] = required
    operation = {
        "summary": summary,
        "requestBody": {"content": {kind: {"schema": body} for kind in kinds}},
        "responses": responses(answer, JSON, status),
    }
    return {"post": operation}


def get(summary: str, answer: dict[str, Any], kind: str = JSON) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": responses(answer, kind, 200)}}


def responses(answer: dict[str, Any], kind: str, status: int) -> dict[str, Any]:
    described = {"description": "The answer", "content": {kind: {"schema": answer}}}
    refused = {"description": "Why it is refused", "content": {JSON: {"schema": ERROR}}}
    return {"default": refused, str(status): described}
