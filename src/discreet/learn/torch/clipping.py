"""Sums of clipped gradients, one gradient for each row, from one backward pass (book-keeping).

Hooks keep what enters each layer; one call of autograd finds the gradients of what leaves them, and none of a weight.
Which of a tensor's dimensions holds the rows is found once, on batches of two sizes, never by the size of a batch that
is trained on. A model that has other layers, or that reaches a parameter in another way, is differentiated row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from discreet.errors import InvalidParameter
from discreet.learn.torch.layers import (
    ALL,
    KINDS,
    LARGEST_SQUARE,
    SINGLE,
    TOGETHER,
    WHOLE,
    Factored,
    LayerUse,
    Place,
    Room,
    RowSums,
    attend,
    factored,
    has_full_products,
    in_order,
    positions,
    upper_squares,
    whole,
    without_autocast,
)

Loss: TypeAlias = Callable[..., Tensor]
"""A loss: of a model and the tensors of a batch, one number a row."""

Clipping: TypeAlias = Literal["flat", "per-layer", "automatic", "adaptive"]

SIZES = (5, 7)
"""Sizes of the batches on which the rows' dimension is found."""

SMALLEST_LIMIT, LARGEST_LIMIT = 1e-6, 1e6
"""C lies between."""

STABLE = 0.01
"""γ of automatic clipping, over C: rows are scaled by C/(|g| + γC)."""

_SLACK = 1 - 2.0**-40  # of float64 arithmetic on a weight
_BLOCK = 1 << 16  # numbers of whole rows that are added up at once, in the cache
_CLOSE = 1e-3  # how far book-keeping may be from autograd's own sum


@dataclass(frozen=True, slots=True)
class LayerCall:
    """One call of a layer: which, and where the rows are in what enters and in what leaves; None where it has none."""

    layer: nn.Module
    kind: type[nn.Module]
    entered: int | None
    left: int | None


@dataclass(slots=True)
class _Record:
    layer: nn.Module
    kind: type[nn.Module]
    weight: Place | None
    bias: Place | None
    entered: Tensor
    version: int
    edge: GradientEdge
    shape: torch.Size


