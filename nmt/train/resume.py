"""Whether a run may be continued under another configuration than it began with."""

from torch import Tensor

from nmt.config import to_dict
from nmt.config_validation import validate
from nmt.errors import UserError
from nmt.train.checkpoint import Payload, differences
from nmt.train.schedule import FITTED

# These change where things lie, how much is looked at, or how the finished model is used; not what is trained.
FREE = ("name", "device", "data_folder", "run_folder", "train.log_every", "train.compile")
FREE_GROUPS = (
    "decode.",
    "train.picture",
    "data.",
)  # the corpus is compared by its hash, the tokenizer and limits by their own keys
BUDGET = ("train.max_steps", "train.max_epochs", "train.patience")


def refuse_changes(saved: Payload, new: Payload, name: str) -> None:
    """Raise UserError, naming the keys, when the saved run would not be what the configuration says."""
    config = new["config"]
    free = set(FREE)
    if config["optim"]["schedule"] not in FITTED and config["train"]["max_minutes"] is None:
        free |= set(BUDGET)
    changed = differences(to_dict(validate(saved["config"])), config)  # keys that came later have their defaults
    wrong = {key: values for key, values in changed.items() if key not in free and not key.startswith(FREE_GROUPS)}
    if saved["corpus_hash"] != new["corpus_hash"]:
        wrong["the corpus"] = (saved["corpus_hash"][:10], new["corpus_hash"][:10])
    elif not wrong and not same_tokenizers(saved["tokenizers"], new["tokenizers"]):
        wrong["the tokenizer, built again"] = ("one", "another")
    if wrong:
        told = ", ".join(f"{key} (was {old}, now {new})" for key, (old, new) in wrong.items())
        raise UserError(
            f"The run '{name}' was begun with another configuration: {told}; go back to the old values to continue it, "
            f"or give this one another name=…, or delete its folder."
        )


def same_tokenizers(saved: Payload, new: Payload) -> bool:
    """Byte for byte."""
    both = saved.keys() == new.keys()
    return both and all(saved[key].equal(new[key]) for key in saved if isinstance(saved[key], Tensor))
