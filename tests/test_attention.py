"""The kernels and windows of attention where whole models do not go: caches, autocast, maxima."""

import oracle_heads as oracle
import pytest
import torch
from tensors import EXACT, unit
from torch.testing import assert_close

from nmt.attention.kernels import additive_mask, attend, scaled_dot_product
from nmt.attention.scores import make_score
from nmt.attention.windows import make_window
from nmt.errors import UserError


def test_location_scores_positions_up_to_its_maximum(caplog):
    """The rest gets no weight, which is said once; in a window of nothing else the weights are
    equal."""
    score = make_score("location", 8, 8, positions=4).double()
    query = unit(1, 2, 8)
    memory = unit(1, 7, 8)
    scores = score(query, score.keys(memory))
    assert_close(scores[:, :, :4], query @ score.position_scores.weight.T, **EXACT)
    assert_close(score(query, memory[:, :4]), scores[:, :, :4])
    _, weights = attend(scores, memory)
    assert_close(weights[..., :4].sum(-1), torch.ones(1, 2).double())
    assert not weights[..., 4:].any()
    _, weights = attend(score(query, memory), memory, mask=torch.arange(7) >= 5)
    assert_close(weights[..., 5:], torch.full((1, 2, 2), 0.5).double())
    assert len(caplog.records) == 1 and "model.max_positions=4" in caplog.text


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "cosine", "concat_identity"])
def test_a_score_that_needs_one_size_names_both(score):
    with pytest.raises(UserError, match=f"{score} .* 8 and 6"):
        make_score(score, 8, 6, positions=4)


def test_weights_are_returned_as_they_were_before_dropout():
    """The context is that of the weights that are left, which are twice as large."""
    torch.manual_seed(0)
    values = torch.eye(9, dtype=torch.float64)  # so that the context is what was left
    context, weights = attend(torch.randn(4, 6, 9, dtype=torch.float64), values, dropout=0.5)
    assert_close(weights.sum(-1), torch.ones(4, 6, dtype=torch.float64))
    is_left = context > 0
    assert 0.3 < is_left.double().mean() < 0.7
    assert_close(context, 2 * weights * is_left)


def test_autocast_does_not_move_the_predicted_window():
    """Positions up to 60 are computed in float32 at least, also under autocast."""
    window = make_window("local_p", 8, 10, 0, -0.75)
    inputs = torch.randn(4, 30, 8), torch.zeros(4, 30), torch.full((4,), 60), None, 60
    wanted = window(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = window(*inputs)
        low = window(inputs[0].bfloat16(), *inputs[1:])
    assert_close(outputs, wanted, atol=1e-5, rtol=0)
    assert low.p_t.dtype == torch.float32


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("masked", "rows", "cached"), [(False, 4, 0), (False, 2, 1), (True, 4, 3), (True, 1, 3)]
)
def test_both_kernels_equal_the_oracle(causal, masked, cached, rows):
    query = unit(2, 3, rows, 5)
    key = unit(2, 3, rows + cached, 5)
    value = unit(2, 3, rows + cached, 5)
    mask = None
    allowed = torch.ones(2, 1, rows, rows + cached, dtype=torch.bool)
    if masked:
        mask = torch.rand(2, 1, 1, rows + cached) < 0.5
        mask[..., 0] = True
        allowed = allowed & mask
    if causal:
        allowed = allowed.tril(cached)  # query t is at position cached + t
    fused, nothing = scaled_dot_product(query, key, value, mask, causal)
    explicit, weights = scaled_dot_product(query, key, value, mask, causal, weights=True)
    assert nothing is None
    if masked and not causal:
        added = additive_mask(mask, query.dtype)
        assert_close(scaled_dot_product(query, key, value, added)[0], fused, **EXACT)
        contexts, added_weights = scaled_dot_product(query, key, value, added, weights=True)
        assert_close((contexts, added_weights), (explicit, weights), **EXACT)
    for row in range(2):
        for head in range(3):
            sides = [side[row, head].numpy() for side in (query, key, value)]
            contexts, wanted = oracle.softmax(*sides, allowed[row, 0].numpy())
            assert_close(fused[row, head].numpy(), contexts, **EXACT)
            assert_close(explicit[row, head].numpy(), contexts, **EXACT)
            assert_close(weights[row, head].numpy(), wanted, **EXACT)