@dataclass
class Clipper:
    """The way in which a model's rows are clipped, fixed before any of them is seen.

    Attributes:
        model: the model.
        loss: one number a row.
        calls: of the model's layers, in their order; None where rows are differentiated one by one.
        why: why they are; "" where they are not.
        loop: whether `torch.func` cannot do that either, so that each row is a pass of its own.
        terms: how many terms a row's gradient has in each use, for the rounding of sums.
    """

    model: nn.Module
    loss: Loss
    calls: list[LayerCall] | None = None
    why: str = ""
    loop: bool = False
    terms: list[int] = field(default_factory=list)
    _room: Room = field(default_factory=Room, repr=False)

    @classmethod
    def of(cls, model: nn.Module, loss: Loss, made_up: Callable[[int], Sequence[Tensor]]) -> Clipper:
        """Return how the rows of a model are clipped.

        Args:
            model: the model; nothing in it changes.
            loss: one number a row.
            made_up: a batch of that many rows.
        """
        model = getattr(model, "_orig_mod", model)  # of torch.compile, which shares parameters and hides hooks
        with unchanged(model):
            found = cls(model, loss)
            found.why = _unknown(model) or found._trace(made_up)
            if found.why:
                found.calls, found.terms = None, [WHOLE]
                found._try_one_by_one(made_up(2))
            return found

    @property
    def trained(self) -> list[nn.Parameter]:
        """The parameters that are trained."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def sums(
        self,
        batch: Sequence[Tensor],
        limit: float,
        *,
        kept: Tensor | None = None,
        clipping: Clipping = "flat",
        each: int = 1,
    ) -> RowSums:
        """Return the sums of the clipped rows in float64.

        Args:
            batch: tensors with the rows first.
            limit: C.
            kept: which rows count; None for all.
            clipping: how a row is scaled.
            each: how many places for rows, one after the other, a person has, whose gradients are clipped as one.

        Guarantee:
            What a row, or a person, adds has a norm of at most C, whatever stands in it: its norm is bounded from above
            before it is scaled. One whose loss or gradient is no finite number adds 0, and so may one with numbers
            beyond 2^64.

        References:
            docs/proofs/torch.md, "Norms".
        """
        if not len(batch[0]):
            return RowSums({p: torch.zeros(p.shape, dtype=torch.float64, device=p.device) for p in self.trained})
        # how many pieces there are follows from the number of rows: none may leave anything for the next
        with same_buffers(self.model), torch.enable_grad():
            if self.calls is not None:
                losses, parts = self._factored(batch, kept, each)
            else:
                losses, parts = self._one_by_one(batch, kept, each)
        if each > 1:
            losses = _of_people(losses, kept, each).sum(1)
            kept = None if kept is None else kept.reshape(-1, each).any(1)
        square = torch.stack([losses.new_zeros(len(losses), dtype=torch.float64), *(p.square for p in parts)]).sum(0)
        bad = ~(square + losses).isfinite()
        out = bad if kept is None else bad | ~kept.to(bad.device)
        apart, many = clipping == "per-layer", max(len(parts), 1)
        s = scaled(square, limit, clipping).masked_fill_(out, 0)
        sums, some = RowSums(), bad if bool(bad.any()) else None
        if clipping == "adaptive":
            sums.balance = int((2 * (s >= 1).long() - 1).masked_fill(out, 0).sum())
        while parts:  # each with parameters of its own, so that K norms of C/√K make one of C
            part = parts.pop()
            if apart:
                s = scaled(part.square, limit / math.sqrt(many), clipping).masked_fill_(out, 0)
            part.add(s, sums, some)
        for p in self.trained:
            if p not in sums:
                sums[p] = torch.zeros(p.shape, dtype=torch.float64, device=p.device)
        return sums

    # ------------------------------------------------------------------ all rows at once
    def _trace(self, made_up: Callable[[int], Sequence[Tensor]]) -> str:
        """Find the calls, and compare with autograd; return why it cannot be done, or ""."""
        seen = []
        for n in SIZES:
            with _recorded(self.model) as records:
                checked_losses(self.loss(self.model, *made_up(n)), n)
            seen.append(records)
        one, other = seen
        if [r.layer for r in one] != [r.layer for r in other]:
            return "its layers are not the same for every batch"
        self.calls = []
        for a, b in zip(one, other, strict=True):
            entered, left = _rows_at(a.entered.shape, b.entered.shape), _rows_at(a.shape, b.shape)
            if left is None and entered is None and a.kind is nn.Embedding:
                pass  # positions, the same for each row
            elif entered is None or left is None:
                return f"{type(a.layer).__name__} is called on what is not one row each"
            self.calls.append(LayerCall(a.layer, a.kind, entered, left))
        batch, sums = made_up(SIZES[0]), RowSums()
        with torch.random.fork_rng():
            theirs: Sequence[Any] = torch.autograd.grad(
                self.loss(self.model, *batch).sum(), self.trained, allow_unused=True
            )
        try:
            losses, parts = self._factored(batch)
        except (RuntimeError, ValueError):  # InvalidParameter is one
            return "the numbers that it looks up for all rows at once are used in another way than added"
        for part in parts:
            part.add(torch.ones(len(losses), dtype=torch.float64, device=losses.device), sums)
        for p, g in zip(self.trained, theirs, strict=True):
            ours = sums.get(p)
            given = torch.zeros_like(p) if g is None else g
            far = given.double() if ours is None else ours - given.double()
            if float(far.norm()) > _CLOSE * max(float(given.double().norm()), 1e-6):
                return "it uses a parameter outside of the layer that has it"
        return ""

    def _factored(
        self, batch: Sequence[Tensor], kept: Tensor | None = None, each: int = 1
    ) -> tuple[Tensor, list[Factored]]:
        assert self.calls is not None
        with _recorded(self.model, self.calls, len(batch[0])) as records:
            losses = self.loss(self.model, *batch)
            checked_losses(losses, len(batch[0]))
        if [r.layer for r in records] != [c.layer for c in self.calls]:
            raise InvalidParameter(
                "The model called other layers than on the batches that were made up.",
                hint="which layers are called must not follow from the rows",
            )
        if any(r.entered._version != r.version for r in records):
            raise InvalidParameter(
                "The model changes in place what entered a layer.", hint="use the operation's own copy"
            )
        with without_autocast([losses, *(r.entered for r in records)]):  # of each device
            gradients = torch.autograd.grad(losses.sum(), [r.edge for r in records], allow_unused=True)
            return losses.detach(), self._parts(records, gradients, len(losses), kept, each)

    def _parts(
        self, records: list[_Record], gradients: Sequence[Tensor | None], rows: int, kept: Tensor | None, each: int
    ) -> list[Factored]:
        assert self.calls is not None
        used: dict[nn.Parameter, list[slice]] = {}
        for r in records:
            for p, at in (place for place in (r.weight, r.bias) if place is not None):
                used.setdefault(p, []).append(at)
        parts: list[Factored] = []
        shared: dict[nn.Parameter, Tensor] = {}
        terms = []
        self._room.start()
        for call, r, g in zip(self.calls, records, gradients, strict=True):
            if g is None:
                continue
            a = r.entered
            a = a.reshape(1, -1).expand(rows, -1) if call.entered is None else in_order(a, call.entered)
            g = in_order(g, call.left or 0)
            if g.dtype != a.dtype and a.is_floating_point():
                a, g = (x.to(torch.promote_types(a.dtype, g.dtype)) for x in (a, g))
            as_positions = each > 1 and KINDS[r.kind].factored is not None
            if each > 1:
                a, g = (_of_people(x, kept, each if as_positions else 1) for x in (a, g))
            use = LayerUse(r.layer, r.kind, r.weight, r.bias, a, self._room)
            alone = all(_apart(used[p]) for p, _ in use.places)
            part = factored(use, a, g) if alone else None
            terms.append(WHOLE if part is None else positions(use))
            if part is not None:
                parts.append(part)
                continue
            for (p, at), rows_of in whole(use, a, g):
                if each > 1 and not as_positions:
                    rows_of = rows_of.reshape(-1, each, *rows_of.shape[1:]).sum(1)
                if len(used[p]) == 1 and at == ALL:
                    parts.append(_whole_rows((p, at), rows_of))
                else:  # added before the norm is taken
                    if p not in shared and at == ALL:
                        shared[p] = rows_of.reshape(len(rows_of), *p.shape)
                        continue
                    if p not in shared:
                        shared[p] = rows_of.new_zeros(len(rows_of), *p.shape)
                    shared[p][:, at] += rows_of.reshape(shared[p][:, at].shape)
        self.terms = terms or [WHOLE]
        return parts + [_whole_rows((p, ALL), rows_of) for p, rows_of in shared.items()]

    # ------------------------------------------------------------------ row by row
    def _try_one_by_one(self, batch: Sequence[Tensor]) -> None:
        checked_losses(self.loss(self.model, *batch), len(batch[0]))
        try:
            self._one_by_one(batch)
        except (RuntimeError, ValueError):
            self.loop = True

    def _one_by_one(
        self, batch: Sequence[Tensor], kept: Tensor | None = None, each: int = 1
    ) -> tuple[Tensor, list[Factored]]:
        trained = {f"model.{n}": p for n, p in self.model.named_parameters() if p.requires_grad}
        step = _Step(self.model, self.loss)

        def of_people(g: Tensor) -> Tensor:
            return g if each == 1 else _of_people(g, kept, each).sum(1)

        if self.loop:
            losses, single = [], []
            for i in range(len(batch[0])):
                loss = step(*[x[i : i + 1] for x in batch])
                given = torch.autograd.grad(loss, list(trained.values()), allow_unused=True, materialize_grads=True)
                losses.append(loss.detach())
                single.append(given)
            rows = {p: torch.stack(g) for p, g in zip(trained.values(), zip(*single, strict=True), strict=True)}
            return torch.stack(losses), [_whole_rows((p, ALL), of_people(g)) for p, g in rows.items()]

        def of_row(values: dict[str, Tensor], *row: Tensor) -> tuple[Tensor, Tensor]:
            loss: Tensor = torch.func.functional_call(step, values, tuple(x[None] for x in row))
            return loss, loss.detach()

        values = {name: p.detach() for name, p in trained.items()}
        find = torch.func.vmap(
            torch.func.grad(of_row, has_aux=True), in_dims=(None, *[0] * len(batch)), randomness="different"
        )
        gradients, found = find(values, *batch)
        return found.detach(), [_whole_rows((trained[name], ALL), of_people(g)) for name, g in gradients.items()]


class _Step(nn.Module):
    """The loss of one row."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *row: Tensor) -> Tensor:
        return self.loss(self.model, *row).squeeze(0)


