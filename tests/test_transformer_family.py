"""Self-attention functions, positions and rollout: against NumPy, finite differences, PyTorch, and their laws."""

import re
import warnings
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import oracle_heads as oracle
import pytest
import torch
from corpora import small, write_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from nmt.attention import flex
from nmt.attention import linear as linear_module
from nmt.attention import self_attention as self_attention_module
from nmt.attention.flex import compiled_flex_attention, explicit_attention, make_score_mod
from nmt.attention.kernels import scaled_dot_product
from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.positions import make_positions, rotate, sinusoids
from nmt.attention.rollout import rollout
from nmt.attention.self_attention import AdditiveSelfAttention, SelfAttention, make_self_attention
from nmt.config.compose import compose_all
from nmt.config.schema import to_dict
from nmt.config.validation import validate
from nmt.data.batches import collate
from nmt.data.dataset import ParallelDataset
from nmt.errors import UserError
from nmt.models.layers import project
from nmt.runs import pipeline, stages

HEADS, SIZE = 3, 4
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}
EXACT = {"atol": 1e-10, "rtol": 0}
VARIANTS = {  # attention, sliding window, bias
    "softmax": ("softmax", 0, "none"),
    "linear": ("linear", 0, "none"),
    "additive": ("additive", 0, "none"),
    "sliding": ("flex", 2, "none"),
    "alibi": ("flex", 0, "alibi"),
    "relative": ("flex", 0, "relative"),
    "relative, sliding": ("flex", 5, "relative"),
}
FAMILY = ("linear", "additive", "alibi", "relative", "sliding", "rotary", "learned")
TRANSFORMERS = ("transformer", *(f"transformer_{name}" for name in FAMILY))
many = settings(max_examples=15)  # of each variant
seeds = st.integers(0, 2**32 - 1)
each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_side = pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])


def unit(*shape: int) -> Tensor:
    """Between −1 and 1."""
    return 2 * torch.rand(*shape, dtype=torch.float64) - 1


def attention_function(
    name: str, size: int, heads: int, causal: bool, dropout: float = 0.0, window: int = 0, bias: str = "none"
) -> SelfAttention:
    """Outside of a model; distances above 3 count as 3."""
    given = {"self_attention": name, "hidden_size": size, "num_heads": heads, "attention_dropout": dropout}
    config = SimpleNamespace(**given, sliding_window=window, distance_bias=bias, max_distance=3)
    return make_self_attention(config, causal)


def make(variant: str, causal: bool, dropout: float = 0.0, size: int = SIZE) -> SelfAttention:
    """An attention function in float64, with random biases in ±1 if it has any."""
    name, window, bias = VARIANTS[variant]
    function = attention_function(name, HEADS * size, HEADS, causal, dropout, window, bias).double()
    for parameter in function.parameters():
        parameter.data = unit(*parameter.shape)
    return function.eval()


def three(batch: int, rows: int) -> tuple[Tensor, ...]:
    """Query, key, value."""
    return tuple(unit(batch, HEADS, rows, SIZE) for _ in range(3))


def padding(lengths: list[int]) -> Tensor:
    """[B 1 1 S]: True where no padding is."""
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])[:, None, None]


def visible(variant: str, causal: bool, mask: Tensor) -> Tensor:
    """[B 1 T S]: what each row that is no padding may attend to."""
    rows = mask.size(-1)
    return torch.from_numpy(oracle.allowed(rows, causal, VARIANTS[variant][1])) & mask & mask.transpose(2, 3)


def table_of(function: SelfAttention, causal: bool) -> object:
    """The biases of `Relative`, by head and distance; the v of additive scores, by head."""
    if isinstance(function, AdditiveSelfAttention):
        return function.energy.detach().double().numpy()
    return [
        dict(enumerate(row, 0 if causal else -3))
        for parameter in function.parameters()
        for row in parameter.double().tolist()
    ]


def test_linear_attention_keeps_memory_in_proportion_to_length():
    """What is kept for the gradients of 1,024 and of 2,048 columns: a table of all pairs would make it fourfold."""
    kept = []
    for length in (1024, 2048):
        sizes: dict[int, int] = {}
        inputs = [torch.ones(1, 1, length, 4, requires_grad=True) for _ in range(3)]
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor, sizes=sizes: sizes.update({tensor.data_ptr(): tensor.numel()}) or tensor,
            lambda tensor: tensor,
        ):
            attention_function("linear", 4, 1, True)(*inputs, None, None, False)
        kept.append(sum(sizes.values()))
    assert kept[1] <= 2 * kept[0]


@each_variant
@each_side
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_every_variant_equals_the_oracle(variant, causal, dtype):
    """Sentences of 1 to 60 pieces in one batch, with and without weights."""
    torch.manual_seed(1)
    function, lengths = make(variant, causal).to(dtype), list(range(1, 61))
    inputs = [side.to(dtype) for side in three(60, 60)]
    mask = None if causal else padding(lengths)
    contexts, weights, _ = function(*inputs, None, mask, True)
    without, no_weights, _ = function(*inputs, None, mask, False)
    assert no_weights is None and contexts.dtype == without.dtype == dtype
    name, window, bias = VARIANTS[variant]
    for row, length in enumerate(lengths):
        sides = [side[row, :, :length].double().numpy() for side in inputs]
        wanted = oracle.attention(name, causal, window, bias, table_of(function, causal), *sides)
        outputs = contexts[row, :, :length], weights[row, :, :length, :length], without[row, :, :length]
        for output, answer in zip(outputs, (*wanted, wanted[0]), strict=True):
            np.testing.assert_allclose(output.detach().double().numpy(), answer, rtol=0, atol=TOLERANCE[dtype])
        assert not weights[row, :, :length, length:].any()


