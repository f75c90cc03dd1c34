"""What would make a GPU wait or copy: search reads it once a column, recurrent models cast what columns share once."""

from collections import Counter

import pytest
import torch
from test_beam_search import Table, batch_of, random_table, sources
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close

from nmt.attention.projection import ColumnMap, map_columns
from nmt.decode.beam_search import search
from nmt.decode.constraints import Constraints, ForcedColumns
from nmt.models.base import EncoderDecoder

READS = ("item", "tolist", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__", "to")
BF16 = torch.autocast("cpu", torch.bfloat16)


@pytest.mark.parametrize("constrained", ["", "placeholders and loops", "forced columns"])
@pytest.mark.parametrize("beam", [1, 3])
def test_search_reads_the_device_once_a_column_and_sends_nothing(monkeypatch, beam, constrained):
    """Sentences end at different columns, some at their limits; beam 3 finishes several hypotheses at once."""
    if constrained == "forced columns":
        constraints = ForcedColumns.start(
            [[(4, 5), (4,)], [(5,)], [], [(4,)] * 9, [], [(4, 5)]], 6, torch.device("cpu")
        )
    else:
        constraints = Constraints.start(sources(6), [4], [5]) if constrained else None
    table = random_table(6, 9, 1)
    model, columns, inside, reads, sent = Table(table), [], [], [], []
    limits = torch.tensor([9, 2, 5, 9, 1, 7])
    wanted = search(model, sources(6), None, beam, 0.6, limits, constraints)

    def spy(owner: object, name: str, calls: list[str]) -> None:
        original = getattr(owner, name)

        def counts(words: list[object]) -> bool:
            """Whether `to` moves; an index that is a list is sent to the device, and a mask is counted there."""
            if name == "__getitem__":
                return any(isinstance(each, list) or getattr(each, "dtype", None) is torch.bool for each in words)
            return name != "to" or any(isinstance(each, (str, torch.device)) for each in words)

        def called(*args, **named):  # type: ignore[no-untyped-def]
            index = args[1] if name == "__getitem__" and isinstance(args[1], tuple) else args[1:]
            if columns and not inside and counts([*index, *named]):
                calls.append(name)
            inside.append(name)
            try:
                return original(*args, **named)
            finally:
                inside.pop()

        monkeypatch.setattr(owner, name, called)

    decode = model.decode

    def counted(*args):  # type: ignore[no-untyped-def]
        columns.append(1)
        inside.append("decode")
        try:
            return decode(*args)
        finally:
            inside.pop()

    monkeypatch.setattr(model, "decode", counted)
    for name in READS:
        spy(Tensor, name, reads)
    for name in ("tensor", "as_tensor", "from_numpy"):
        spy(torch, name, sent)
    spy(Tensor, "__getitem__", sent)
    found = search(model, sources(6), None, beam, 0.6, limits, constraints)
    assert found == wanted
    assert reads == ["cpu"] * len(columns) and len(columns) > 2
    assert not sent


def casts(model: EncoderDecoder, columns: int) -> Counter[tuple[int, ...]]:
    """The shapes of the tensors that a forward pass over so many columns casts; sentences of 4, 7 and 2 pieces."""
    batch = batch_of([4, 7, 2])
    with BF16, profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        model(batch.source, batch.mask, batch.target[:, :1].expand(-1, columns))
    events = [event for event in profiled.events() if event.name == "aten::_to_copy"]
    return Counter(tuple(event.input_shapes[0]) for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bahdanau", "luong_global", "luong_dot"])
def test_recurrent_models_cast_memory_and_matrices_once(small_model, kind):
    """More columns cast more states [B D] and weights [B T S], but no matrix and no memory [B S M]."""
    changes = {"score": "dot"} if kind == "luong_dot" else {}
    model = small_model("luong_global" if changes else kind, dropout=0.0, **changes).float().train()
    few, many = casts(model, 2), casts(model, 5)
    matrices = {tuple(parameter.shape) for parameter in model.parameters() if parameter.dim() == 2}
    memories = {shape for shape in many if shape[:2] == (3, 8)}  # </s> is a piece, too
    assert memories and matrices & set(many)
    for shape in matrices | memories:
        assert many[shape] <= few[shape], shape


def test_gradients_of_a_matrix_that_every_column_uses_are_summed_in_float32():
    """A thousand gradients of 1: in bf16 their sum would stop at 256."""
    weight, bias = nn.Parameter(torch.ones(1, 1)), nn.Parameter(torch.zeros(1))
    with BF16:
        project = map_columns(weight, bias)
        outputs = [project(torch.ones(1, 1)) for _ in range(1000)]
    assert outputs[0].dtype is torch.bfloat16
    gradients = torch.autograd.grad(torch.stack(outputs).float().sum(), (weight, bias))
    assert [gradient.item() for gradient in gradients] == [1000.0, 1000.0]
    assert all(gradient.dtype is torch.float32 for gradient in gradients)


@pytest.mark.parametrize("kind", ["bahdanau", "luong_global"])
def test_recurrent_gradients_in_bf16_are_almost_those_of_float32(small_model, kind):
    """Of every parameter, over forty columns."""
    model, batch = small_model(kind, dropout=0.0).float().train(), batch_of([40, 38, 39])
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            output = model(batch.source, batch.mask, batch.target)
            loss = model.logits(output.hidden).float().logsumexp(-1).sum()
        results.append(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))
    for exact, low in zip(*results, strict=True):
        assert (exact is None) == (low is None)
        if exact is not None and low is not None:
            assert (low - exact).norm() <= 0.05 * exact.norm()


def test_outside_autocast_and_without_gradients_a_matrix_is_used_as_it_is():
    weight = nn.Parameter(torch.ones(2, 2))
    assert map_columns(weight).weight is weight
    with BF16, torch.no_grad():
        assert not isinstance(map_columns(weight), ColumnMap)
        assert map_columns(weight).weight.dtype is torch.bfloat16


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_residual_stays_in_bf16_where_norms_give_float32(small_model, monkeypatch, norm):
    """As on CUDA, where autocast runs norms in float32."""
    normalize = nn.LayerNorm.forward
    residuals: list[torch.dtype] = []
    monkeypatch.setattr(nn.LayerNorm, "forward", lambda module, inputs: normalize(module, inputs.float()))
    model, batch = small_model("transformer", norm=norm).float().train(), batch_of([4, 7, 2])
    for layer in (*model.encoder, *model.decoder):
        layer.register_forward_hook(
            lambda layer, inputs, output: residuals.append((output if torch.is_tensor(output) else output[0]).dtype)
        )
    with BF16:
        output = model(batch.source, batch.mask, batch.target)
    assert set(residuals) == {torch.bfloat16} and len(residuals) == len(model.encoder) + len(model.decoder)
    wanted = model.eval()(batch.source, batch.mask, batch.target).hidden
    assert_close(output.hidden.float().std(), wanted.std(), rtol=0.2, atol=0)
