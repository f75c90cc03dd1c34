"""Self-attention functions, positions and rollout: against NumPy, finite differences, PyTorch, and
their laws."""

import warnings
from types import SimpleNamespace

import numpy as np
import oracle_heads as oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from nmt.attention import flex
from nmt.attention import linear as linear_module
from nmt.attention.flex import compiled_flex_attention, explicit_attention, make_score_mod
from nmt.attention.positions import make_positions, rotate
from nmt.attention.rollout import rollout
from nmt.attention.self_attention import AdditiveSelfAttention, SelfAttention, make_self_attention
from nmt.data.batches import collate
from nmt.errors import UserError

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
    name: str,
    size: int,
    heads: int,
    causal: bool,
    dropout: float = 0.0,
    window: int = 0,
    bias: str = "none",
) -> SelfAttention:
    """Outside of a model; distances above 3 count as 3."""
    given = {
        "self_attention": name,
        "hidden_size": size,
        "num_heads": heads,
        "attention_dropout": dropout,
    }
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


def table_of(function: SelfAttention, causal: bool) -> object:
    """The biases of `Relative`, by head and distance; the v of additive scores, by head."""
    if isinstance(function, AdditiveSelfAttention):
        return function.energy.detach().double().numpy()
    return [
        dict(enumerate(row, 0 if causal else -3))
        for parameter in function.parameters()
        for row in parameter.double().tolist()
    ]


@each_variant
@each_side
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_every_variant_equals_the_oracle(variant, causal, dtype):
    """Sentences of 1 to 60 pieces in one batch, with and without weights."""
    torch.manual_seed(1)
    function = make(variant, causal).to(dtype)
    lengths = list(range(1, 61))
    inputs = [side.to(dtype) for side in three(60, 60)]
    mask = None if causal else padding(lengths)
    contexts, weights, _ = function(*inputs, None, mask, True)
    without, no_weights, _ = function(*inputs, None, mask, False)
    assert no_weights is None and contexts.dtype == without.dtype == dtype
    name, window, bias = VARIANTS[variant]
    for row, length in enumerate(lengths):
        sides = [side[row, :, :length].double().numpy() for side in inputs]
        wanted = oracle.attention(name, causal, window, bias, table_of(function, causal), *sides)
        outputs = (
            contexts[row, :, :length],
            weights[row, :, :length, :length],
            without[row, :, :length],
        )
        for output, answer in zip(outputs, (*wanted, wanted[0]), strict=True):
            np.testing.assert_allclose(
                output.detach().double().numpy(), answer, rtol=0, atol=TOLERANCE[dtype]
            )
        assert not weights[row, :, :length, length:].any()


@pytest.mark.parametrize("chunk", [1, 8])
def test_linear_attention_in_chunks_is_that_of_all_weights(monkeypatch, chunk):
    monkeypatch.setattr(linear_module, "CHUNK_COLUMNS", chunk)
    torch.manual_seed(1)
    inputs = three(1, 30)
    function = make("linear", True)
    in_chunks, at_once = (function(*inputs, None, None, weights)[0] for weights in (False, True))
    assert_close(in_chunks, at_once, **EXACT)


@each_variant
@each_side
@pytest.mark.parametrize("weights", [False, True])
def test_no_score_is_too_large(variant, causal, weights):
    """Rows of weights sum to 1 and contexts are means, for scores of 0 to 71² · K / √K = 10⁴ and
    beyond."""
    torch.manual_seed(1)
    dtype = torch.bfloat16
    mask = None if causal else padding([12, 1, 7])
    function = make(variant, causal).to(dtype)
    for scale in (0.0, 71.0, 1e4):
        query, key, value = three(3, 12)
        inputs = [(side.sign() * scale).to(dtype).requires_grad_() for side in (query, key)] + [
            value.to(dtype)
        ]
        contexts, rows, _ = function(*inputs, None, mask, weights)
        assert contexts.isfinite().all() and (contexts.abs() <= 1.01).all()
        assert rows is None or ((rows >= 0).all() and (rows.sum(-1) - 1).abs().max() < 1e-5)
        contexts.sum().backward()
        assert all(side.grad.isfinite().all() for side in inputs[:2])