@pytest.mark.parametrize("chunk", [1, 8, 30, 256])
def test_linear_attention_equals_fast_weights(monkeypatch, chunk):
    """The parallel form, in chunks of any size, is the recurrence of outer products."""
    monkeypatch.setattr(linear_module, "CHUNK", chunk)
    torch.manual_seed(1)
    inputs = three(1, 30)
    contexts = make("linear", True)(*inputs, None, None, False)[0]
    for head in range(HEADS):
        np.testing.assert_allclose(
            contexts[0, head], oracle.fast_weights(*(x[0, head].numpy() for x in inputs)), atol=1e-12
        )


@each_variant
@each_side
@pytest.mark.parametrize("weights", [False, True])
def test_gradients_are_finite_differences(variant, causal, weights):
    torch.manual_seed(2)
    function, mask = make(variant, causal, size=2), None if causal else padding([5, 3])
    parameters = list(function.parameters())

    def run(*inputs: Tensor) -> Tensor:
        table = {name: value for (name, _), value in zip(function.named_parameters(), inputs[3:], strict=True)}
        return torch.func.functional_call(function, table, (*inputs[:3], None, mask, weights))[0]

    inputs = [*(unit(2, HEADS, 5, 2) for _ in range(3)), *(parameter.detach() for parameter in parameters)]
    assert torch.autograd.gradcheck(run, [value.clone().requires_grad_() for value in inputs], atol=1e-6, rtol=0)


@each_variant
@many
@given(seed=seeds, rows=st.integers(1, 9), data=st.data(), weights=st.booleans())
def test_decoding_in_pieces_equals_decoding_at_once(variant, seed, rows, data, weights):
    """Distances are counted from the start of the sentence, also to cached keys."""
    torch.manual_seed(seed)
    function, inputs = make(variant, True), three(2, rows)
    at_once, all_weights, last = function(*inputs, None, None, weights)
    splits = sorted(data.draw(st.sets(st.integers(1, rows), max_size=rows)) - {rows})
    state, pieces = function.start(inputs[0][:, :, :0]), []
    for start, stop in pairwise([0, *splits, rows]):
        piece, piece_weights, state = function(*(side[:, :, start:stop] for side in inputs), state, None, weights)
        pieces.append(piece)
        if weights:
            first = start if variant == "linear" else 0  # of earlier columns it has only the sum
            assert_close(piece_weights, all_weights[:, :, start:stop, first:stop], **EXACT)
    assert_close(torch.cat(pieces, 2), at_once, **EXACT)
    assert_close(state, last, **EXACT)


@each_variant
@many
@given(seed=seeds, lengths=st.lists(st.integers(1, 12), min_size=1, max_size=3), causal=st.booleans())
def test_weights_are_probabilities_of_visible_positions(variant, seed, lengths, causal):
    """Rows sum to 1, are at least 0, and exactly 0 where masked; contexts are means of the visible values."""
    torch.manual_seed(seed)
    function, mask = make(variant, causal), padding(lengths)
    query, key, value = three(len(lengths), max(lengths))
    contexts, weights, _ = function(query, key, value, None, None if causal else mask, True)
    allowed, real = visible(variant, causal, mask), mask.transpose(2, 3)
    assert (weights >= 0).all() and contexts.isfinite().all()
    assert not weights.masked_select(real & ~allowed).any()
    assert causal or not weights.masked_select(~mask).any()
    assert (weights.masked_select(allowed) > 0).all()
    assert_close(weights.sum(-1), torch.ones(weights.shape[:3]).double(), **EXACT)
    assert_close(contexts, weights @ value, **EXACT)
    hidden = ~allowed[..., None]
    least = value[:, :, None].masked_fill(hidden, torch.inf).amin(3)
    most = value[:, :, None].masked_fill(hidden, -torch.inf).amax(3)
    assert ((contexts >= least - 1e-12) & (contexts <= most + 1e-12) | ~real).all()


@each_variant
@many
@given(
    seed=seeds,
    causal=st.booleans(),
    scale=st.sampled_from([0.0, 1.0, 71.0, 1e4]),  # 71² · K / √K = 10⁴
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    weights=st.booleans(),
)
def test_no_score_is_too_large(variant, causal, seed, scale, dtype, lengths, weights):
    torch.manual_seed(seed)
    function, mask = make(variant, causal).to(dtype), None if causal else padding(lengths)
    query, key, value = three(len(lengths), max(lengths))
    inputs = [(side.sign() * scale).to(dtype).requires_grad_() for side in (query, key)] + [value.to(dtype)]
    contexts, attention_weights, _ = function(*inputs, None, mask, weights)
    assert contexts.isfinite().all() and (contexts.abs() <= 1.01).all()
    if attention_weights is not None:
        real = padding([max(lengths)] * len(lengths)) if mask is None else mask
        assert_probabilities(attention_weights, visible(variant, causal, real), real)
    contexts.sum().backward()
    assert all(side.grad.isfinite().all() for side in inputs[:2])


