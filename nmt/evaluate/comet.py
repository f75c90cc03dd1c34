"""COMET (Rei et al. 2020): a trained model scores each translation, from about 0 to 1.

The package is `unbabel-comet`; models are folders with hparams.yaml and checkpoints/model.ckpt.
Nothing is downloaded and nothing in a checkpoint is run: hparams.yaml is read as plain YAML, and
the checkpoint as tensors alone.
"""

from __future__ import annotations

import inspect
import logging
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nmt.corpus.checksums import file_digest
from nmt.errors import UserError, choose, needs_extra
from nmt.evaluate.translated import Translated

DEFAULT = "Unbabel/wmt22-comet-da"
BATCH = 16  # sentences


class Comet:
    """The scorer of a checkpoint: a file, its folder, or a name in the Hugging Face cache."""

    def __init__(self, name: str = "") -> None:
        with needs_extra("comet"):
            import comet  # noqa: F401
        self.name = name or DEFAULT
        self.path = find_checkpoint(self.name)

    @cached_property
    def digest(self) -> str:
        """Of the checkpoint, so that a stored score is that of this one."""
        return file_digest(self.path)[:12]

    @cached_property
    def model(self) -> Any:
        """The model with its weights.

        Raises UserError for a checkpoint that is no COMET model, or holds more than tensors.
        """
        import torch
        import yaml
        from comet.models import str2model

        try:
            path = self.path.parents[1] / "hparams.yaml"
            settings = yaml.safe_load(path.read_text(encoding="utf-8"))
            kind = choose("class_identifier", settings["class_identifier"], str2model)
            known = inspect.signature(kind).parameters
            kept = {key: value for key, value in settings.items() if key in known}
            model = kind(**kept | {"load_pretrained_weights": False, "local_files_only": True})
            state = torch.load(self.path, map_location="cpu", weights_only=True)["state_dict"]
            model.load_state_dict(state, strict=False)
        except Exception as error:  # of several libraries, about files that are not ours
            reason = str(error).strip().partition("\n")[0]
            if type(error).__name__ == "UnpicklingError":
                reason = "it holds more than tensors, which could run code"
            raise UserError(f"{self.path} cannot be read as a COMET model: {reason}") from None
        return model.eval()

    def statistics(self, translated: Translated) -> np.ndarray:
        """[S 2]: the score of each sentence, the mean over its references, and 1."""
        import torch

        translated.check()
        if len(translated.sources) != len(translated.hypotheses):
            raise UserError("COMET reads the sources as well; they are not known here.")
        # it speaks of devices and of its own services
        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        gpus = int(torch.cuda.is_available())
        scores = np.zeros(len(translated.hypotheses))
        for references in translated.references:
            samples = []
            for source, hypothesis, reference in zip(
                translated.sources, translated.hypotheses, references, strict=True
            ):
                samples.append({"src": source, "mt": hypothesis, "ref": reference})
            scores += self.model.predict(
                samples, BATCH, gpus=gpus, progress_bar=False, num_workers=0
            ).scores
        return np.stack([scores / len(translated.references), np.ones(len(scores))], axis=1)

    def score(self, sums: np.ndarray) -> float:
        return float(sums[0] / sums[1])

    def signature(self, references: int, samples: int | None = None) -> str:
        """The model, a digest of its weights, and the version of the package."""
        from importlib.metadata import version

        resamples = "" if samples is None else f"|bs:{samples}"
        model = f"model:{self.name}|weights:{self.digest}"
        return f"nrefs:{references}{resamples}|{model}|version:{version('unbabel-comet')}"


def find_checkpoint(name: str) -> Path:
    """The file of a checkpoint: itself, in a folder, or by a name of the hub; raises UserError."""
    for path in (Path(name), Path(name) / "checkpoints" / "model.ckpt"):
        if path.is_file():
            return path.absolute()
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(name, "checkpoints/model.ckpt")
    except ValueError:  # no name of the hub
        found = None
    if not isinstance(found, str):
        raise UserError(
            f"There is no COMET model {name}: it is neither a file or folder here nor in the cache "
            "of the Hugging Face hub; nmt downloads none. Give comet=CHECKPOINT."
        )
    return Path(found)
