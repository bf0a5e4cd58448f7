"""What can be known of a model before it is trained: whether its rows mix, and how they will be clipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from discreet.errors import InvalidParameter
from discreet.learn.torch.clipping import SIZES, Clipper, Loss, checked_losses, unchanged

_APART = ("FullyShardedDataParallel", "FSDPModule", "DistributedDataParallel", "DataParallel")
_MIXED = 1e-4  # of a loss or gradient: a row that another one moves by more is mixed with it
_MOST_GROUPS, _FEWEST = 32, 4  # groups of a norm, and channels in each


@dataclass(frozen=True, slots=True)
class Preflight:
    """What `check` found.

    Attributes:
        problems: why the model cannot be trained privately as it is, each with its remedy.
        notes: how it will be clipped, and which parameters the loss never reaches.
        clipper: the way in which its rows are clipped; None where there are problems.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    clipper: Clipper | None = None

    @property
    def ok(self) -> bool:
        """Whether the model can be trained."""
        return not self.problems

    def __str__(self) -> str:
        return "\n".join([*self.problems, *self.notes])


def check(model: nn.Module, loss_fn: Loss, example: Sequence[Tensor]) -> Preflight:
    """Return whether the rows of a model stay apart, and how they will be clipped.

    The model runs in train mode, on batches that are made up: of `example` only the shapes, the dtypes and, for
    integers, the least and the largest value are used.

    Args:
        model: the model; nothing in it changes.
        loss_fn: `loss_fn(model, *batch)` returns one loss a row.
        example: a batch of public rows, or one that was made up.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    >>> def loss(model, x, y): return (model(x)[:, 0] - y).square()
    >>> print(check(net, loss, [torch.zeros(1, 2), torch.zeros(1)]))
    1 (BatchNorm1d) mixes rows. Use nn.GroupNorm, as fix(model) does.
    >>> check(fix(net), loss, [torch.zeros(1, 2), torch.zeros(1)]).ok
    True
    """
    problems = _structure(model)
    if problems:
        return Preflight(tuple(problems), ())
    generator = torch.Generator().manual_seed(0)  # public rows: nobody is protected by them

    def made_up(rows: int) -> list[Tensor]:
        return [_like(x, rows, generator) for x in example]

    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        with unchanged(model):
            problems = _mixing(model, loss_fn, made_up) + _learning(model, loss_fn, made_up)
    except InvalidParameter as error:
        problems = [f"{error.message} {error.hint[:1].upper()}{error.hint[1:]}."]
    else:
        if not problems:
            clipper = Clipper.of(model, loss_fn, made_up)
            return Preflight((), tuple(_notes(clipper, made_up)), clipper)
    finally:
        for module, mode in modes.items():
            module.training = mode
    return Preflight(tuple(problems), ())


def fix(model: nn.Module) -> nn.Module:
    """Return the model with layers that mix rows replaced: BatchNorm by GroupNorm, with the same weights.

    The model itself is changed, where it is no such layer; make its optimizer afterwards.
    """
    if isinstance(model, nn.modules.batchnorm._BatchNorm):
        return _group_norm(model)
    for name, child in model.named_children():
        setattr(model, name, fix(child))
    if isinstance(model, nn.Embedding):
        model.max_norm, model.scale_grad_by_freq = None, False
    return model


def _group_norm(old: Any) -> nn.Module:
    wide = old.num_features
    groups = max(n for n in range(1, _MOST_GROUPS + 1) if n == 1 or (wide % n == 0 and wide >= _FEWEST * n))
    new = nn.GroupNorm(groups, wide, old.eps, old.affine)
    if old.affine:
        new.weight, new.bias = old.weight, old.bias
    return new.train(old.training)


