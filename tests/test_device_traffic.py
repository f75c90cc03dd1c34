"""What would make a GPU wait or copy: search reads it once a column, recurrent models cast what columns share once."""

import pytest
import torch
from test_beam_search import LENGTHS, Table, batch_of, random_table, sharper, sources
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.attention.projection import ColumnMap, map_columns
from nmt.decode.beam_search import search
from nmt.models.base import EncoderDecoder

READS = ("item", "tolist", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__", "to")
BF16 = torch.autocast("cpu", torch.bfloat16)


class Casts(TorchDispatchMode):
    """The shapes of all tensors that are cast to bf16."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[torch.Size] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function is torch.ops.aten._to_copy.default and kwargs.get("dtype") is torch.bfloat16:
            self.shapes.append(args[0].shape)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("beam", [1, 3])
def test_search_reads_the_device_once_a_column_and_sends_nothing(monkeypatch, beam):
    """Sentences end at different columns, some at their limits; beam 3 finishes several hypotheses at once."""
    table = random_table(6, 9, 1)
    model, columns, inside, reads, sent = Table(table), [], [], [], []
    limits = torch.tensor([9, 2, 5, 9, 1, 7])
    wanted = search(model, sources(6), None, beam, 0.6, limits)

    def spy(owner: object, name: str, calls: list[str]) -> None:
        original = getattr(owner, name)

        def counts(words: list[object]) -> bool:
            """Whether `to` moves, and whether an index is a list, which PyTorch sends to the device."""
            kinds = {"to": (str, torch.device), "__getitem__": list}
            return name not in kinds or any(isinstance(each, kinds[name]) for each in words)

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
    found = search(model, sources(6), None, beam, 0.6, limits)
    assert found == wanted
    assert reads == ["cpu"] * len(columns) and len(columns) > 2
    assert not sent


def test_no_index_of_search_is_a_mask_or_a_list(small_model):
    """An index made of booleans is read from the device, and one made of numbers is sent to it."""
    model, batch = sharper(small_model("transformer")), batch_of(LENGTHS)

    class Indices(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            name = str(function)
            assert "nonzero" not in name and "masked_select" not in name and "_local_scalar_dense" not in name
            if name.startswith("aten.index."):
                assert all(each is None or each.dtype is torch.long for each in args[1])
            return function(*args, **(kwargs or {}))

    model.reorder = lambda state, rows: {name: part[rows] for name, part in state.items()}  # a GPU's, without `length`
    wanted = search(model, batch.source, batch.mask, 3, 0.6, torch.tensor([9, 2, 5, 9, 1, 7]))
    with Indices():
        assert search(model, batch.source, batch.mask, 3, 0.6, torch.tensor([9, 2, 5, 9, 1, 7])) == wanted


def decoded(model: EncoderDecoder, columns: int) -> list[torch.Size]:
    """The shapes that a forward pass over so many columns casts to bf16, of three sentences of 4, 7 and 2 pieces."""
    batch = batch_of([4, 7, 2])
    with BF16, Casts() as casts:
        model(batch.source, batch.mask, batch.target[:, :1].expand(-1, columns))
    return casts.shapes


@pytest.mark.parametrize("kind", ["bahdanau", "luong_global", "luong_dot"])
def test_recurrent_models_cast_memory_and_matrices_once(small_model, kind):
    """Three columns more cast three states, contexts or gates more [B …], and neither memory nor matrix."""
    changes = {"score": "dot"} if kind == "luong_dot" else {}
    model = small_model("luong_global" if changes else kind, dropout=0.0, **changes).float().train()
    few, many = decoded(model, 2), decoded(model, 5)
    for shape in {shape for shape in many if len(shape) > 1 and 3 != shape[0] or len(shape) == 3 and shape[1] == 8}:
        assert many.count(shape) == few.count(shape), shape


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
