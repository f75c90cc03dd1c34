"""Laws that every model of conf/model keeps.

The models themselves are compared with their papers in test_oracle_models.py and
test_oracle_transformer.py.
"""

import copy

import numpy as np
import oracle
import pytest
import torch
from conftest import MODELS
from tensors import EXACT, uneven
from torch import Tensor
from torch.testing import assert_close

from nmt.attention import hard
from nmt.attention.windows import WINDOWS
from nmt.data.batches import Batch, collate
from nmt.data.tokenizer import BOS, PAD
from nmt.decode.beam_search import search
from nmt.models.base import EncoderDecoder, select_rows
from nmt.models.ensemble import Ensemble
from nmt.training.loss import training_loss

QUICK = ("transformer", "seq2seq", "bahdanau")  # learn in each test run


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hard attention in training takes the most probable position: random samples of two shapes
    cannot be the same."""
    monkeypatch.setattr(hard, "sample", lambda log_probabilities: log_probabilities.argmax(-1))


def in_pieces(
    model: EncoderDecoder, batch: Batch, splits: list[int], weights: bool
) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
    """hidden, weights | None and the last state of a target decoded piece by piece.

    Weights of self-attention are those of the whole target, at the columns that they have.
    """
    memory = model.encode(batch.source, batch.mask)
    state = model.start(memory)
    whole = model.decode(batch.target, state, memory, weights).self_weights
    hidden = []
    all_weights = []
    stop = 0
    for piece in batch.target.tensor_split(splits, 1):
        decoded = model.decode(piece, state, memory, weights)
        state = decoded.state
        hidden.append(decoded.hidden)
        if decoded.weights is not None:
            all_weights.append(decoded.weights)
        start = stop
        stop += piece.size(1)
        if whole is None:
            assert decoded.self_weights is None
        else:
            first = stop - decoded.self_weights.size(-1)
            assert_close(decoded.self_weights, whole[..., start:stop, first:stop], **EXACT)
    return torch.cat(hidden, 1), torch.cat(all_weights, 3) if all_weights else None, state


def assert_pieces_equal_decoding_at_once(
    model: EncoderDecoder, weights: bool, all_splits: list[list[int]]
) -> None:
    batch = uneven()
    at_once = in_pieces(model, batch, [], weights)
    for splits in all_splits:
        assert_close(in_pieces(model, batch, splits, weights), at_once, **EXACT)


@pytest.mark.parametrize("weights", [False, True])
def test_decoding_in_pieces_equals_decoding_at_once(name, small_model, weights):
    """So no column depends on a later one."""
    columns = list(range(1, uneven().target.size(1)))
    assert_pieces_equal_decoding_at_once(small_model(name), weights, [[1, 3], columns])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bahdanau", {}),
        ("luong_global", {"input_feeding": False}),
        ("luong_global", {}),
        ("luong_global", {"cell": "gru", "num_layers": 2}),
        ("luong_global", {"num_layers": 2, "bidirectional": False, "input_feeding": False}),
    ],
)
def test_every_window_keeps_its_step_from_piece_to_piece(small_model, name, changes):
    """Soft and hard."""
    for window in WINDOWS:
        for attention_type in ("soft", "hard"):
            model = small_model(name, window=window, attention_type=attention_type, **changes)
            assert_pieces_equal_decoding_at_once(model, True, [[1, 3]])


def gradients(model: EncoderDecoder, batch: Batch) -> dict[str, Tensor]:
    """Of the training loss of a model without dropout, 0 for parameters that do not change it."""
    model = copy.deepcopy(model).train()  # a training step moves the baseline of hard attention
    loss, _ = training_loss(model, model(*batch[:3]), batch.output, batch.real, 0.1)
    parameters = dict(model.named_parameters())
    parts = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
    return dict(zip(parameters, parts, strict=True))


def pair_of(batch: Batch, row: int) -> Batch:
    """One sentence pair, without padding."""
    source = batch.source[row][batch.source[row] != PAD][None]
    output = batch.output[row][batch.output[row] != PAD][None]
    target = batch.target[row : row + 1, : output.numel()]
    return Batch(source, None, target, output, output.numel(), source.numel(), None)


def test_padding_changes_nothing(name, small_model, certain):
    """Each pair of a batch is as it is alone, and the gradient is the sum of theirs."""
    model = small_model(name, dropout=0.0)
    batch = uneven()
    together = gradients(model, batch)
    batched = model(*batch[:3], True)
    summed = {key: torch.zeros_like(gradient) for key, gradient in together.items()}
    for row in range(4):
        pair = pair_of(batch, row)
        alone = model(*pair[:3], True)
        columns = pair.target.size(1)
        assert_close(batched.hidden[row, :columns], alone.hidden[0], **EXACT)
        if batched.weights is not None:
            weights = batched.weights[row, :, :, :columns, : pair.source.size(1)]
            assert_close(weights, alone.weights[0], **EXACT)
        for key, gradient in gradients(model, pair).items():
            summed[key] += gradient
    assert_close(together, summed, **EXACT)
    assert all(gradient.any() for gradient in together.values())


def test_rows_of_weights_are_probabilities(name, small_model):
    """With weights or without, the hidden states are the same."""
    model = small_model(name)
    batch = uneven()
    decoded = model(*batch[:3], True)
    without = model(*batch[:3])
    assert_close(decoded.hidden, without.hidden, **EXACT)
    assert without.weights is without.p_t is None
    weights = decoded.weights
    if not model.has_attention:
        assert weights is None and (model.num_layers, model.num_heads) == (0, 0)
        return
    shape = (4, model.num_layers, model.num_heads, batch.target.size(1), batch.source.size(1))
    assert weights.shape == shape
    assert (weights >= 0).all()
    assert (weights.masked_select(~batch.mask[:, None, None, None]) == 0).all()
    sums = weights.sum(-1)
    window = model.attention.window if hasattr(model, "attention") else None
    if any(isinstance(window, WINDOWS[prior]) for prior in oracle.PRIORS):
        assert (sums <= 1 + 1e-12).all() and (sums < 0.999).any() and (sums > 0).all()
    else:
        assert_close(sums, torch.ones_like(sums), **EXACT)


@pytest.mark.parametrize(
    ("tie", "joint", "tables"), [(True, True, 1), (True, False, 2), (False, True, 3)]
)
def test_embeddings_are_shared_as_configured(name, small_model, tie, joint, tables):
    """Source embedding, target embedding, output: the number of different matrices."""
    model = small_model(name, joint, tie_embeddings=tie)
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    assert sum(len(shape) == 2 and shape[0] == 50 for shape in shapes) == tables
    assert (model.output.weight is model.target_embedding.weight) == tie


def test_rows_of_the_state_are_hypotheses(name, small_model):
    """Two hypotheses of each sentence continue a state: with the sentence's own memory, with a
    repeated memory, and as the sentence alone does."""
    model = small_model(name)
    batch = uneven()
    memory = model.encode(batch.source, batch.mask)
    state = model.decode(batch.target[:, :2], model.start(memory), memory).state
    rows = torch.arange(4).repeat_interleave(2)
    target = batch.target[rows, 2:]
    for weights in (False, True):
        alone = model.decode(batch.target[:, 2:], state, memory, weights)
        shared = model.decode(target, select_rows(state, rows), memory, weights)
        repeated = model.decode(target, select_rows(state, rows), memory.rows(rows), weights)
        assert_close(shared.state, select_rows(alone.state, rows), **EXACT)
        assert_close(repeated.state, shared.state, **EXACT)
        for field in ("hidden", "weights", "self_weights", "p_t"):
            parts = [getattr(decoded, field) for decoded in (alone, shared, repeated)]
            if parts[0] is None:
                assert parts[1] is parts[2] is None
            else:
                assert_close(parts[1], parts[0][rows], **EXACT)
                assert_close(parts[2], parts[1], **EXACT)


def sixteen() -> tuple[list[list[int]], Batch]:
    """Synthetic pairs: a target is its source backwards in other pieces. Each two sources differ in
    order alone."""
    random = np.random.default_rng(5)
    sources = [random.permutation(np.arange(4, 26))[: 2 + number % 4] for number in range(8)]
    sources += [source[::-1] for source in sources]
    targets = [source[::-1] + 22 for source in sources]
    return [target.tolist() for target in targets], collate(sources, targets)


def predicts_every_piece(model: EncoderDecoder, batch: Batch) -> bool:
    """Whether each piece is the likeliest after those before it; only then may greedy search write
    all of them."""
    with torch.no_grad():
        logits = model.logits(model(*batch[:3]).hidden)
    logits[..., [PAD, BOS]] = float("-inf")
    is_right = logits.argmax(-1) == batch.output
    return bool((is_right | (batch.output == PAD)).all())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in MODELS]
)
def test_can_learn_sixteen_sentences(name, small_model):
    """Greedy search writes sixteen learnt sentences exactly.

    Without dropout: transformer_alibi distinguishes a sentence from its mirror image by the
    distances to </s> alone, and these differences are small beside that noise in a narrow model
    (330 to 440 updates with it, 60 to 205 without). 1,200 updates are more than five times what the
    slowest model needed over 20 seeds; most models need 30 to 80.
    """
    model = small_model(name, dropout=0.0).float()
    targets, batch = sixteen()
    optimizer = torch.optim.Adam(model.parameters(), 6e-3, fused=True)
    for update in range(1, 1201):
        loss, _ = training_loss(model, model.train()(*batch[:3]), batch.output, batch.real, 0.1)
        optimizer.zero_grad()
        (loss / batch.tokens).backward()
        optimizer.step()
        if update % 10 == 0 and predicts_every_piece(model.eval(), batch):
            longest = torch.full((16,), 12)
            hypotheses = search(model, batch.source, batch.mask, 1, 0.0, longest)
            if [best[0].ids for best in hypotheses] == targets:
                return
    pytest.fail(f"{name} has not learnt sixteen sentences in {update} updates")


READ_AN_EMBEDDING = {
    "encoder.layers.0.weight_ih_l0",
    "encoder.layers.0.weight_ih_l0_reverse",
    "stack.layers.0.weight_ih_l0",
    "cell.embedding.weight",
}


@pytest.mark.parametrize("name", ["luong_global", "bahdanau", "transformer"])
def test_every_parameter_starts_as_it_should(small_model, name):
    """Biases at 0, but 1 for forget gates; recurrent matrices orthogonal; embeddings with deviation
    E^-½; others with Glorot's √(2 / (in + out)), times √E where they read an embedding."""
    sizes = {"hidden_size": 64}
    if name != "transformer":
        sizes["embedding_size"] = 64
    for key, parameter in small_model(name, **sizes).named_parameters():
        start = parameter.detach()
        rows, columns = start.shape if start.dim() == 2 else (0, 0)
        if rows == 0:
            wanted = torch.full_like(start, float("norm.weight" in key))
            if "bias_ih" in key and name == "luong_global":
                wanted.chunk(4)[1].fill_(1.0)
            assert torch.equal(start, wanted)
        elif "weight_hh" in key:
            for gate in start.split(columns):
                assert_close(gate @ gate.T, torch.eye(columns).double(), atol=1e-6, rtol=0)
        elif rows == 50:
            assert start.std() == pytest.approx(1 / 8, rel=0.05)
        else:
            if key.endswith("attention.weight"):  # of three projections
                rows //= 3
            glorot = (2 / (rows + columns)) ** 0.5
            if key in READ_AN_EMBEDDING:
                assert start[:, :64].std() == pytest.approx(8 * glorot, rel=0.05)
                start = start[:, 64:]
            if start.numel() > 1000:
                assert start.std() == pytest.approx(glorot, rel=0.05)