def _structure(model: nn.Module) -> list[str]:
    """Return the problems that the classes of modules and the parameters show."""
    found = []
    for name, module in model.named_modules():
        kind, said = type(module).__name__, f"{name or 'the model'} ({type(module).__name__})"
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            found.append(f"{said} mixes rows. Use nn.GroupNorm, as fix(model) does.")
        elif isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
            found.append(f"{said} keeps statistics of rows. Give it track_running_stats=False.")
        elif isinstance(module, nn.Embedding) and (module.max_norm is not None or module.scale_grad_by_freq):
            found.append(
                f"{said} has max_norm or scale_grad_by_freq, which mix rows. Leave them out, as fix(model) does."
            )
        elif any(base.__name__ in _APART for base in type(module).__mro__):
            found.append(f"{said} is not supported. Give the module inside of {kind}.")
    for name, p in model.named_parameters():
        if p.requires_grad and p.is_complex():
            found.append(f"the parameter {name} is complex. Use its real and imaginary parts.")
        if p.requires_grad and isinstance(p, nn.parameter.UninitializedParameter):
            found.append(f"the parameter {name} has no shape yet. Run the model once on a row that was made up.")
            break
    if not any(p.requires_grad for p in model.parameters()):
        found.append("no parameter is trained. Set requires_grad.")
    return found


def _mixing(model: nn.Module, loss: Loss, made_up: Callable[[int], list[Tensor]]) -> list[str]:
    """Return a problem where another row moves the loss or the gradient of one."""
    rows = SIZES[0]
    batch = made_up(rows)
    trained = [p for p in model.parameters() if p.requires_grad]

    def of_first(batch: list[Tensor]) -> Tensor:
        torch.manual_seed(0)  # dropout is no mixing
        losses = loss(model, *batch)
        checked_losses(losses, rows)
        if not losses.requires_grad:
            raise InvalidParameter("The loss follows from no trained parameter.", hint="train one of those it uses")
        gradients = torch.autograd.grad(losses[0], trained, allow_unused=True, materialize_grads=True)
        return torch.cat([x.detach().double().flatten() for x in (losses[:1], *gradients)])

    one = of_first(batch)
    for other in (made_up(rows), made_up(rows)):
        for x, y in zip(batch, other, strict=True):
            y[0] = x[0]
        far = float((of_first(other) - one).norm())
        if not far <= _MIXED * max(float(one.norm()), 1e-6) and bool(one.isfinite().all()):
            said = "The loss or the gradient of a row follows from the other rows of its batch."
            return [f"{said} No module of the model, nor the loss, may look at several rows."]
    return []


def _learning(model: nn.Module, loss: Loss, made_up: Callable[[int], list[Tensor]]) -> list[str]:
    """Return a problem for each buffer that follows from the rows, or from how often the model ran: that follows from
    how many rows there are.
    """

    def after(batch: list[Tensor]) -> dict[str, Tensor]:
        with unchanged(model), torch.no_grad():
            torch.manual_seed(0)
            loss(model, *batch)
            return {name: b.detach().clone() for name, b in model.named_buffers()}

    before = {name: b.detach().clone() for name, b in model.named_buffers()}
    one, other = after(made_up(SIZES[0])), after(made_up(SIZES[0]))
    learnt = [name for name, b in one.items() if name not in other or not torch.equal(b, other[name])]
    moved = [name for name, b in one.items() if name in before and not torch.equal(b, before[name])]
    found = [f"the buffer {name} learns from rows. Keep it constant, or make it a parameter." for name in learnt]
    return found + [
        f"the buffer {name} changes with each run of the model, and more rows take more runs. Keep it constant."
        for name in moved
        if name not in learnt
    ]


def _notes(clipper: Clipper, made_up: Callable[[int], list[Tensor]]) -> list[str]:
    found = []
    if clipper.why:
        way = "each row by a pass of its own" if clipper.loop else "torch.func"
        found.append(f"Gradients are found by {way}, which is slower: {clipper.why}.")
    with unchanged(clipper.model):
        given: Sequence[Any] = torch.autograd.grad(
            clipper.loss(clipper.model, *made_up(SIZES[0])).sum(), clipper.trained, allow_unused=True
        )
    names = [name for name, p in clipper.model.named_parameters() if p.requires_grad]
    idle = [name for name, g in zip(names, given, strict=True) if g is None]
    if idle:
        found.append(f"The loss never reaches {', '.join(idle)}: they would get noise alone. Freeze them.")
    return found


def _like(x: Tensor, rows: int, generator: torch.Generator) -> Tensor:
    """Return made-up rows of the shape, dtype and range of integers of these."""
    shape = (rows, *x.shape[1:])
    if x.is_floating_point() or x.is_complex():
        return torch.randn(shape, generator=generator).to(x.device, x.dtype)
    low, high = (int(x.min()), int(x.max())) if x.numel() else (0, 0)
    return torch.randint(low, high + 1, shape, generator=generator).to(x.device, x.dtype)