def clipped_sum(
    model: nn.Module, loss_fn: Loss, batch: Sequence[Tensor], *, max_grad_norm: float, clipping: Clipping = "flat"
) -> dict[str, Tensor]:
    """Return Σ min(1, C/|g|)·g over the rows of a batch, without noise, for each trained parameter by name.

    Args:
        model: the model; nothing in it changes.
        loss_fn: `loss_fn(model, *batch)` returns one loss a row.
        batch: tensors with the rows first.
        max_grad_norm: C.
        clipping: "flat"; "per-layer", where each of K layers is clipped to C/√K; or "automatic", by C/(|g| + C/100) in
            place of min(1, C/|g|).

    Raises:
        InvalidParameter: the loss is not one number a row.

    >>> net = nn.Linear(2, 1)
    >>> def loss(model, x, y): return (model(x)[:, 0] - y).square()
    >>> sums = clipped_sum(net, loss, [torch.ones(4, 2), torch.zeros(4)], max_grad_norm=0.5)
    >>> sorted(sums), float(torch.cat([g.flatten() for g in sums.values()]).norm()) <= 4 * 0.5
    (['bias', 'weight'], True)
    """
    limit = positive_limit(max_grad_norm)
    if clipping == "adaptive":
        raise InvalidParameter("clipping='adaptive' changes C from step to step.", hint='here clipping="flat"')
    rows = len(batch[0])

    def cycled(n: int) -> list[Tensor]:
        if rows:
            return [x[torch.arange(n, device=x.device) % rows] for x in batch]
        return [x.new_zeros(n, *x.shape[1:]) for x in batch]

    clipper = Clipper.of(model, loss_fn, cycled)
    sums = clipper.sums(batch, limit, clipping=clipping)
    return {n: sums[p].to(p.dtype) for n, p in clipper.model.named_parameters() if p.requires_grad}


