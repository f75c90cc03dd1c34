"""Where dropout is: replaced by a factor, every model equals its paper with that factor in the same
places."""

from dataclasses import asdict, replace

import pytest
import torch
from conftest import VOCABULARY, small_config
from oracle_transformer import transformer
from tensors import batch_of
from test_oracle_models import OracleAttention, assert_rows, logits_in_numpy, random_model, rows
from test_oracle_transformer import paper_parameters
from torch import Tensor, nn

from nmt.models.build import build
from nmt.models.dropout import Dropout

KEEP = 1.25  # 1 / (1 − p) of p = 0.2, at every element
PAIRS = [7, 1, 12], [5, 9, 1]  # pieces of sources and targets
RECURRENT = {
    "Bahdanau": ("bahdanau", {}),
    "Luong, fed, two layers": ("luong_global", {"num_layers": 2}),
    "Luong, not fed, two layers": ("luong_global", {"num_layers": 2, "input_feeding": False}),
    "Sutskever, two layers": ("seq2seq", {"num_layers": 2}),
}


@pytest.fixture(autouse=True)
def factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout multiplies every element by KEEP."""

    def forward(self: Dropout, inputs: Tensor, residual: Tensor | None = None) -> Tensor:
        return KEEP * inputs if residual is None else residual + KEEP * inputs

    monkeypatch.setattr(Dropout, "forward", forward)


def logits(model: nn.Module, batch: tuple) -> Tensor:
    with torch.no_grad():
        return model.logits(model.train()(*batch[:3]).hidden).double().numpy()  # type: ignore[operator,no-any-return]


@pytest.mark.parametrize("case", RECURRENT)
def test_recurrent_models(case):
    """On embeddings, between the layers of encoder and decoder, and on what the output layer reads;
    never on h̃ fed."""
    name, changes = RECURRENT[case]
    model = random_model(name, **changes)
    batch = batch_of(*PAIRS, seed=3)
    attend = None
    if model.has_attention:
        attend = OracleAttention(model, small_config(name, ()).score, "global")
    wanted = [logits_in_numpy(model, *pair, attend, KEEP) for pair in rows(batch)]
    assert_rows(logits(model, batch), wanted, 1e-9)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformers(norm):
    """On embeddings + positions, and on the output of each sub-layer before it is added (Vaswani
    2017 §5.4)."""
    config = replace(small_config("transformer", ()), norm=norm, attention_dropout=0.0)
    model = build(config, VOCABULARY, VOCABULARY, True).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    batch = batch_of(*PAIRS, seed=3)
    p = paper_parameters(model, config, True)
    wanted = [transformer(*pair, p, asdict(config), KEEP)[0] for pair in rows(batch)]
    assert_rows(logits(model, batch), wanted, 1e-9)
