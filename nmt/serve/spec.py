"""The API as a document of OpenAPI, which clients of LibreTranslate look for at /spec."""

from typing import Any

import yaml

from nmt.serve.limits import MOST_ALTERNATIVES
from nmt.serve.pages import read_own
from nmt.serve.service import Service

REFUSED = {
    "summary": "Refused: nothing is stored",
    "responses": {"403": {"$ref": "#/components/responses/Refused"}},
}


def specification(service: Service, root_path: str = "") -> dict[str, Any]:
    """What api.yaml says, with the address, the languages and the limits of this service."""
    document = yaml.safe_load(read_own("api.yaml"))
    document["servers"] = [{"url": root_path or "/"}]
    if service.keys is None:
        del document["security"]
    schemas = document["components"]["schemas"]
    sources = [source for source, _ in service.directions]
    targets = [target for _, target in service.directions]
    schemas["Source"]["enum"] = [*dict.fromkeys(sources), "auto"]
    schemas["Target"]["enum"] = list(dict.fromkeys(targets))
    schemas["Alternatives"]["maximum"] = MOST_ALTERNATIVES
    limits = service.limits
    text, texts = schemas["Texts"]["oneOf"]
    text["maxLength"] = limits.characters
    texts["maxItems"] = limits.texts
    schemas["Texts"]["description"] = f"{limits.characters} characters in all"
    if service.corrections is None:
        document["paths"]["/suggest"]["post"] = REFUSED
    return document
