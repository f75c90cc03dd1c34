"""Laws that every model of conf/model keeps, and what distinguishes Sutskever, Bahdanau and
Luong."""

import copy

import numpy as np
import oracle
import pytest
import torch
from conftest import MODELS
from torch.testing import assert_close

from nmt.attention import hard
from nmt.attention.scores import SCORES
from nmt.attention.windows import WINDOWS
from nmt.data.batches import Batch, collate
from nmt.data.tokenizer import BOS, PAD
from nmt.decode.beam_search import search
from nmt.models.base import EncoderDecoder, select_rows
from nmt.models.ensemble import Ensemble
from nmt.training.loss import training_loss

EXACT = {"atol": 1e-10, "rtol": 0}
QUICK = ("transformer", "seq2seq", "bahdanau")  # learn in each test run
GARBAGE = 7  # a piece that `sentences` never contains, where nothing may be attended to


def sentences(lengths: list[int], seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(8, 50, length) for length in lengths]


def uneven() -> Batch:
    """Four pairs of four lengths; the shortest source is </s> alone."""
    return collate(sentences([4, 0, 7, 2], 1), sentences([6, 3, 0, 5], 2))


def even() -> Batch:
    """Three pairs without padding."""
    return collate(sentences([5] * 3, 3), sentences([6] * 3, 4))


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hard attention in training takes the most probable position: random samples of two shapes
    cannot be the same."""
    monkeypatch.setattr(hard, "sample", lambda log_probabilities: log_probabilities.argmax(-1))


def gradients(model: EncoderDecoder, source, mask, target, output) -> dict[str, torch.Tensor]:
    """Of the training loss, 0 for parameters that it does not depend on. The model must have
    dropout=0."""
    model = copy.deepcopy(model).train()  # a training step moves the baseline of hard attention
    real = (output.flatten() != PAD).nonzero().squeeze(1)
    training_loss(model, model(source, mask, target), output, real, 0.1)[0].backward()
    named = dict(model.named_parameters())
    return {
        key: torch.zeros_like(value) if value.grad is None else value.grad
        for key, value in named.items()
    }


def in_pieces(model: EncoderDecoder, batch: Batch, splits: list[int], weights: bool):
    """hidden, weights | None and the last state of a target decoded piece by piece."""
    memory = model.encode(batch.source, batch.mask)
    state = model.start(memory)
    hidden = []
    all_weights = []
    for piece in batch.target.tensor_split(splits, 1):
        decoded = model.decode(piece, state, memory, weights)
        state = decoded.state
        hidden.append(decoded.hidden)
        all_weights.append(decoded.weights)
    return (
        torch.cat(hidden, 1),
        None if all_weights[0] is None else torch.cat(all_weights, 3),
        state,
    )


def assert_pieces_equal_decoding_at_once(
    model: EncoderDecoder, weights: bool, all_splits: list[list[int]]
) -> None:
    batch = uneven()
    at_once = in_pieces(model, batch, [], weights)
    for splits in all_splits:
        assert_close(in_pieces(model, batch, splits, weights), at_once, **EXACT)


@pytest.mark.parametrize("weights", [False, True])
def test_decoding_in_pieces_equals_decoding_at_once(name, small_model, weights):
    columns = list(range(1, uneven().target.size(1)))
    assert_pieces_equal_decoding_at_once(small_model(name), weights, [[1, 3], columns])


@pytest.mark.parametrize("order", ["before", "after", "after, fed"])
def test_every_score_and_window_works_before_and_after_the_step(small_model, order):
    """Soft, and one of them hard. And stacks of layers."""
    for score in SCORES:
        for window in WINDOWS:
            model = attending(small_model, order, score=score, window=window)
            for model.attention.hard in (False, True) if score == "general" else (False,):
                assert_pieces_equal_decoding_at_once(model, True, [[1, 3]])
    for changes in ({"cell": "gru", "num_layers": 2}, {"num_layers": 2, "bidirectional": False}):
        model = small_model("luong_global", input_feeding=order == "after, fed", **changes)
        assert_pieces_equal_decoding_at_once(model, True, [[1, 3]])


def attending(small_model, order: str, **changes: object) -> EncoderDecoder:
    if order == "before":
        return small_model("bahdanau", **changes)
    return small_model("luong_global", input_feeding=order == "after, fed", **changes)


@pytest.mark.parametrize("order", ["before", "after", "after, fed"])
def test_p_t_is_in_source_positions(small_model, order):
    """local_m: t, at most S − 1 + D; local_p with v_p = 0: half of S. A reversed encoder changes
    nothing."""
    batch = uneven()
    steps = torch.arange(batch.target.size(1))
    lengths = batch.mask.sum(1, keepdim=True)
    changes = {} if order == "before" else {"bidirectional": False, "reverse_source": True}
    monotonic, predicted = (
        attending(small_model, order, window=window, **changes) for window in ("local_m", "local_p")
    )
    predicted.attention.window.position_logit.weight.data.zero_()
    # radius 2
    assert (
        monotonic(*batch[:3], True).p_t.tolist() == torch.minimum(steps, lengths - 1 + 2).tolist()
    )
    assert predicted(*batch[:3], True).p_t.tolist() == (lengths / 2).expand(4, len(steps)).tolist()
    assert monotonic(*batch[:3]).p_t is None  # not requested
    assert attending(small_model, order)(*batch[:3], True).p_t is None


def padded(batch: Batch) -> tuple[torch.Tensor, ...]:
    """The batch with three masked source columns and two target columns of padding."""
    garbage = torch.full((len(batch.source), 3), GARBAGE)
    source = torch.cat((batch.source, garbage), 1)
    mask = torch.arange(source.size(1)).expand_as(source) < batch.source.size(1)
    target = torch.cat((batch.target, garbage[:, :2]), 1)
    return source, mask, target, torch.cat((batch.output, torch.full_like(garbage[:, :2], PAD)), 1)


def test_padding_changes_no_gradient(name, small_model, certain):
    model = small_model(name, dropout=0.0)
    batch = even()
    plain = gradients(model, batch.source, None, batch.target, batch.output)
    assert_close(gradients(model, *padded(batch)), plain, **EXACT)
    assert all(gradient.any() for gradient in plain.values())


def test_alone_is_as_in_a_batch(name, small_model):
    model = small_model(name)
    batch = uneven()
    batched = model(batch.source, batch.mask, batch.target, True)
    for row in range(len(batch.source)):
        length = int(batch.mask[row].sum())
        written = int((batch.output[row] != PAD).sum())
        alone = model(
            batch.source[row : row + 1, :length], None, batch.target[row : row + 1, :written], True
        )
        assert_close(batched.hidden[row, :written], alone.hidden[0], **EXACT)
        if batched.weights is not None:
            assert_close(batched.weights[row, :, :, :written, :length], alone.weights[0], **EXACT)


def test_the_future_changes_nothing(name, small_model, certain):
    model = small_model(name, dropout=0.0)
    batch = even()
    for t in (0, 3):
        changed = batch.target.clone()
        until_t = batch.output.clone()
        changed[:, t + 1 :] = GARBAGE
        until_t[:, t + 1 :] = PAD
        before, after = (
            model(batch.source, None, target, True) for target in (batch.target, changed)
        )
        assert_close(after.hidden[:, : t + 1], before.hidden[:, : t + 1], **EXACT)
        assert not torch.isclose(after.hidden[:, t + 1 :], before.hidden[:, t + 1 :]).all(-1).any()
        if before.weights is not None:
            assert_close(after.weights[:, :, :, : t + 1], before.weights[:, :, :, : t + 1], **EXACT)
        wanted = gradients(model, batch.source, None, batch.target, until_t)
        assert_close(gradients(model, batch.source, None, changed, until_t), wanted, **EXACT)


def test_rows_of_weights_are_probabilities(name, small_model):
    """With weights or without, the logits are the same."""
    model = small_model(name)
    batch = uneven()
    decoded, without = (
        model(batch.source, batch.mask, batch.target, wanted) for wanted in (True, False)
    )
    assert_close(model.logits(decoded.hidden), model.logits(without.hidden), **EXACT)
    weights = decoded.weights
    assert without.weights is None and (weights is not None) == model.has_attention
    assert (model.num_layers, model.num_heads) == (
        (0, 0) if weights is None else tuple(weights.shape[1:3])
    )
    if weights is None:
        return
    rows = batch.target.shape[1]
    columns = batch.source.shape[1]
    assert weights.shape[0] == 4 and weights.shape[3:] == (rows, columns)
    assert (weights >= 0).all()
    assert (weights.masked_select(~batch.mask[:, None, None, None]) == 0).all()
    sums = weights.sum(-1)
    window = model.attention.window if hasattr(model, "attention") else None
    if any(isinstance(window, WINDOWS[prior]) for prior in oracle.PRIORS):
        assert (sums <= 1 + 1e-12).all() and (sums < 0.999).any() and (sums > 0).all()
    else:
        assert_close(sums, torch.ones_like(sums), **EXACT)


def test_embeddings_are_shared_as_configured(name, small_model):
    """Source embedding, target embedding, output: the number of different matrices."""
    for tie, joint, tables in ((True, True, 1), (True, False, 2), (False, True, 3)):
        model = small_model(name, joint, tie_embeddings=tie)
        assert (
            sum(parameter.dim() == 2 and len(parameter) == 50 for parameter in model.parameters())
            == tables
        )
        assert (model.output.weight is model.target_embedding.weight) == tie


def test_every_state_is_batch_first(name, small_model):
    model = small_model(name)
    batch = uneven()
    memory = model.encode(batch.source, batch.mask)
    state = model.decode(batch.target[:, :2], model.start(memory), memory).state
    rows = torch.tensor([2, 0, 3, 3, 1])
    plain = model.decode(batch.target[:, 2:], state, memory, True)
    selected = model.decode(
        batch.target[rows, 2:], select_rows(state, rows), memory.rows(rows), True
    )
    assert_close(selected.hidden, plain.hidden[rows], **EXACT)
    assert_close(selected.state, select_rows(plain.state, rows), **EXACT)
    if model.has_attention:
        assert_close(selected.weights, plain.weights[rows], **EXACT)


def sixteen() -> tuple[list[np.ndarray], Batch]:
    """Synthetic pairs: a target is its source backwards in other pieces. Each two sources differ in
    order alone."""
    random = np.random.default_rng(5)
    sources = [random.permutation(np.arange(4, 26))[: 2 + number % 4] for number in range(8)]
    sources += [source[::-1] for source in sources]
    targets = [source[::-1] + 22 for source in sources]
    return targets, collate(sources, targets)


def predicts_every_piece(model, batch) -> bool:
    """Whether each piece is the likeliest after those before it; only then may greedy search write
    all of them."""
    with torch.no_grad():
        logits = model.logits(model(*batch[:3]).hidden)
    logits[..., [PAD, BOS]] = float("-inf")
    return bool(((logits.argmax(-1) == batch.output) | (batch.output == PAD)).all())


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each not in QUICK)) for each in MODELS]
)
def test_can_learn_sixteen_sentences(name, small_model):
    """Greedy search writes sixteen learnt sentences exactly.

    Without dropout: transformer_alibi distinguishes a sentence from its mirror image by the
    distances to </s> alone, and these differences are small beside that noise in a narrow model
    (330 to 440 updates with it, 60 to 205 without). 1,200 updates are more than five times what the
    slowest model needed over 20 seeds; most models need 30 to 80.
    """
    model, (targets, batch) = small_model(name, dropout=0.0).float(), sixteen()
    optimizer = torch.optim.Adam(model.parameters(), 6e-3, fused=True)
    for update in range(1, 1201):
        loss, _ = training_loss(model, model.train()(*batch[:3]), batch.output, batch.real, 0.1)
        optimizer.zero_grad()
        (loss / batch.tokens).backward()
        optimizer.step()
        if update % 10 == 0 and predicts_every_piece(model.eval(), batch):
            hypotheses = search(
                model.eval(), batch.source, batch.mask, 1, 0.0, torch.full((16,), 12)
            )
            if [best[0].ids for best in hypotheses] == [target.tolist() for target in targets]:
                return
    pytest.fail(f"{name} has not learnt sixteen sentences in {update} updates")


def test_weights_that_read_an_embedding_start_larger(small_model):
    """Glorot's deviation √(2 / (in + out)) times √E, since an embedding's is E^-½; what reads h̃
    has Glorot's own."""
    luong, bahdanau = (
        small_model(name, embedding_size=64, hidden_size=64)
        for name in ("luong_global", "bahdanau")
    )
    stack = luong.stack.layers[0].weight_ih_l0
    for weight, columns, factor in (
        (luong.encoder.layers[0].weight_ih_l0, slice(None), 8),
        (stack, slice(64), 8),
        (stack, slice(64, 128), 1),
        (bahdanau.cell.embedding.weight, slice(None), 8),
        (bahdanau.cell.context.weight, slice(None), 1),
    ):
        deviation = float(weight.detach()[:, columns].std() / (2 / sum(weight.shape)) ** 0.5)
        assert deviation == pytest.approx(factor, rel=0.05)


