"""The API as a document of OpenAPI, which clients of LibreTranslate look for at /spec."""

from importlib import resources
from typing import Any

import yaml

from nmt.serve.service import Service


def specification(service: Service) -> dict[str, Any]:
    """The content of spec.yaml, with the languages and the limits of this service."""
    text = resources.files("nmt.serve").joinpath("spec.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    parts = document.pop("parts")  # each is one object, wherever it stands
    sources = [source for source, _ in service.directions]
    targets = [target for _, target in service.directions]
    parts["source"]["enum"] = [*dict.fromkeys(sources), "auto"]
    parts["target"]["enum"] = list(dict.fromkeys(targets))
    limits = service.limits
    parts["question"]["description"] = (
        f"{limits.characters} characters, {limits.texts} texts at most"
    )
    if service.corrections is None:
        document["paths"]["/suggest"] = parts["suggestions_refused"]
    return document