def test_alibi_by_hand():
    """Four heads have slopes 1/4, 1/16, 1/64 and 1/256; equal keys leave the bias alone."""
    function = attention_function("flex", 8, 4, False, bias="alibi")
    zeros = torch.zeros(1, 4, 3, 2)
    _, weights, _ = function(zeros, zeros, zeros, None, None, True)
    for head, slope in enumerate((0.25, 0.0625, 0.015625, 0.00390625)):
        exponentials = torch.tensor([1.0, np.exp(-slope), np.exp(-2 * slope)], dtype=torch.float32)
        assert_close(weights[0, head, 0], exponentials / exponentials.sum())


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["sliding", "alibi", "relative", "relative, sliding"])
@each_side
def test_flexattention_has_the_same_scores(variant, causal):
    """FlexAttention uncompiled, which is compiled on CUDA, with the same mask and bias of every
    score."""
    from torch.nn.attention.flex_attention import flex_attention  # seconds

    torch.manual_seed(1)
    function = make(variant, causal)
    inputs = three(3, 9)
    mask = padding([9, 1, 4])
    real = None if causal else mask[:, 0, 0]
    rule = (function.bias, function.window, causal, real)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was not compiled
        assert_close(
            flex_attention(*inputs, score_mod=make_score_mod(*rule)),
            explicit_attention(*inputs, *rule)[0],
            **EXACT,
        )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("variant", ["sliding", "alibi", "relative", "relative, sliding"])
@each_side
def test_compiled_flexattention_equals_explicit_attention(variant, causal):
    """Values and gradients, in float32, of a batch with padding."""
    torch.manual_seed(1)
    function = make(variant, causal).float().cuda()
    mask = None if causal else padding([70, 1, 33]).cuda()
    sides = [torch.randn(3, HEADS, 70, 32, device="cuda", requires_grad=True) for _ in range(3)]
    inputs = [*sides, *function.parameters()]
    upstream = torch.randn(3, HEADS, 70, 32, device="cuda")
    results = []
    for weights in (False, True):
        context = function(*sides, None, mask, weights)[0]
        results.append((context, *torch.autograd.grad((context * upstream).sum(), inputs)))
    assert compiled_flex_attention.cache_info().currsize == 1 and not flex.given_up
    assert_close(results[0], results[1], atol=5e-3, rtol=5e-3)  # Triton multiplies float32 in TF32


@many
@given(seed=seeds, rows=st.integers(1, 8), start=st.integers(0, 500), length=st.integers(1, 6))
def test_rotary_scores_depend_on_the_distance_alone(seed, rows, start, length):
    torch.manual_seed(seed)
    positions, (query, key) = (
        make_positions("rotary", 24, HEADS, 1),
        (unit(1, HEADS, rows, 8) for _ in range(2)),
    )
    at_0, at_start = (positions.rotation(first, rows, query) for first in (0, start))
    scores = rotate(query, at_0) @ rotate(key, at_0).transpose(2, 3)
    assert_close(rotate(query, at_start) @ rotate(key, at_start).transpose(2, 3), scores, **EXACT)
    assert_close(rotate(query, at_start).norm(dim=-1), query.norm(dim=-1), **EXACT)
    np.testing.assert_allclose(
        rotate(query, at_start)[0, 1],
        oracle.rotated(query[0, 1].numpy(), start),
        rtol=0,
        atol=1e-10,
    )
    assert_close(positions(query[0], start), query[0])  # nothing is added


def batch():
    """Three pairs of uneven lengths."""
    random = np.random.default_rng(1)
    return collate(
        *(
            [random.integers(8, 50, length) for length in lengths]
            for lengths in ([6, 2, 4], [3, 7, 5])
        )
    )