def positive_limit(value: Any) -> float:
    """Return C as a float.

    Raises:
        InvalidParameter: it is no number from 1e-6 to 1e6.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST_LIMIT <= value <= LARGEST_LIMIT:
        raise InvalidParameter(
            f"max_grad_norm must be a number from 1e-6 to 1e6, not {value!r}.", hint="max_grad_norm=1.0"
        )
    return float(value)


def scaled(square: Tensor, limit: float, clipping: Clipping) -> Tensor:
    """Return the weights of rows whose squared norms are at most these."""
    if clipping in ("flat", "per-layer", "adaptive"):
        return (limit * _SLACK / square.sqrt()).clamp_max(1)
    if clipping == "automatic":
        return limit * _SLACK / (square.sqrt() + STABLE * limit)
    raise InvalidParameter(f"clipping must be 'flat', 'per-layer', 'automatic' or 'adaptive', not {clipping!r}.")


def checked_losses(losses: Any, rows: int) -> None:
    """Refuse a loss that is not one number a row."""
    if not isinstance(losses, Tensor) or losses.shape != (rows,):
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        hint = "return one loss a row, of shape (B,)"
        if shape == ():
            hint = 'give the loss reduction="none": a mean over rows hides what each of them adds'
        raise InvalidParameter(f"The loss of {rows} rows has the shape {shape}, not ({rows},).", hint=hint)
    if losses.is_complex():
        raise InvalidParameter("The loss is a complex number.", hint="return a real one")


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Bring back what trying a model changes: its buffers, its gradients, and torch's generators."""
    with torch.random.fork_rng(), same_buffers(model):
        yield


@contextmanager
def same_buffers(model: nn.Module) -> Iterator[None]:
    """Bring back a model's buffers."""
    buffers = {name: b.detach().clone() for name, b in model.named_buffers()}
    if not buffers:
        yield
        return
    try:
        yield
    finally:
        with torch.no_grad():
            for name, b in model.named_buffers():
                if name in buffers:
                    b.copy_(buffers[name])


def _of_people(x: Tensor, kept: Tensor | None, each: int) -> Tensor:
    """Return what rows have by person, and nothing of the places that no row is in."""
    if kept is not None:
        x = x.masked_fill(~kept.to(x.device).reshape(-1, *[1] * (x.dim() - 1)), 0)
    return x if each == 1 else x.reshape(-1, each, *x.shape[1:])


