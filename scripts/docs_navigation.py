"""MkDocs calls `on_config` (mkdocs.yml, hooks): the navigation has the pages of docs/index.md."""

import re
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """A section for each heading of the index, with the pages that it links."""
    index = Path(config["docs_dir"], "index.md").read_text(encoding="utf-8")
    config["nav"] = ["index.md"]
    for section in index.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        pages = re.findall(r"\]\(([\w./-]+)\)", body)
        config["nav"].append({heading: [page.replace(".ipynb", ".md") for page in pages]})
    return config