def test_learned_positions_end(small_model):
    """The last position works, the next one is refused with the key's name, at once and in
    pieces."""
    model = small_model("transformer_learned", max_positions=533)
    pairs = batch()
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
    """In encoder and decoder: shapes, sums, zeros at padding and in the future; they change no
    value."""
    model = small_model(name)
    pairs = batch()
    memory, without = (model.encode(pairs.source, pairs.mask, wanted) for wanted in (True, False))
    assert without.weights is None
    assert_close((memory.values, memory.static), (without.values, without.static), **EXACT)
    rows = pairs.target.size(1)
    columns = pairs.source.size(1)
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
    model = small_model("transformer")
    pairs = batch()
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


def test_autocast_does_not_round_the_sums():
    """A sum of a thousand features in bf16 would stop growing at 256."""
    value = torch.ones(1, 1, 1000, 4)
    for causal in (False, True):
        function = attention_function("linear", 4, 1, causal)
        with torch.autocast("cpu", torch.bfloat16):
            context, _, state = function(
                *(torch.zeros(1, 1, 1000, 4),) * 2, value, None, None, False
            )
        assert_close(context, value, atol=1e-6, rtol=0)
        assert not causal or state.key_sum.tolist() == [[[1000.0] * 4]]


@pytest.mark.parametrize("weights", [False, True])
def test_dropout_zeroes_weights_in_training_alone(weights):
    """With unit vectors as values the contexts are the weights: each is 0 or 1 / (1 − p) times
    itself, p of them 0."""
    torch.manual_seed(1)
    function = attention_function("softmax", 64, 1, False, 0.25)
    query = torch.zeros(20, 1, 64, 64)
    value = torch.eye(64).expand(20, 1, 64, 64)
    even = torch.full((20, 1, 64, 64), 1 / 64)
    assert_close(function.eval()(query, query, value, None, None, weights)[0], even)
    context, before_dropout, _ = function.train()(query, query, value, None, None, weights)
    kept = context * 64 * 0.75
    assert ((kept == 0) | torch.isclose(kept, torch.tensor(1.0))).all()
    assert abs((kept == 0).float().mean().item() - 0.25) < 0.005
    assert before_dropout is None or torch.equal(before_dropout, even)


def test_attention_dropout_reaches_every_softmax(small_model, monkeypatch):
    """Two encoder layers, and two decoder layers that attend twice; nothing in evaluation."""
    model = small_model("transformer", dropout=0.0, attention_dropout=0.5)
    pairs = batch()
    probabilities = []
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


def random_weights(
    lengths: list[int], rows: int, layers: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Encoder, decoder and cross weights of a batch with padding, two heads each."""
    mask, (encoder_layers, decoder_layers), columns = (
        padding(lengths)[:, None],
        layers,
        max(lengths),
    )
    batch = len(lengths)
    encoder, cross = (
        (3 * torch.randn(batch, count, 2, height, columns).double())
        .masked_fill(~mask, -torch.inf)
        .softmax(-1)
        for count, height in ((encoder_layers, columns), (decoder_layers, rows))
    )
    future = torch.ones(rows, rows).triu(1).bool()
    decoder = (
        (3 * torch.randn(batch, decoder_layers, 2, rows, rows).double())
        .masked_fill(future, -torch.inf)
        .softmax(-1)
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
    """Rows sum to 1, are at least 0, exactly 0 at padding, and what a row lacks before comes from
    the target."""
    torch.manual_seed(seed)
    all_weights = random_weights(lengths, rows, layers)
    rolled_out = rollout(*all_weights)
    assert (rolled_out >= 0).all() and not rolled_out.masked_select(~padding(lengths)[:, 0]).any()
    assert_close(rolled_out.sum(-1), torch.ones(len(lengths), rows).double(), **EXACT)
    for row in range(len(lengths)):
        wanted, own = oracle.rollout(*(weights[row].numpy() for weights in all_weights))
        np.testing.assert_allclose(rolled_out[row], wanted, rtol=0, atol=1e-12)
        assert (np.triu(own, 1) == 0).all()