def assert_probabilities(weights: Tensor, allowed: Tensor, real: Tensor) -> None:
    """Weights are float32 for inputs of any dtype; rows sum to 1. 0 is exact, also in rows of padding.

    A sum of n weights, each rounded once, has an error of n + 1 roundings of 2⁻²⁴ at most; 4 (n + 1) allows for the
    rounding of their denominator too.
    """
    assert weights.dtype == torch.float32
    error = (weights.double().sum(-1) - 1).abs().max().item()
    assert error <= 4 * (weights.size(-1) + 1) * 2**-24
    assert (weights >= 0).all() and not weights.masked_select(~real).any()
    assert not weights.masked_select(~allowed & real.transpose(2, 3)).any()


@pytest.mark.parametrize("variant", ["softmax", "linear", "additive"])
@many
@given(seed=seeds, rows=st.integers(1, 9), weights=st.booleans())
def test_without_positions_the_order_does_not_matter(variant, seed, rows, weights):
    """Equivariant in the queries, invariant in the pairs of key and value."""
    torch.manual_seed(seed)
    function, (query, key, value) = make(variant, False), three(2, rows)
    mask = torch.rand(2, 1, 1, rows) < 0.6
    mask[..., 0] = True
    contexts, attention_weights, _ = function(query, key, value, None, mask, weights)
    q, s = torch.randperm(rows), torch.randperm(rows)
    permuted, permuted_weights, _ = function(query[:, :, q], key[:, :, s], value[:, :, s], None, mask[..., s], weights)
    assert_close(permuted, contexts[:, :, q], **EXACT)
    if attention_weights is not None:
        assert_close(permuted_weights, attention_weights[:, :, q][..., s], **EXACT)


@pytest.mark.parametrize("variant", ["sliding", "alibi", "relative"])
def test_with_distances_the_order_matters(variant):
    torch.manual_seed(1)
    function, inputs = make(variant, False), three(1, 6)
    contexts, mirrored = (
        function(*sides, None, None, False)[0] for sides in (inputs, [side.flip(2) for side in inputs])
    )
    assert torch.allclose(contexts, mirrored.flip(2)) == (variant != "relative")  # the others are symmetric
    order = torch.tensor([0, 3, 1, 2, 4, 5])
    mixed = function(*(side[:, :, order] for side in inputs), None, None, False)[0]
    assert not torch.isclose(mixed, contexts[:, :, order]).all(-1).any()


@each_variant
@many
@given(seed=seeds, rows=st.integers(2, 8), row=st.integers(0, 6), split=st.integers(0, 6), weights=st.booleans())
def test_causal_rows_do_not_depend_on_the_future(variant, seed, rows, row, split, weights):
    """Neither in values nor in gradients, with the first `split` columns decoded before."""
    torch.manual_seed(seed)
    row, function = min(row, rows - 2), make(variant, True)
    split = min(split, row)

    def run(*inputs: Tensor) -> Tensor:
        first, _, state = (
            function(*(side[:, :, :split] for side in inputs), None, None, weights) if split else (None, None, None)
        )
        rest, _, _ = function(*(side[:, :, split:] for side in inputs), state, None, weights)
        return torch.cat((first, rest), 2) if split else rest

    inputs = [side.requires_grad_() for side in three(1, rows)]
    contexts = run(*inputs)
    for gradient in torch.autograd.grad(contexts[:, :, row].sum(), inputs):
        assert not gradient[:, :, row + 1 :].any()
    changed = [side.detach().clone() for side in inputs]
    for side in changed:
        side[:, :, row + 1 :] = 9.0
    after = run(*changed)
    assert_close(after[:, :, : row + 1], contexts[:, :, : row + 1].detach(), **EXACT)
    assert not torch.isclose(after[:, :, row + 1 :], contexts[:, :, row + 1 :]).any()


def test_one_head_with_identities_is_scaled_dot_product():
    heads, function, inputs = MultiHeadAttention(6, 1).double(), make("softmax", False), unit(2, 5, 6)
    heads.weight.data, heads.output.weight.data = torch.eye(6).double().repeat(3, 1), torch.eye(6).double()
    context, weights, _ = function(*heads.project_all(inputs), None, None, True)
    wanted, wanted_weights = scaled_dot_product(*(inputs[:, None],) * 3, weights=True)
    assert_close((heads.merge_heads(context), weights), (wanted[:, 0], wanted_weights), **EXACT)


