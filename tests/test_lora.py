"""LoRA, frozen parts and layers that are computed twice: the same model, in less memory."""

import copy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import MODELS, VOCABULARY, small_config
from corpora import compose_one, folder_options, run_command
from test_fine_tuning import child, new_text, tune
from test_train import at_update, comparable, differing
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import nmt
from nmt.config.compose import compose_all
from nmt.config.schema import FREEZABLE
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.models.lora import ALPHA, LoRALinear, LoRAMultiHeadAttention, add_lora
from nmt.runs.stages import parent_of
from nmt.training import checkpoint
from nmt.training.freezing import copy_sharing_frozen, freeze
from nmt.training.loss import training_loss
from nmt.training.rehearsal import Rehearsal
from nmt.training.restore import load_merged, merged_weights, model_of_weights, new_model

assert child and new_text and tune  # fixtures
RANK = 3
TRANSFORMERS = [name for name in MODELS if name.startswith("transformer")]


def make(name: str, dropout: float = 0.0) -> EncoderDecoder:
    torch.manual_seed(1)
    model = build(small_config(name, (("dropout", dropout),)), VOCABULARY, VOCABULARY, True)
    return model


def with_trained_lora(model: EncoderDecoder) -> EncoderDecoder:
    """A copy with LoRA that changes something."""
    adapted = copy.deepcopy(model)
    torch.manual_seed(4)
    add_lora(adapted, RANK)
    generator = torch.Generator().manual_seed(2)
    for name, parameter in adapted.named_parameters():
        if name.endswith("lora.up"):
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    return adapted


def inputs(seed: int = 3) -> tuple[Tensor, None, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randint(4, VOCABULARY, (5, 7), generator=generator),
        None,
        torch.randint(4, VOCABULARY, (5, 6), generator=generator),
    )


def logits(model: EncoderDecoder) -> Tensor:
    return model.logits(model(*inputs()).hidden)


def merged(model: EncoderDecoder) -> dict[str, Tensor]:
    """The weights as a checkpoint stores them."""
    made = {}
    for name, weight in merged_weights(model).items():
        if isinstance(weight, checkpoint.TensorParts):
            made[name] = torch.cat(list(weight.parts()))
            assert (made[name].shape, made[name].dtype) == (weight.shape, weight.dtype)
        else:
            made[name] = weight
    return made


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_at_first_nothing_is_changed_and_merged_weights_are_those_of_an_ordinary_model(name):
    """Nothing to the last bit; then an ordinary model has the same names and shapes, and computes
    the same; loaded back, they stay so."""
    model = make(name).eval()
    untrained = copy.deepcopy(model)
    add_lora(untrained, RANK)
    assert torch.equal(logits(untrained), logits(model))
    adapted = with_trained_lora(model)
    weights = merged(adapted)
    wanted = logits(adapted)
    assert not torch.allclose(wanted, logits(model))
    model.load_state_dict(weights)
    torch.testing.assert_close(logits(model), wanted, rtol=1e-4, atol=1e-5)
    load_merged(adapted, weights)
    torch.testing.assert_close(logits(adapted), wanted, rtol=1e-4, atol=1e-5)


def oracle(layer: nn.Module, inputs: Tensor, part: slice) -> tuple[Tensor, list[Tensor]]:
    """x (W + (α / R) B A)ᵀ + b of these parts, written out, with A and B to differentiate."""
    a = layer.lora.down.detach().clone().requires_grad_()  # [P R D]
    b = layer.lora.up.detach().clone().requires_grad_()  # [P O R]
    change = torch.cat([b[number] @ a[number] for number in range(len(a))])  # [P·O D]
    size = len(layer.weight) // len(a)
    rows = slice(part.start * size, part.stop * size)
    weight = layer.weight.detach() + ALPHA / RANK * change
    return inputs @ weight[rows].T + layer.bias.detach()[rows], [a, b]