def _whole_rows(place: Place, rows: Tensor) -> Factored:
    flat = in_order(rows.flatten(1) if rows.dim() > 1 else rows[:, None], 0)  # half precision would round the norm

    def add(factors: list[Tensor], s: Tensor, sums: RowSums) -> None:
        (flat,) = factors
        n, wide = flat.shape
        if flat.dtype == torch.float32 and n <= SINGLE and has_full_products():
            single, even = s.float(), n - n % TOGETHER
            many = even // TOGETHER
            groups = single[:even].view(many, 1, TOGETHER), flat[:even].view(many, TOGETHER, wide)
            total = torch.bmm(*groups).sum((0, 1), dtype=torch.float64)
            if even < n:
                total += single[even:] @ flat[even:]
            sums.add(place, total)
            return
        total = torch.zeros(wide, dtype=torch.float64, device=flat.device)
        block = max(1, _BLOCK // max(wide, 1))
        room = torch.empty(block, wide, dtype=torch.float64, device=flat.device)
        for i in range(0, n, block):
            part = room[: min(block, n - i)].copy_(flat[i : i + block])
            total += s[i : i + block] @ part
        sums.add(place, total)

    square = upper_squares(flat)
    if flat.dtype == torch.float32:
        square.masked_fill_(square > LARGEST_SQUARE, math.inf)
    return Factored(square, [flat], add)


def _unknown(model: nn.Module) -> str:
    """Return which layer has no rule of its own; "" where each has."""
    for name, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if p.requires_grad]
        inside = isinstance(module, nn.MultiheadAttention)
        if own and not inside and type(module) not in KINDS and not _in_attention(model, name):
            return f"{name or 'the model'} ({type(module).__name__}) has no rule of its own"
        if own and isinstance(module, nn.Embedding) and (module.max_norm is not None or module.scale_grad_by_freq):
            return f"{name} (Embedding) has max_norm or scale_grad_by_freq"
    return ""


def _in_attention(model: nn.Module, name: str) -> bool:
    return name.endswith("out_proj") and isinstance(model.get_submodule(name.rpartition(".")[0]), nn.MultiheadAttention)


def _rows_at(one: torch.Size, other: torch.Size) -> int | None:
    """Return the dimension that has as many as there are rows; None where none or several do."""
    if len(one) != len(other):
        return None
    found = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return found[0] if len(found) == 1 and (one[found[0]], other[found[0]]) == SIZES else None


def _apart(used: list[slice]) -> bool:
    """Return whether these parts of a parameter have nothing in common: the whole once, or thirds of it."""
    return len(used) == 1 or (ALL not in used and all(used.count(at) == 1 for at in used))


@contextmanager
def _recorded(model: nn.Module, calls: Sequence[LayerCall] = (), rows: int = 0) -> Iterator[list[_Record]]:
    """Keep what enters and leaves each layer that is trained, while the model runs.

    Args:
        model: the model.
        calls: which are expected; what is looked up for all rows at once is handed on for each row.
        rows: how many rows there are.
    """
    records: list[_Record] = []

    def keep(
        layer: nn.Module, kind: type[nn.Module], weight: Place | None, bias: Place | None, a: Tensor, o: Tensor
    ) -> Tensor:
        if not o.requires_grad:
            return o
        at = len(records)
        if at < len(calls) and calls[at].left is None:
            o = (o[0] if a.dim() > 1 else o)[None].expand(rows, *o.shape[a.dim() > 1 :])
        a = a.detach()
        records.append(_Record(layer, kind, weight, bias, a, a._version, get_gradient_edge(o), o.shape))
        return o

    def watched(layer: nn.Module, weight: Place | None, bias: Place | None) -> Callable[..., Tensor]:
        run = layer.forward

        def forward(*inputs: Any, **named: Any) -> Tensor:
            return keep(
                layer, type(layer), weight, bias, inputs[0] if inputs else named["input"], run(*inputs, **named)
            )

        return forward

    own: dict[nn.Module, Any] = {}
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention) and type(module) is nn.MultiheadAttention:
            if any(p.requires_grad for p in module.parameters()):
                own[module] = module.__dict__.get("forward")
                module.__dict__["forward"] = attend(module, keep)
        elif type(module) in KINDS:
            weight, bias = (_place(getattr(module, name, None)) for name in ("weight", "bias"))
            if weight is not None or bias is not None:
                own[module] = module.__dict__.get("forward")
                module.__dict__["forward"] = watched(module, weight, bias)
    try:
        yield records
    finally:
        for module, forward in own.items():
            module.__dict__["forward"] = forward
            if forward is None:
                del module.__dict__["forward"]


def _place(p: Any) -> Place | None:
    return (p, ALL) if isinstance(p, nn.Parameter) and p.requires_grad else None
