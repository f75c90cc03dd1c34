"""Upload of an exported folder to the Hugging Face hub, or to a server that speaks as it does (HF_ENDPOINT)."""

import logging
import re
from pathlib import Path

from nmt.errors import UserError

log = logging.getLogger("nmt")
NAME = re.compile(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}", re.ASCII)


def check_name(name: str) -> None:
    """Raise UserError unless it is OWNER/NAME."""
    if not NAME.fullmatch(name):
        raise UserError(f"--push {name} is no name of a repository; it is OWNER/NAME, as in my-group/my-translator.")


def check_token() -> None:
    """Raise UserError unless there is a token: that of `hf auth login` or HF_TOKEN."""
    from huggingface_hub.utils import get_token

    if not get_token():
        raise UserError("--push needs a token of the Hugging Face hub: `hf auth login`, or the variable HF_TOKEN.")


def push(folder: Path, name: str) -> str:
    """Upload every file of a folder in one commit, and return the repository's address; a new repository is private.

    Raises UserError where the hub refuses or does not answer.
    """
    check_token()
    from huggingface_hub import HfApi  # here, because the import takes a second

    try:
        api = HfApi()
        address = str(api.create_repo(name, private=True, exist_ok=True))
        api.upload_folder(folder_path=folder, repo_id=name, commit_message="nmt export --format hf")
    except Exception as error:  # the hub and its libraries fail in many ways
        reason = " ".join(str(error).split())[:300].rstrip(". ") or type(error).__name__
        again = f"`hf upload {name} {folder}` tries it again"
        raise UserError(f"{name} could not be uploaded: {reason}. The folder is complete; {again}.") from None
    log.info("Uploaded to %s; a new repository is private until you change it there.", address)
    return address
