"""Servers on the loopback, and the environment of a process that takes one for the Hugging Face
hub."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BROUGHT = "it is not installed; the environment of `make test` brings it"


class Handler(BaseHTTPRequestHandler):
    """Answers without a log."""

    server: Any

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, content: bytes, code: int = 200, **headers: object) -> None:
        """Answer; an underscore in the name of a header is a hyphen."""
        self.send_response(code)
        for name, value in ({"Content_Length": len(content)} | headers).items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_json(self, content: object, code: int = 200) -> None:
        self.send(json.dumps(content).encode(), code, Content_Type="application/json")


@contextlib.contextmanager
def serving(handler: Any, **attributes: Any) -> Iterator[Any]:
    """A running server with its `url` and these attributes."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        attributes["url"] = f"http://127.0.0.1:{server.server_port}"
        vars(server).update(attributes)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def hub_environment(url: str, home: Path, **more: str) -> dict[str, str]:
    """huggingface_hub reads its variables when it is imported, so a process needs its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HF_") and "proxy" not in name.lower()
    }
    kept |= {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    kept |= {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    return kept | {"no_proxy": "127.0.0.1"} | more