@pytest.mark.parametrize("name", ["luong_local_p", "bahdanau"])
def test_a_window_narrows_with_the_batches_of_a_training(small_model, name):
    """One step for each training batch, none in evaluation; the state is saved with the weights."""
    model = small_model(name, window="local_p", window_narrowing_batches=3)
    batch = uneven()
    for _ in range(2):
        model(*batch[:3])
    assert model.window_reach == 2 * 3  # radius 2, before the first batch
    for window_reach in (6.0, 3.0, 2.0, 2.0):
        model.begin_update(1)
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
    members = [small_model("seq2seq"), small_model("luong_local_p"), small_model("transformer")]
    ensemble = Ensemble(members).eval()
    decoded = ensemble(batch.source, batch.mask, batch.target, weights=True)
    alone = [
        model(batch.source, batch.mask, batch.target, weights=model.has_attention)
        for model in members
    ]
    probabilities = [
        model.logits(output.hidden).softmax(-1)
        for model, output in zip(members, alone, strict=True)
    ]
    assert_close(ensemble.logits(decoded.hidden).softmax(-1), sum(probabilities) / 3, **EXACT)
    assert ensemble.has_attention and not Ensemble(members[:1]).has_attention
    # of the first member that has attention
    assert_close(decoded.weights, alone[1].weights, **EXACT)
    hidden, weights, _ = in_pieces(ensemble, batch, [1, 3], weights=True)
    assert_close(hidden, decoded.hidden, **EXACT)
    assert_close(weights, decoded.weights, **EXACT)
    order = torch.tensor([2, 0, 3, 1])
    memory = ensemble.encode(batch.source, batch.mask)
    reordered = ensemble.decode(
        batch.target[order], select_rows(ensemble.start(memory), order), memory.rows(order)
    )
    assert_close(reordered.hidden, decoded.hidden[order], **EXACT)


def test_bf16_has_gradients_and_searches(name, small_model):
    """Under autocast, on any CPU: every parameter has a finite gradient, the loss is almost that of
    float32."""
    model = small_model(name, dropout=0.0).float().train()
    batch = uneven()
    torch.manual_seed(1)
    wanted = training_loss(model, model(*batch[:3]), batch.output, batch.real, 0.1)[1]
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(1)
        loss, nll = training_loss(model, model(*batch[:3]), batch.output, batch.real, 0.1)
        loss.backward()
        hypotheses = search(
            model.eval(), batch.source, batch.mask, 3, 1.0, torch.full((len(batch.source),), 4)
        )
    assert_close(nll, wanted, rtol=0.02, atol=0)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(hypotheses)