@pytest.mark.parametrize("variant", ["sliding", "alibi", "relative", "relative, sliding"])
@each_side
def test_flex_equals_pytorch_attention_with_an_additive_mask(variant, causal):
    torch.manual_seed(1)
    size, rows = HEADS * SIZE, 7
    function, heads, reference = (
        make(variant, causal),
        MultiHeadAttention(size, HEADS).double(),
        nn.MultiheadAttention(size, HEADS).double(),
    )
    for parameter in heads.parameters():
        nn.init.normal_(parameter)
    reference.load_state_dict({f"in_proj_{part}": getattr(heads, part) for part in ("weight", "bias")}, strict=False)
    reference.out_proj.load_state_dict(heads.output.state_dict())
    _, window, bias = VARIANTS[variant]
    added = [oracle.BIASES[bias](head, HEADS, rows, table_of(function, causal)) for head in range(HEADS)]
    numbers = np.where(
        oracle.allowed(rows, causal, window), np.stack([np.zeros((rows, rows)) + head for head in added]), -np.inf
    )
    inputs = unit(rows, 1, size)
    wanted = reference(inputs, inputs, inputs, attn_mask=torch.from_numpy(numbers), average_attn_weights=False)
    context, weights, _ = function(*heads.project_all(inputs.transpose(0, 1)), None, None, True)
    assert_close((heads.merge_heads(context).transpose(0, 1), weights), wanted, **EXACT)


@pytest.mark.slow
def test_each_layer_learns_its_own_biases(small_model):
    """7 distances to both sides in the encoder, 4 to the left in the decoder. Only these and learned positions add
    parameters to the plain Transformer's.
    """
    plain, learned, *others = (
        {key: tuple(value.shape) for key, value in small_model(f"transformer{name}").state_dict().items()}
        for name in ("", "_learned", "_linear", "_alibi", "_sliding", "_rotary")
    )
    assert others == [plain] * 4
    tables = {
        f"{side}.{n}.attention_function.bias.table": (4, size)
        for side, size in (("encoder", 7), ("decoder", 4))
        for n in (0, 1)
    }
    model = small_model("transformer_relative")
    assert {key: tuple(value.shape) for key, value in model.named_parameters() if key not in plain} == tables
    positions = {"source_positions.table": (1024, 32), "target_positions.table": (1024, 32)}
    assert learned.items() - plain.items() == positions.items()


def test_alibi_by_hand():
    """Four heads have slopes 1/4, 1/16, 1/64 and 1/256; equal keys leave the bias alone."""
    function, zeros = attention_function("flex", 8, 4, False, bias="alibi"), torch.zeros(1, 4, 3, 2)
    _, weights, _ = function(zeros, zeros, zeros, None, None, True)
    for head, slope in enumerate((0.25, 0.0625, 0.015625, 0.00390625)):
        exponentials = torch.tensor([1.0, np.exp(-slope), np.exp(-2 * slope)], dtype=torch.float32)
        assert_close(weights[0, head, 0], exponentials / exponentials.sum())


def test_linear_by_hand():
    """φ(q) = (2, 1), φ(k) = (1, 1), (3, 1), (2, ½): scores 3, 7, 4½; the first column attends to itself alone."""
    query = torch.tensor([[1.0, 0.0]]).expand(1, 1, 3, 2)
    key = torch.tensor([[[[0.0, 0.0], [2.0, 0.0], [1.0, np.log(0.5)]]]])
    value = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]]])
    for causal, rows in ((False, [[12 / 14.5, 7 / 14.5]] * 3), (True, [[1, 0], [0.3, 0.7], [12 / 14.5, 7 / 14.5]])):
        for weights in (False, True):
            context = attention_function("linear", 4, 1, causal)(query, key, value, None, None, weights)[0]
            assert_close(context[0, 0], torch.tensor(rows))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["sliding", "alibi", "relative", "relative, sliding"])