@pytest.mark.parametrize("name", ["luong_local_p", "bahdanau"])
def test_a_window_narrows_with_the_batches_of_a_training(small_model, name):
    """One step for each training batch, none in evaluation; the state is saved with the weights."""
    model = small_model(name, window="local_p", window_narrowing_batches=3)
    batch = uneven()
    for _ in range(2):
        model(*batch[:3])
    assert model.window_reach == 2 * 3  # radius 2, before the first batch
    for batches, window_reach in ((1, 6.0), (2, 2.0), (1, 2.0)):
        model.begin_update(batches)
        model.train()(*batch[:3])
        assert model.window_reach == window_reach
    other = small_model(name, window="local_p", window_narrowing_batches=3)
    other.load_state_dict(model.state_dict())
    assert other.window_reach == 2.0
    paper = small_model(name, window="local_p")  # its window has its radius from the start
    paper.load_state_dict(model.state_dict(), strict=False)
    assert_close(other(*batch[:3]).hidden, paper(*batch[:3]).hidden)


def test_an_ensemble_has_the_mean_probability_of_its_members(small_model):
    """log p = log mean_i p_i over three architectures, at once and in pieces; its state is
    batch-first too."""
    batch = uneven()
    transformer = small_model("transformer_learned", max_positions=533)
    members = [small_model("seq2seq"), small_model("luong_local_p"), transformer]
    ensemble = Ensemble(members).eval()
    decoded = ensemble(*batch[:3], weights=True)
    mean = torch.zeros(())
    for model in members:
        mean = mean + model.logits(model(*batch[:3]).hidden).softmax(-1) / 3
    assert_close(ensemble.logits(decoded.hidden).softmax(-1), mean, **EXACT)

    hidden, weights, _ = in_pieces(ensemble, batch, [1, 3], weights=True)
    assert_close((hidden, weights), (decoded.hidden, decoded.weights), **EXACT)
    order = torch.tensor([2, 0, 3, 1])
    memory = ensemble.encode(batch.source, batch.mask)
    state = select_rows(ensemble.start(memory), order)
    reordered = ensemble.decode(batch.target[order], state, memory.rows(order))
    assert_close(reordered.hidden, decoded.hidden[order], **EXACT)


