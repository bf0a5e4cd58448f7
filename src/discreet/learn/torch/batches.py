"""Rows of a data set, read into tensors whose shapes are public: batches that are filled up, and rows that do not fit
left out; and rows in parts, of which each step has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from discreet.errors import InvalidParameter
from discreet.learn.trusted import own_randomness
from discreet.mechanisms.samples import Places, Sampling
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector, words64
from discreet.privacy.event import Composed
from discreet.privacy.sampling import PoissonEvent
from discreet.privacy.unit import Relation

Shape: TypeAlias = "tuple[torch.dtype, tuple[int, ...]]"


@dataclass(frozen=True, slots=True)
class RowBatch:
    """The rows of one step. Who is in it, and how many they are, is private.

    Attributes:
        step: which step it is, from 1 on.
    """

    step: int
    _places: NDArray[np.int64] = field(repr=False, compare=False)


@dataclass
class RowSource:
    """A data set whose rows have public shapes.

    Attributes:
        data: tensors with the rows first, or a map-style data set.
        shapes: dtype and shape of each tensor of a row.
        collate: makes tensors of a list of rows.
        workers: threads that read rows.
        device: where the model is.
    """

    data: Any
    shapes: list[Shape]
    collate: Callable[[list[Any]], Any]
    workers: int
    device: torch.device

    @classmethod
    def of(
        cls,
        dataset: Any,
        example: Sequence[Tensor] | None,
        collate: Callable[[list[Any]], Any] | None,
        workers: int,
        device: torch.device,
    ) -> RowSource:
        """Return the source of a data set.

        Shapes and dtypes of rows are public: those of the tensors, of `example`, or of row 0.

        Raises:
            InvalidParameter: its rows cannot be drawn one by one.
        """
        if isinstance(dataset, DataLoader):
            raise InvalidParameter(
                "A DataLoader draws batches itself: shuffled epochs are no Poisson samples, and cost more.",
                hint="give its dataset, batch_size= and collate_fn=",
            )
        if isinstance(dataset, IterableDataset):
            raise InvalidParameter(
                "An IterableDataset has no rows that can be drawn by their numbers.",
                hint="give a map-style data set, with __len__ and __getitem__",
            )
        if isinstance(dataset, Tensor):
            dataset = (dataset,)
        if isinstance(dataset, TensorDataset) and collate is None:
            dataset = dataset.tensors
        if isinstance(dataset, tuple | list) and dataset and all(isinstance(x, Tensor) for x in dataset):
            if len({len(x) for x in dataset}) != 1:
                raise InvalidParameter("The tensors of dataset have different lengths.")
            return cls(tuple(dataset), [(x.dtype, tuple(x.shape[1:])) for x in dataset], default_collate, 0, device)
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise InvalidParameter(
                f"dataset must be tensors or a map-style data set, not {type(dataset).__name__}.",
                hint="give (features, targets), or an object with __len__ and __getitem__",
            )
        found = cls(dataset, [], collate or default_collate, workers, device)
        given = example if example is not None else found._row(0)
        if given is None:
            raise InvalidParameter(
                "The shapes of rows are not known: collate_fn made no tensors of row 0.",
                hint="give example=, a batch that was made up",
            )
        found.shapes = [(x.dtype, tuple(x.shape[1:])) for x in given]
        return found

    @property
    def size(self) -> int:
        """How many rows there are. Private."""
        return len(self.data[0]) if isinstance(self.data, tuple) else len(self.data)

    def made_up(self) -> list[Tensor]:
        """Return a batch of zeros and ones with the shapes of rows: integers are 0 and 1."""
        whole = [torch.arange(2).reshape(2, *[1] * len(s)).expand(2, *s).to(dtype) for dtype, s in self.shapes]
        return [x.to(self.device) for x in whole]

    def pieces(
        self, batch: RowBatch, physical: int, rng: Entropy, *, filled: bool
    ) -> Iterator[tuple[list[Tensor], Tensor]]:
        """Yield the rows of a batch in a random order, `physical` at once, each time with which of them count.

        Args:
            batch: whose rows are read.
            physical: how many places each piece has.
            rng: of the order.
            filled: whether the last piece is filled up with rows that do not count, so that all have one shape.
        """
        places = batch._places[random_order(len(batch._places), rng)]
        for i in range(0, len(places), physical):
            part = places[i : i + physical]
            tensors, kept = self._read(part)
            more = physical - len(part) if filled else 0
            if more:
                tensors = [torch.cat([x, x.new_zeros(more, *x.shape[1:])]) for x in tensors]
                kept = torch.cat([kept, torch.zeros(more, dtype=torch.bool)])
            yield [x.to(self.device) for x in tensors], kept.to(self.device)

    def _read(self, places: NDArray[np.int64]) -> tuple[list[Tensor], Tensor]:
        if isinstance(self.data, tuple):
            at = torch.from_numpy(places)
            return [x[at.to(x.device)] for x in self.data], torch.ones(len(places), dtype=torch.bool)
        if self.workers:
            with ThreadPoolExecutor(self.workers) as pool:
                rows = list(pool.map(self._row, places.tolist()))
        else:
            rows = [self._row(i) for i in places.tolist()]
        empty = [torch.zeros(1, *s, dtype=dtype) for dtype, s in self.shapes]
        fits = [r is not None and [(x.dtype, tuple(x.shape)) for x in r] == self._wanted for r in rows]
        kept = [r if fit and r is not None else empty for r, fit in zip(rows, fits, strict=True)]
        return [torch.cat(x) for x in zip(*kept, strict=True)], torch.tensor(fits)

    @property
    def _wanted(self) -> list[Shape]:
        return [(dtype, (1, *s)) for dtype, s in self.shapes]

    def _row(self, place: int) -> list[Tensor] | None:
        """Return the tensors of one row; None where it cannot be read: an error would say so of this row."""
        try:
            found = self.collate([self.data[place]])
        except Exception:
            return None
        found = [found] if isinstance(found, Tensor) else found
        whole = isinstance(found, tuple | list) and all(isinstance(x, Tensor) for x in found)
        return list(found) if whole else None


@dataclass(frozen=True, slots=True)
class Parts(Sampling):
    """Parts of the rows, of which step t has part t mod `parts`, for noise that is correlated over steps.

    Attributes:
        parts: how many there are. Each row is in one, drawn once by a uniform number of its own.
        rate: with which chance a row of the part is in the step, by a coin of its own; 1 for all of them.

    Guarantee:
        One row takes part in every `parts`-th step at most. At rate 1 all steps together are one use, of noise that was
        made for so many participations; below it each participation is a sampled use, where noise has no more bands
        than there are parts.

    References:
        Choquette-Choo et al. 2023, Theorem 4, https://arxiv.org/abs/2306.08153; docs/proofs/torch.md, "Correlated
        noise".
    """

    parts: int
    rate: Fraction = Fraction(1)
    relation: ClassVar[Relation] = Relation.ADD_REMOVE

    def participations(self, times: int) -> int:
        """Return in how many of so many steps a row is at most."""
        return -(-times // self.parts)

    def events(self, one: Composed, times: int) -> Composed:
        if self.rate == 1:
            return one
        ((event, _),) = one
        return Composed([(PoissonEvent(event, self.rate), self.participations(times))])

    def start(self, people: int, rng: Entropy) -> Iterator[Places]:
        return self.samples(below_vector(self.parts, people, rng), 0, rng)

    def samples(self, part_of: NDArray[np.int64], begun: int, rng: Entropy) -> Iterator[Places]:
        """Yield the rows of each step after so many, where these are the parts of all rows. Private."""
        for step in count(begun):
            places = np.flatnonzero(part_of == step % self.parts)
            if self.rate < 1:
                places = places[below_vector(self.rate.denominator, len(places), rng) < self.rate.numerator]
            yield places


def chance_seed() -> int:
    """Return a secret seed of torch's generators."""
    return int.from_bytes(SystemEntropy().bytes(7), "big")


@contextmanager
def own_chance() -> Iterator[None]:
    """Let a model draw from fresh secret states of the generators of torch, numpy and Python, which are put back: from
    a known state, how many pieces a batch has would decide what later rows are dropped out of.
    """
    with own_randomness(), torch.random.fork_rng():
        torch.manual_seed(chance_seed())
        yield


def random_order(n: int, rng: Entropy) -> NDArray[np.int64]:
    """Return a uniform order of n places."""
    while True:
        words = words64(rng, n)
        order = np.argsort(words)
        if n < 2 or bool((np.diff(words[order]) > 0).all()):  # a tie would favour an order: drawn again
            return order
