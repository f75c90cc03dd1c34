"""What would make a GPU wait or copy: search reads it once a column, recurrent models cast what
columns share once."""

import pytest
import torch
from test_beam_search import Table, random_table, sources
from test_train_step import READING
from torch import Tensor, nn

from nmt.attention.projection import column_projection
from nmt.decode.beam_search import search
from nmt.decode.constraints import ForcedColumns, LoopAndPlaceholderConstraint

BF16 = torch.autocast("cpu", torch.bfloat16)


@pytest.mark.parametrize("constrained", ["", "placeholders and loops", "forced columns"])
@pytest.mark.parametrize("beam", [1, 3])
def test_search_reads_the_device_once_a_column_and_sends_nothing(monkeypatch, beam, constrained):
    """Sentences end at different columns, some at their limits; beam 3 finishes several hypotheses
    at once."""
    constraints = LoopAndPlaceholderConstraint.start(sources(6), [4], [5]) if constrained else None
    if constrained == "forced columns":
        forced = [[(4, 5), (4,)], [(5,)], [], [(4,)] * 9, [], [(4, 5)]]
        constraints = ForcedColumns.start(forced, 6, torch.device("cpu"))
    model = Table(random_table(6, 9, 1))
    limits = torch.tensor([9, 2, 5, 9, 1, 7])
    columns = []
    calls = []
    wanted = search(model, sources(6), None, beam, 0.6, limits, constraints)

    def spy(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def called(*arguments, **named):  # type: ignore[no-untyped-def]
            if columns:
                calls.append(name)
            with monkeypatch.context() as unwatched:
                unwatched.setattr(owner, name, original)
                return original(*arguments, **named)

        monkeypatch.setattr(owner, name, called)

    def decode(*arguments):  # type: ignore[no-untyped-def]
        columns.append(1)
        return Table.decode(model, *arguments)

    monkeypatch.setattr(model, "decode", decode)
    for name in READING:
        spy(Tensor, name)
    for name in ("tensor", "as_tensor", "from_numpy"):
        spy(torch, name)
    assert search(model, sources(6), None, beam, 0.6, limits, constraints) == wanted
    assert len(columns) > 2 and calls == ["cpu"] * len(columns)


def test_gradients_of_a_matrix_that_every_column_uses_are_summed_in_float32():
    """A thousand gradients of 1: in bf16 their sum would stop at 256."""
    weight = nn.Parameter(torch.ones(1, 1))
    bias = nn.Parameter(torch.zeros(1))
    with BF16:
        project = column_projection(weight, bias)
        outputs = [project(torch.ones(1, 1)) for _ in range(1000)]
    assert outputs[0].dtype is torch.bfloat16
    gradients = torch.autograd.grad(torch.stack(outputs).float().sum(), (weight, bias))
    assert [gradient.item() for gradient in gradients] == [1000.0, 1000.0]
    assert all(gradient.dtype is torch.float32 for gradient in gradients)