def test_an_ensemble_attends_as_its_first_member_with_attention(small_model):
    batch = uneven()
    plain = small_model("seq2seq")
    local = small_model("luong_local_p")
    transformer = small_model("transformer_learned", max_positions=533)
    for member, others in ((local, [transformer]), (transformer, [local]), (plain, [])):
        ensemble = Ensemble([plain, member, *others]).eval()
        for key in (
            "has_attention",
            "num_layers",
            "num_heads",
            "guided_step",
            "has_rollout",
            "window_reach",
        ):
            assert getattr(ensemble, key) == getattr(member, key)
        assert ensemble.max_length == (533 if others else None)
        if not others:
            continue
        wanted = member(*batch[:3], weights=True)
        decoded = ensemble(*batch[:3], weights=True)
        assert_close(decoded.weights, wanted.weights, **EXACT)
        for one, other in ((decoded.p_t, wanted.p_t), (decoded.self_weights, wanted.self_weights)):
            assert one is other is None or torch.equal(one, other)
        encoded = ensemble.encode(*batch[:2], weights=True).weights
        alone = member.encode(*batch[:2], weights=True).weights
        assert encoded is alone is None or torch.equal(encoded, alone)
        assert ensemble(*batch[:3]).weights is None
    longer = small_model("transformer_learned", max_positions=600)
    assert Ensemble([longer, transformer]).max_length == 533


def test_bf16_has_gradients_and_searches(name, small_model):
    """Under autocast, on any CPU: every parameter has a finite gradient, the loss is almost that of
    float32."""
    model = small_model(name, dropout=0.0).float().train()
    batch = uneven()
    torch.manual_seed(1)
    _, wanted = training_loss(model, model(*batch[:3]), batch.output, batch.real, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(1)
        loss, nll = training_loss(model, model(*batch[:3]), batch.output, batch.real, 0.1)
        loss.backward()
        hypotheses = search(model.eval(), *batch[:2], 3, 1.0, torch.full((4,), 4))
    assert_close(nll, wanted, rtol=0.02, atol=0)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(hypotheses)