@each_side
def test_flexattention_has_the_same_scores(variant, causal):
    """FlexAttention uncompiled, which is compiled on CUDA, with the same mask and bias of every score."""
    from torch.nn.attention.flex_attention import flex_attention  # seconds

    torch.manual_seed(1)
    function, inputs, mask = make(variant, causal), three(3, 9), padding([9, 1, 4])
    real = None if causal else mask[:, 0, 0]
    rule = (function.bias, function.window, causal, real)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was not compiled
        assert_close(
            flex_attention(*inputs, score_mod=make_score_mod(*rule)), explicit_attention(*inputs, *rule)[0], **EXACT
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # PyTorch's compiler warns of what it does itself
@pytest.mark.parametrize("backend", ["eager", "broken"])
def test_pytorchs_compiler_and_its_errors(monkeypatch, caplog, backend):
    """Layers with scores of their own, and a back end that fails."""

    def broken(*_: object) -> None:
        raise ValueError("no kernel")

    compile_ = torch.compile
    backends = {"eager": "eager", "broken": broken}
    monkeypatch.setattr(torch, "compile", lambda *args, **named: compile_(*args, backend=backends[backend], **named))
    monkeypatch.setattr(self_attention_module, "can_compile", lambda *_: True)
    compiled_flex_attention.cache_clear()
    flex.warn_of_explicit_attention.cache_clear()
    torch.compiler.reset()
    with torch.no_grad():
        for layer in range(12):
            function, inputs = make("relative" if layer % 2 else "sliding", layer < 6), three(2, 5 + layer)
            results = [function(*inputs, None, None, weights)[0] for weights in (False, True)]
            assert_close(*results, **EXACT)
    assert compiled_flex_attention().works == (backend == "eager")
    said = [record.message for record in caplog.records if record.name == "nmt"]
    assert len(said) == (backend == "broken") and all("no kernel" in line for line in said)
    compiled_flex_attention.cache_clear()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("variant", ["sliding", "alibi", "relative", "relative, sliding"])
@each_side
def test_compiled_flexattention_equals_explicit_attention(variant, causal):
    """Values and gradients, in float32, of a batch with padding."""
    torch.manual_seed(1)
    function, mask = make(variant, causal).float().cuda(), None if causal else padding([70, 1, 33]).cuda()
    sides = [torch.randn(3, HEADS, 70, 32, device="cuda", requires_grad=True) for _ in range(3)]
    inputs = [*sides, *function.parameters()]
    upstream = torch.randn(3, HEADS, 70, 32, device="cuda")
    results = []
    for weights in (False, True):
        context = function(*sides, None, mask, weights)[0]
        results.append((context, *torch.autograd.grad((context * upstream).sum(), inputs)))
    assert compiled_flex_attention.cache_info().currsize == 1 and compiled_flex_attention().works
    assert_close(results[0], results[1], atol=5e-3, rtol=5e-3)  # Triton multiplies float32 in TF32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@each_side
def test_heads_too_small_to_compile_run_on_cuda(causal):
    function, sides = (
        make("sliding", causal).float().cuda(),
        [torch.randn(3, HEADS, 70, 8, device="cuda") for _ in "qkv"],
    )
    assert_close(function(*sides, None, None, False)[0], function(*sides, None, None, True)[0], atol=1e-5, rtol=0)


@many
@given(seed=seeds, rows=st.integers(1, 8), start=st.integers(0, 500), length=st.integers(1, 6))
def test_rotary_scores_depend_on_the_distance_alone(seed, rows, start, length):
    torch.manual_seed(seed)
    positions, (query, key) = make_positions("rotary", 24, HEADS, 1), (unit(1, HEADS, rows, 8) for _ in range(2))
    at_0, at_start = (positions.rotation(first, rows, query) for first in (0, start))
    scores = rotate(query, at_0) @ rotate(key, at_0).transpose(2, 3)
    assert_close(rotate(query, at_start) @ rotate(key, at_start).transpose(2, 3), scores, **EXACT)
    assert_close(rotate(query, at_start).norm(dim=-1), query.norm(dim=-1), **EXACT)
    np.testing.assert_allclose(
        rotate(query, at_start)[0, 1], oracle.rotated(query[0, 1].numpy(), start), rtol=0, atol=1e-10
    )
    assert_close(positions(query[0], start), query[0])  # nothing is added


def test_queries_and_keys_are_rotated_and_values_are_not():
    torch.manual_seed(1)
    heads, inputs = MultiHeadAttention(24, HEADS).double(), unit(2, 5, 24)
    query, key, value = heads.project_all(inputs)
    projected = project(heads, inputs, make_positions("rotary", 24, HEADS, 1).rotation(7, 5, inputs))
    for row in range(2):
        for head in range(HEADS):
            wanted = [oracle.rotated(side[row, head].detach().numpy(), 7) for side in (query, key)]
            for side, answer in zip(projected, (*wanted, value[row, head].detach().numpy()), strict=True):
                np.testing.assert_allclose(side[row, head].detach().numpy(), answer, rtol=0, atol=1e-10)


def test_sinusoids_are_the_papers():
    """Vaswani 2017 §3.5, sine half first."""
    angles = np.arange(3, 10)[:, None] / 10000 ** (2 * np.arange(4) / 8)
    wanted = np.concatenate((np.sin(angles), np.cos(angles)), 1)
    np.testing.assert_allclose(sinusoids(3, 7, 8, torch.zeros(1)), wanted, rtol=0, atol=1e-5)


def batch():
    """Three pairs of uneven lengths."""
    random = np.random.default_rng(1)
    return collate(*([random.integers(8, 50, length) for length in lengths] for lengths in ([6, 2, 4], [3, 7, 5])))


@pytest.mark.parametrize("side", ["de", "en"])
def test_a_validation_pair_beyond_the_last_position_is_refused_at_the_start(tmp_path, side):
    """Validation pairs are never dropped; with one more position training starts."""
    corpus = write_corpus(tmp_path / "text", train=40)
    valid = tmp_path / "text" / f"valid.{side}"
    lines = valid.read_text(encoding="utf-8").splitlines()
    lines[4] = " ".join(["x"] * 60)
    valid.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = [
        "model.hidden_size=16",
        "model.num_heads=2",
        "tokenizer.max_pieces=30",
        "model.max_positions=40",
        "decode.max_length_extra=6",
    ]
    words = small(tmp_path, corpus, "model=transformer_learned", *words, "train.max_steps=2")
    config = compose_all(words, multirun=False)[0]
    with pytest.raises(UserError) as error:
        pipeline.train(config)
    needed = re.fullmatch(rf".*=40 is too small; line 5 of .*valid\.{side} has (\d+) pieces,.*", str(error.value))[1]
    assert not (tmp_path / "runs").exists()
    prepared = stages.build_stages(config)
    pairs = ParallelDataset(prepared.ids / "valid.arrow")
    lengths = pairs.source_lengths if side == "de" else pairs.target_lengths
    assert int(needed) == lengths.max() + 1
    config.model.max_positions = int(needed)
    pipeline.check_validation(config, pairs, prepared.corpus)
    config.model.max_positions -= 1
    with pytest.raises(UserError):
        pipeline.check_validation(config, pairs, prepared.corpus)
    config.model.positions = "sinusoidal"
    pipeline.check_validation(config, pairs, prepared.corpus)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_encoder_and_decoder_depend_on_the_order(small_model, name):
    """Two pieces are exchanged; without the positions of the configuration the same layers would not notice."""
    model, pairs, order = small_model(name), batch(), torch.tensor([1, 0, 2])
    source, target = pairs.source[:, :3], pairs.target[:, :3]

    def differ(model: nn.Module) -> list[bool]:
        plain, exchanged = model.encode(source, None), model.encode(source[:, order], None)
        hidden = [model.decode(ids, model.start(plain), plain).hidden[:, 2] for ids in (target, target[:, order])]
        return [not torch.allclose(exchanged.values, plain.values[:, order]), not torch.allclose(*hidden)]

    assert differ(model) == [True, True]
    if name in (
        "transformer",
        "transformer_linear",
        "transformer_additive",
        "transformer_rotary",
        "transformer_learned",
    ):
        model.source_positions = model.target_positions = make_positions("none", 32, 4, 1)
        assert differ(model) == [
            False,
            True,
        ]  # the causal mask of several layers gives the decoder the order


def test_learned_positions_end(small_model):
    """The last position works, the next one is refused with the key's name, at once and in pieces."""
    model, pairs = small_model("transformer_learned", max_positions=533), batch()
    source = torch.full((1, 534), 9)
    memory = model.encode(source[:, :533], None)
    with pytest.raises(UserError, match="534 pieces.*model.max_positions=533"):
        model.encode(source, None)
    state = model.decode(source[:, :533], model.start(memory), memory).state
    with pytest.raises(UserError, match="model.max_positions=533"):
        model.decode(source[:, :1], state, memory)
    plain = model(*pairs[:3]).hidden
    model.source_positions.table.data[6] += 1.0  # of the longest source's </s>
    changed = (model(*pairs[:3]).hidden != plain).flatten(1).any(1)
    assert changed.tolist() == [length == 7 for length in pairs.mask.sum(1)]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_self_attention_returns_its_weights(small_model, name):
    """In encoder and decoder: shapes, sums, zeros at padding and in the future; they change no value."""
    model, pairs = small_model(name), batch()
    memory, without = (model.encode(pairs.source, pairs.mask, wanted) for wanted in (True, False))
    assert without.weights is None
    assert_close((memory.values, memory.static), (without.values, without.static), **EXACT)
    rows, columns = pairs.target.size(1), pairs.source.size(1)
    decoded = model.decode(pairs.target, model.start(memory), memory, True)
    assert memory.weights.shape == (3, 2, 4, columns, columns)
    assert decoded.self_weights.shape == (3, 2, 4, rows, rows)
    assert decoded.weights.shape == (3, 2, 4, rows, columns)
    for weights in (memory.weights, decoded.self_weights, decoded.weights):
        assert (weights >= 0).all()
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]).double(), **EXACT)
    assert not memory.weights.masked_select(~pairs.mask[:, None, None, None]).any()
    assert not decoded.self_weights.triu(1).any()
    without = model.decode(pairs.target, model.start(memory), memory)
    assert without.weights is without.self_weights is None
    assert_close(without.hidden, decoded.hidden, **EXACT)
    order = torch.tensor([2, 0])
    assert_close(memory.rows(order).weights, memory.weights[order], **EXACT)


