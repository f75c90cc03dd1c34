"""A smaller Transformer cut out of a trained one.

Law: what adds nothing may go. A teacher is made in which half of the dimensions, heads, units and
layers have no effect, or the same effect on every sentence. The student without them computes what
the teacher computes.
"""

from dataclasses import replace

import pytest
import torch
from corpora import compose_one
from torch import nn

from nmt.attention.multi_head import MultiHeadAttention
from nmt.models.layers import FeedForward, LayerNorm
from nmt.models.pruning import Moments, Pruner, can_prune, prune
from nmt.models.transformer import Transformer

VOCABULARY = 40
HALF = {"hidden_size": 16, "num_heads": 2, "feed_forward_size": 24, "decoder_layers": 2}


def configuration(*words: str):
    sizes = ["hidden_size=32", "num_heads=4", "feed_forward_size=48", "positions=rotary"]
    sizes += ["encoder_layers=3", "decoder_layers=3", "dropout=0"]
    config = compose_one(*(f"model.{word}" for word in [*sizes, *words]))
    return config.model


def make_teacher(config) -> Transformer:
    """A teacher with random weights, also where training begins with ones and zeros.

    What a student cannot have is left out: different weights of the last norm, the mean of its
    biases, and the same ε for vectors of another length.
    """
    torch.manual_seed(1)
    teacher = Transformer(config, VOCABULARY, VOCABULARY, joint=config.tie_embeddings).double()
    for module in teacher.modules():
        if isinstance(module, LayerNorm):
            nn.init.uniform_(module.weight, 0.5, 2)
            module.eps = 0.0
    for name, parameter in teacher.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.3)
    last = teacher.decoder_norm
    last.weight.data.fill_(1.7)
    last.bias.data -= last.bias.data.mean()
    return teacher.eval()


def pairs(count: int = 20):
    generator = torch.Generator().manual_seed(2)
    for _ in range(count):
        source = torch.randint(4, VOCABULARY, (1, 7), generator=generator)
        target = torch.randint(4, VOCABULARY, (1, 9), generator=generator)
        yield source, target


def make_student(teacher: Transformer, config) -> Transformer:
    torch.manual_seed(3)
    student = Transformer(config, VOCABULARY, VOCABULARY, joint=config.tie_embeddings).double()
    for module in student.modules():
        if isinstance(module, LayerNorm):
            module.eps = 0.0
    prune(teacher, student.eval(), pairs())
    return student


def logits(model: Transformer, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return model.logits(model(source, None, target).hidden)


@torch.no_grad()
def check_same(teacher: Transformer, student: Transformer) -> None:
    for source, target in pairs():
        expected = logits(teacher, source, target)
        assert expected.std() > 0.1
        torch.testing.assert_close(logits(student, source, target), expected)


@torch.no_grad()
def without_half_of_the_dimensions(teacher: Transformer, kept: int) -> None:
    """All that is added to the vectors of the residual connections has so many dimensions."""
    size = teacher.output.in_features
    random = torch.randn(size, kept - 1, dtype=torch.float64)
    directions, _ = torch.linalg.qr(random - random.mean(0))
    projection = directions @ directions.T
    tables = {teacher.source_embedding.weight, teacher.target_embedding.weight}
    for table in {*tables, teacher.output.weight}:
        table.copy_(table @ projection)
    for module in teacher.modules():
        if isinstance(module, (MultiHeadAttention, FeedForward)):
            last = list(module.children())[-1]
            last.weight.copy_(projection @ last.weight)
            last.bias.copy_(projection @ last.bias)


@torch.no_grad()
def with_constant_units(teacher: Transformer) -> None:
    """Every other head and unit has no effect, or a constant one."""
    for module in teacher.modules():
        if isinstance(module, FeedForward):
            module[0].weight[::2] = 0
        if isinstance(module, MultiHeadAttention):
            values = module.weight[2 * module.size :].view(module.heads, -1, module.size)
            values[::2] = 0


@torch.no_grad()
def without_middle_layer(teacher: Transformer) -> None:
    layer = teacher.decoder[1]
    for last in (layer.self_attention.output, layer.cross_attention.output, layer.feed_forward[2]):
        last.weight.zero_()
        last.bias.zero_()


@pytest.mark.parametrize(
    "words",
    [[], ["tie_embeddings=false"], ["output_bias=true"], ["activation=silu"]],
    ids=["tied", "untied", "output bias", "silu"],
)
def test_all_that_has_an_effect_is_kept(words):
    config = configuration(*words)
    teacher = make_teacher(config)
    without_half_of_the_dimensions(teacher, HALF["hidden_size"])
    with_constant_units(teacher)
    without_middle_layer(teacher)
    check_same(teacher, make_student(teacher, replace(config, **HALF)))


def test_with_the_sizes_of_the_teacher_nothing_changes():
    config = configuration()
    teacher = make_teacher(config)
    check_same(teacher, make_student(teacher, config))


def test_a_unit_counts_by_the_variance_that_it_adds():
    """Var[x] · |P w|², where the student keeps the first of two dimensions."""
    last = nn.Linear(3, 2, bias=False).double().requires_grad_(False)
    last.weight.copy_(torch.tensor([[1.0, 3.0, 0.0], [5.0, 0.0, 9.0]]))
    moments = Moments(3)
    moments.add(torch.tensor([[-2.0, 4.0, 1.0], [2.0, 6.0, -1.0]]))
    first = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert Pruner(first, 1.0, {last: moments}).importance(last).tolist() == [4, 9, 0]


@pytest.mark.parametrize("size", HALF)
def test_what_has_an_effect_is_missed(size):
    """The law above can fail: each size alone takes something away."""
    config = configuration()
    teacher = make_teacher(config)
    smaller = {size: HALF[size]}
    if size in ("hidden_size", "num_heads"):
        smaller = {name: HALF[name] for name in ("hidden_size", "num_heads")}
    with pytest.raises(AssertionError):
        check_same(teacher, make_student(teacher, replace(config, **smaller)))


@pytest.mark.parametrize(
    ("teacher", "student", "is_possible"),
    [
        ([], [], True),
        ([], ["hidden_size=16", "num_heads=2"], True),
        ([], ["hidden_size=16"], False),
        ([], ["hidden_size=64", "num_heads=8"], False),
        ([], ["feed_forward_size=24", "encoder_layers=1", "dropout=0.1"], True),
        ([], ["encoder_layers=4"], False),
        ([], ["activation=gelu"], False),
        ([], ["positions=sinusoidal"], False),
        (["positions=sinusoidal"], ["positions=sinusoidal"], False),
        (["norm=post"], ["norm=post"], False),
    ],
)
def test_what_can_be_cut_out(teacher, student, is_possible):
    assert can_prune(configuration(*teacher), configuration(*student)) == is_possible


def test_only_transformers_can_be_cut():
    config = compose_one("model=bahdanau")
    assert not can_prune(config.model, configuration())
    assert not can_prune(configuration(), config.model)