@pytest.mark.parametrize("first, last", [(0, 1), (0, 3), (1, 3)])
def test_outputs_and_gradients_are_those_of_the_formula(first, last):
    """Of a feed-forward layer, and of query, key and value: all, one alone, and the last two."""
    model = with_trained_lora(make("transformer"))
    layer = model.decoder[0].feed_forward[0]
    call = layer
    if last > 1 or first:
        layer = model.decoder[0].cross_attention
        call = layer.projection(first, last)
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(4, 7, 32, generator=generator)
    outputs = call(values)
    wanted, matrices = oracle(layer, values, slice(first, last))
    torch.testing.assert_close(outputs, wanted)
    outputs.pow(2).sum().backward()
    wanted.pow(2).sum().backward()
    for mine, theirs in zip((layer.lora.down, layer.lora.up), matrices, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    assert layer.weight.grad is None and layer.bias.grad is None


def test_every_linear_layer_of_attention_and_feed_forward_is_adapted():
    """Their own weights and biases are frozen, and nothing else is."""
    model = make("transformer")
    names = {name for name, _ in model.named_parameters()}
    wide = {name for name, weight in model.named_parameters() if weight.ndim == 2}
    wide -= {"source_embedding.weight", "target_embedding.weight", "output.weight"}
    add_lora(model, RANK)
    kinds = (LoRALinear, LoRAMultiHeadAttention)
    adapted = {f"{name}.weight" for name, each in model.named_modules() if isinstance(each, kinds)}
    assert adapted == wide
    parameters = list(model.named_parameters())
    assert {
        name for name, each in parameters if ".lora." in name and not each.requires_grad
    } == set()
    frozen = {name for name, each in parameters if not each.requires_grad}
    assert frozen == wide | {name.replace("weight", "bias") for name in wide} & names
    layers = [module for module in model.modules() if isinstance(module, LoRALinear)]
    a = torch.cat([layer.lora.down.flatten() * layer.in_features**0.5 for layer in layers])
    assert a.std().item() == pytest.approx(1, abs=0.1) and a.mean().abs() < 0.1


def loss_of(model: EncoderDecoder) -> Tensor:
    source, mask, target = inputs()
    torch.manual_seed(11)  # of dropout
    decoded = model(source, mask, target)
    loss, _ = training_loss(model, decoded, target, None, 0.1)
    return loss


def gradients(model: EncoderDecoder) -> dict[str, Tensor | None]:
    model.zero_grad()
    loss_of(model).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", [name for name in TRANSFORMERS if name != "transformer_big"])
@pytest.mark.parametrize("lora", [False, True])
def test_layers_that_are_computed_twice_give_the_same_bits(name, lora):
    """Loss and all gradients, with dropout; what is kept for the backward pass is less."""
    model = make(name, dropout=0.3)
    if lora:
        model = with_trained_lora(model)
    model.train()
    kept: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        kept[-1] += tensor.numel()
        return tensor

    found = []
    for recomputes in (False, True):
        model.recomputes = recomputes
        kept.append(0)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = loss_of(model)
        found.append((loss, gradients(model)))
    assert torch.equal(found[0][0], found[1][0])
    for key, gradient in found[0][1].items():
        other = found[1][1][key]
        assert gradient is other is None or torch.equal(gradient, other), key
    assert kept[1] < kept[0] / 2


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_are_computed_again_with_as_many_threads_as_at_first(norm):
    """Although gradients of norms are computed in one thread."""
    torch.set_num_threads(2)
    config = small_config("transformer", (("norm", norm), ("dropout", 0.0)))
    model = build(config, VOCABULARY, VOCABULARY, True).train()
    model.recomputes = True
    threads = []
    for layer in [*model.encoder, *model.decoder]:
        layer.register_forward_pre_hook(lambda *_: threads.append(torch.get_num_threads()))
    loss_of(model).backward()
    assert threads == [2] * 2 * (len(model.encoder) + len(model.decoder))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("name", ["transformer_learned", "luong_local_p", "bahdanau"])
@pytest.mark.parametrize("part", FREEZABLE)
def test_a_frozen_part_has_no_gradient_and_all_else_the_same_one(name, part):
    model = make(name).train()
    whole = gradients(model)
    freeze(model, [part])
    frozen = {key for key, each in model.named_parameters() if not each.requires_grad}
    assert frozen and frozen != whole.keys()
    for key, gradient in gradients(model).items():
        if key in frozen:
            assert gradient is None
        else:
            torch.testing.assert_close(gradient, whole[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["transformer_learned", "luong_local_p", "bahdanau"])
def test_every_parameter_belongs_to_one_part(name):
    """Those of embeddings and of positions to embeddings; tied ones to both of theirs."""
    model = make(name)
    frozen = {}
    for part in FREEZABLE:
        each = copy.deepcopy(model)
        freeze(each, [part])
        frozen[part] = {
            key
            for key, weight in each.named_parameters(remove_duplicate=False)
            if not weight.requires_grad
        }
    names = {key for key, _ in model.named_parameters(remove_duplicate=False)}
    tied = {"output.weight", "target_embedding.weight"}
    tied |= names & {"source_embedding.weight", "encoder.embedding.weight"}
    positions = {key for key in names if key.endswith("_positions.table")}
    encoder = {key for key in names if key.startswith("encoder")} - tied
    assert frozen == {
        "embeddings": tied | positions,
        "encoder": encoder,
        "decoder": names - tied - positions - encoder,
        "output": tied,
    }


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_made_of_its_weights_without_a_copy(name, vocabularies):
    """Nothing is left without memory, tied weights are one parameter, and it computes the same."""
    tokenizers = vocabularies[True]
    config = replace(compose_one(), model=small_config(name, ()))
    model = new_model(config, tokenizers)
    weights = model.state_dict()
    made = model_of_weights(config, tokenizers, weights)
    for key, tensor in made.state_dict().items():
        assert tensor.data_ptr() == weights[key].data_ptr(), key
    assert len(list(made.parameters())) == len(list(model.parameters()))
    assert torch.equal(logits(made.eval()), logits(model.eval()))


def test_lora_is_rehearsed_against_the_parent(vocabularies):
    """A copy from before the training shares the frozen weights; its A and B are of no effect."""
    tokenizers = vocabularies[True]
    size = tokenizers.source.size
    parent = build(small_config("transformer", (("dropout", 0.3),)), size, size, True)
    model = copy.deepcopy(parent)
    add_lora(model, RANK)
    old = copy_sharing_frozen(model)
    shared = {id(weight) for weight in model.parameters() if not weight.requires_grad}
    assert shared and shared <= {id(weight) for weight in old.parameters()}
    with torch.no_grad():  # some training
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn(weight.shape, generator=torch.manual_seed(3)))
    losses = []
    for known in (parent, old):
        torch.manual_seed(2)
        losses.append(Rehearsal(known, tokenizers).loss(model, np.random.default_rng(7), 300))
    assert torch.equal(*losses) and losses[0] > 0.01


# Of whole trainings: from the small run, with rehearsal and dropout
LORA = ("train.lora=2", "train.rehearsal=0.5", "model.dropout=0.3", "train.average_checkpoints=2")
FROZEN = ("train.freeze=[encoder,embeddings]", "train.rehearsal=0.5", "model.dropout=0.3")


def run_of(root, name: str, kind: str) -> dict:
    return comparable(root / "runs" / name / f"{kind}.safetensors")


def test_a_training_with_lora_ends_as_an_ordinary_run(tune, trained, tmp_path, capfd, monkeypatch):
    """It translates; of the layers, it has changed the adapted weights and the norms alone.

    The file to resume from lacks the weights that are adapted.
    """
    twice = []

    def run_twice(layer, *inputs, **options):
        twice.append(layer)
        return torch_checkpoint(layer, *inputs, **options)

    monkeypatch.setattr("nmt.models.transformer.checkpoint", run_twice)
    frozen = "train.freeze=[embeddings,output]"
    answer = tune("small", *LORA, frozen, "train.recompute=true", "train.max_steps=6")
    assert answer.code == 0, answer.err
    assert twice, "layers are computed twice"
    parent = checkpoint.load(trained.folder / "best.safetensors")["model"]
    best = run_of(tmp_path, "small", "best")["model"]
    changed = {key for key in parent if not torch.equal(parent[key], best[key])}
    assert best.keys() == parent.keys()
    layers = {key for key in parent if key.startswith(("encoder", "decoder"))}
    adapted = {key for key in layers if parent[key].ndim == 2}
    norms = {key for key in layers if "norm" in key}
    assert changed == adapted | norms
    last = run_of(tmp_path, "small", "last")
    matrices = {key for key in last["model"] if ".lora." in key}
    assert len(matrices) == 2 * len(adapted) and last["model"].keys() == matrices | norms
    assert len(last["optimizer"]["state"]) == len(last["model"])
    run = nmt.load("small", run_folder=tmp_path / "runs")
    assert [each.text for each in run.translate(["Ein Junge malt einen Apfel."])][0]
    refused = run_command(capfd, "translate", str(tmp_path / "runs/small/last.safetensors"), "x")
    assert refused.code == 2 and "best.safetensors" in refused.err


def test_values_of_the_experiment_count_as_given(trained, tmp_path):
    """from=RUN keeps the learning rate of a run that was rehearsed; a word replaces both."""
    base = tmp_path / "runs" / "base"
    shutil.copytree(trained.folder, base)
    payload = checkpoint.load(base / "best.safetensors")
    payload["config"]["train"]["rehearsal"] = 1.0
    payload["config"]["optim"]["lr"] = 0.125
    checkpoint.save(base / "best.safetensors", payload)
    words = ["from=base", "data.train=x", *folder_options(tmp_path)]
    rates = []
    for more in ([], ["+experiment=large_model"], ["+experiment=large_model", "optim.lr=0.5"]):
        (config,) = compose_all([*words, *more], open_run=parent_of)
        rates.append(config.optim.lr)
    assert (config.train.lora, config.train.recompute, config.train.rehearsal) == (16, True, 1)
    assert rates == [0.125, 0.001, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("options", [LORA, FROZEN], ids=["lora", "frozen"])
def test_interrupted_and_continued_is_uninterrupted(tune, tmp_path, monkeypatch, options):
    assert tune("whole", *options).code == 0
    at_update(monkeypatch, 3, 7)
    assert [tune("broken", *options).code for _ in range(3)] == [130, 130, 0]
    for kind in ("last", "best"):
        assert differing(run_of(tmp_path, "whole", kind), run_of(tmp_path, "broken", kind)) == []


@pytest.mark.parametrize(
    "words, message",
    [
        (["train.freeze=[embedding]"], "embeddings, encoder, decoder, output"),
        (["train.freeze=[embeddings,encoder,decoder]"], "nothing to train"),
        (["train.lora=-1"], "train.lora"),
        (["train.lora=2", "optim.algorithm=muon"], "muon"),
    ],
)
def test_what_cannot_be_is_refused(child, refused, words, message):
    assert message in refused(*child("other", *words))


@pytest.mark.parametrize(
    "words, message",
    [
        (["train.lora=2"], "from=RUN"),
        (["train.freeze=[encoder]"], "from=RUN"),
        (["train.lora=2", "model=luong_global"], "recurrent"),
        (["train.recompute=true", "train.compile=true"], "compile"),
        (["train.recompute=true", "model=luong_global"], "recurrent"),
    ],
)
def test_what_needs_a_run_or_a_transformer_is_refused(refused, tmp_path, words, message):
    folders = [f"data_folder={tmp_path / 'data'}", f"run_folder={tmp_path / 'runs'}"]
    assert message in refused("train", *folders, *words)