def test_weights_are_in_the_order_of_the_layers(small_model):
    """A layer with queries of 0 attends uniformly; it is at its index."""
    model, pairs = small_model("transformer"), batch()
    for attention in (model.encoder[1].attention, model.decoder[0].self_attention):
        attention.weight.data[:32] = 0.0
    decoded = model(*pairs[:3], True)
    lengths = pairs.mask.sum(1)[:, None, None, None]
    encoder = model.encode(pairs.source, pairs.mask, True).weights
    same = pairs.mask[:, None, None].double() / lengths
    assert_close(encoder[:, 1], same.expand_as(encoder[:, 1]), **EXACT)
    assert not torch.allclose(encoder[:, 0], same)
    rows = decoded.self_weights.size(3)
    same = torch.ones(rows, rows).tril().double() / torch.arange(1, rows + 1)[:, None]
    assert_close(decoded.self_weights[:, 0], same.expand_as(decoded.self_weights[:, 0]), **EXACT)
    assert not torch.allclose(decoded.self_weights[:, 1], same)


@pytest.mark.parametrize("name", ["transformer", "transformer_sliding", "transformer_alibi"])
def test_self_weights_are_over_all_columns_so_far(small_model, name):
    model, pairs = small_model(name), batch()
    memory = model.encode(pairs.source, pairs.mask)
    at_once = model.decode(pairs.target, model.start(memory), memory, True).self_weights
    first = model.decode(pairs.target[:, :3], model.start(memory), memory, True)
    second = model.decode(pairs.target[:, 3:], first.state, memory, True)
    assert_close(first.self_weights, at_once[..., :3, :3], **EXACT)
    assert_close(second.self_weights, at_once[..., 3:, :], **EXACT)


def test_the_state_of_linear_attention_does_not_grow(small_model):
    """One matrix and one vector a head, in float32 even under autocast, and the count of columns."""
    model, pairs = small_model("transformer_linear").float(), batch()
    with torch.autocast("cpu", torch.bfloat16):
        memory = model.encode(pairs.source, pairs.mask)
        state = model.start(memory)
        after = model.decode(pairs.target, state, memory).state
    shapes = {name: tensor.shape for name, tensor in state.items()}
    assert shapes == {name: tensor.shape for name, tensor in after.items()}
    assert shapes == {"step": (3,)} | {f"kv_sum_{n}": (3, 4, 8, 8) for n in (0, 1)} | {
        f"key_sum_{n}": (3, 4, 8) for n in (0, 1)
    }
    assert all(tensor.dtype == torch.float32 for name, tensor in after.items() if name != "step")
    assert after["step"].tolist() == [pairs.target.size(1)] * 3


def test_autocast_does_not_round_the_sums():
    """A sum of a thousand features in bf16 would stop growing at 256."""
    value = torch.ones(1, 1, 1000, 4)
    for causal in (False, True):
        function = attention_function("linear", 4, 1, causal)
        with torch.autocast("cpu", torch.bfloat16):
            context, _, state = function(*(torch.zeros(1, 1, 1000, 4),) * 2, value, None, None, False)
        assert_close(context, value, atol=1e-6, rtol=0)
        assert not causal or state.key_sum.tolist() == [[[1000.0] * 4]]


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_zeroes_weights_in_training_alone(weights, dtype):
    """With unit vectors as values the contexts are the weights: each is 0 or 1 / (1 − p) times itself, p of them 0."""
    torch.manual_seed(1)
    function, query = (
        attention_function("softmax", 64, 1, False, 0.25),
        torch.zeros(20, 1, 64, 64, dtype=dtype),
    )
    query.requires_grad_()  # training uses the explicit kernel in bf16
    value = torch.eye(64, dtype=dtype).expand(20, 1, 64, 64)
    assert_close(
        function.eval()(query, query, value, None, None, weights)[0].float(), torch.full((20, 1, 64, 64), 1 / 64)
    )
    context, attention_weights, _ = function.train()(query, query, value, None, None, weights)
    kept = context.float() * 64 * 0.75
    assert ((kept == 0) | torch.isclose(kept, torch.tensor(1.0), rtol=1e-2)).all()
    assert abs((kept == 0).float().mean().item() - 0.25) < 0.005
    if attention_weights is not None:
        assert torch.equal(attention_weights, torch.full_like(attention_weights, 1 / 64))  # before dropout


def test_attention_dropout_reaches_every_softmax(small_model, monkeypatch):
    """Two encoder layers, and two decoder layers that attend twice; nothing in evaluation."""
    model, pairs, probabilities = small_model("transformer", dropout=0.0, attention_dropout=0.5), batch(), []
    kernel = functional.scaled_dot_product_attention

    def record(query, key, value, mask, dropout, causal):
        probabilities.append(dropout)
        return kernel(query, key, value, mask, dropout, causal)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", record)
    plain = model(*pairs[:3]).hidden
    assert probabilities == [0.0] * 6
    probabilities.clear()
    assert not torch.allclose(model.train()(*pairs[:3]).hidden, plain)
    assert probabilities == [0.5] * 6


REFUSED = {
    "flex without anything": (
        ["model=transformer", "model.self_attention=flex"],
        ["is softmax", "model.sliding_window=N"],
    ),
    "dropout in flex": (["model=transformer_alibi", "model.attention_dropout=0.1"], ["=0.1", "must be 0"]),
    "dropout in linear": (["model=transformer_linear", "model.attention_dropout=0.1"], ["=0.1", "must be 0"]),
    "linear rotary": (["model=transformer_linear", "model.positions=rotary"], ["rotary", "sinusoidal or learned"]),
    "additive rotary": (["model=transformer_additive", "model.positions=rotary"], ["rotary", "dot products"]),
    "delta rotary": (["model=transformer_delta", "model.positions=rotary"], ["self_attention=delta", "negative"]),
    "no positions": (
        ["model=transformer", "model.positions=none"],
        ["model.positions=none", "model.distance_bias=alibi"],
    ),
    "no positions in a window": (["model=transformer_sliding", "model.positions=none"], ["model.positions=none"]),
    "too few positions": (["model=transformer_learned", "model.max_positions=532"], ["=532", "at least", "533"]),
    "too few for the pieces": (
        ["model=transformer_learned", "model.max_positions=99", "tokenizer.max_pieces=99", "decode.max_length_ratio=0"],
        ["=99 is too small", "100 positions"],
    ),
    "a negative window": (["model=transformer_sliding", "model.sliding_window=-1"], ["=-1", "must be 0 to"]),
    "no distance": (["model=transformer_relative", "model.max_distance=0"], ["max_distance=0", "greater than 0"]),
    "a distance without relative": (
        ["model=transformer_alibi", "model.max_distance=9"],
        ["=9", "model.distance_bias=relative"],
    ),
    "an unknown attention": (["model=transformer", "model.self_attention=hard"], ["=hard", "softmax, linear, flex"]),
    "an unknown bias": (["model=transformer_alibi", "model.distance_bias=t5"], ["=t5", "none, alibi, relative"]),
    "unknown positions": (["model=transformer", "model.positions=x"], ["=x", "sinusoidal, learned, rotary, none"]),
    "all dropped": (["model=transformer", "model.attention_dropout=1"], ["=1.0", "less than 1"]),
}


@pytest.mark.parametrize(("words", "fragments"), REFUSED.values(), ids=REFUSED)
def test_invalid_combinations_are_refused(words, fragments):
    with pytest.raises(UserError) as error:
        compose_all(words, multirun=False)
    message = str(error.value)
    assert message.endswith(".") and all(fragment in message for fragment in fragments), message


def test_valid_combinations_are_accepted():
    compose_all(["model=transformer_learned", "model.max_positions=533"], multirun=False)
    compose_all(["model=transformer_alibi", "model.positions=rotary", "model.sliding_window=4"], multirun=False)


def test_what_changes_nothing_stays_in_a_saved_configuration():
    """A run that was trained with it still translates."""
    saved = to_dict(compose_all(["model=transformer"], multirun=False)[0])
    saved["model"]["max_distance"] = 9
    assert validate(saved).model.max_distance == 9


def random_weights(lengths: list[int], rows: int, layers: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Encoder, decoder and cross weights of a batch with padding, two heads each."""
    mask, (encoder_layers, decoder_layers), columns = padding(lengths)[:, None], layers, max(lengths)
    batch = len(lengths)
    encoder, cross = (
        (3 * torch.randn(batch, count, 2, height, columns).double()).masked_fill(~mask, -torch.inf).softmax(-1)
        for count, height in ((encoder_layers, columns), (decoder_layers, rows))
    )
    future = torch.ones(rows, rows).triu(1).bool()
    decoder = (
        (3 * torch.randn(batch, decoder_layers, 2, rows, rows).double()).masked_fill(future, -torch.inf).softmax(-1)
    )
    return encoder, decoder, cross


@many
@given(
    seed=seeds,
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    rows=st.integers(1, 6),
    layers=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_rollout_equals_the_oracle(seed, lengths, rows, layers):
    """Rows sum to 1, are at least 0, exactly 0 at padding, and what a row lacks before comes from the target."""
    torch.manual_seed(seed)
    all_weights = random_weights(lengths, rows, layers)
    rolled_out = rollout(*all_weights)
    assert (rolled_out >= 0).all() and not rolled_out.masked_select(~padding(lengths)[:, 0]).any()
    assert_close(rolled_out.sum(-1), torch.ones(len(lengths), rows).double(), **EXACT)
    for row in range(len(lengths)):
        wanted, own = oracle.rollout(*(weights[row].numpy() for weights in all_weights))
        np.testing.assert_allclose(rolled_out[row], wanted, rtol=0, atol=1e-12)
        assert (np.triu(own, 1) == 0).all()


def test_rollout_by_hand():
    """One layer each. R = ½(A + I) = [[.75 .25] [0 1]]; X = ½ A_cross R, doubled to sum to 1."""
    encoder = torch.tensor([[0.5, 0.5], [0.0, 1.0]])[None, None, None]
    decoder = torch.tensor([[1.0, 0.0], [0.2, 0.8]])[None, None, None]
    cross = torch.tensor([[1.0, 0.0], [0.4, 0.6]])[None, None, None]
    assert_close(rollout(encoder, decoder, cross), torch.tensor([[[0.75, 0.25], [0.3, 0.7]]]))


def test_rollout_of_two_decoder_layers_by_hand():
    """Encoder I, so R = I. Layer 1: X = ½ C₁. Layer 2: X ← ½(A + I) X, then ½X + ½C₂; rows over ¾."""
    encoder = torch.eye(2).expand(1, 1, 1, 2, 2)
    decoder = torch.stack((torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])))[None, :, None]
    cross = torch.stack((torch.eye(2), torch.tensor([[0.0, 1.0], [0.0, 1.0]])))[None, :, None]
    first, second = [0.25 / 0.75, 0.5 / 0.75], [0.125 / 0.75, 0.625 / 0.75]
    assert_close(rollout(encoder, decoder, cross), torch.tensor([[first, second]]))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_model_can_be_rolled_out(small_model, name):
    """Padding has no weight, and the rollout of a sentence is that of it alone."""
    model, pairs = small_model(name), batch()
    memory = model.encode(pairs.source, pairs.mask, True)
    decoded = model.decode(pairs.target, model.start(memory), memory, True)
    rolled_out = rollout(memory.weights, decoded.self_weights, decoded.weights)
    assert rolled_out.shape == (3, pairs.target.size(1), pairs.source.size(1))
    row = int(pairs.mask.sum(1).argmin())
    length, written = int(pairs.mask[row].sum()), pairs.target.size(1)
    assert not rolled_out[row, :, length:].any()
    memory = model.encode(pairs.source[row : row + 1, :length], None, True)
    alone = model.decode(pairs.target[row : row + 1], model.start(memory), memory, True)
    assert_close(
        rolled_out[row, :written, :length], rollout(memory.weights, alone.self_weights, alone.weights)[0], **EXACT
    )
