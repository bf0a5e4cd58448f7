"""Private parts of people's rows: what the code of a recipe is handed, and what is drawn of what it gives back.

Guarantee:
    Of kind "each", a draw's exact numbers are a sum over people of which no summand goes beyond the planned norms: a
    part that does is left out, and so is one whose code fails where people are apart. So one unit moves the sum by
    these norms, if the code makes each part of one person's rows alone; where people are apart it is handed nothing
    else, and only what it remembers between calls could make a part of others.
    Of kind "places" no summand has a number below 0 besides, and of kind "squares" each is a sum of x·xᵀ over rows x.
    Of kind "whole" they are what the code gives. Whatever fails says nothing of the data (docs/proofs/pipeline.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.engine.meter import PlannedUse, PrivateReads
from discreet.engine.row_factor import Integers, RowFactor, RowPlaces, dense, squares, within
from discreet.errors import BackendFailed, InternalError
from discreet.verify.claim import PartKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discreet.noise.entropy import Entropy
    from discreet.plan.decided import Drawing, HandedRows

T = TypeVar("T")

Numbers: TypeAlias = "Integers | tuple[Integers, Integers] | tuple[Integers, RowFactor] | RowPlaces"
Parts: TypeAlias = "Numbers | RowFactor"
"""A row of integers a person; or two factors, rows a of p and b of q integers, for the p·q products of each person; or
weights of all rows, p a row, and the rows that they weigh (`row_factor.py`), or rows that weigh themselves; or where
each row counts 1 (`row_factor.py`).
"""


class PrivateCode(Protocol):
    """The code of a recipe that sees people's rows: pure, of its arguments alone, and never failing on any rows."""

    def prepare(self, people: PeopleRows) -> Any:
        """Whatever of people's rows all draws need, found once a read; it is `people.prepared` then."""
        ...

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        """Return a row of integers for each person, in their order, each of that person's rows and of public values
        alone.
        """
        ...

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        """Return a vector of integers of all people."""
        ...


class PeopleRows:
    """Rows of people, in an order that follows from what stands in them. Private.

    Attributes:
        matrix: the rows, one a line; read-only.
        person: for each row the place of its person, 0, 1, …, in order; read-only.
        size: how many people have rows.
        prepared: what the recipe's `prepare` made of them.
    """

    def __init__(self, read: HandedRows, matrix: Integers, person: Integers, size: int) -> None:
        self._read = read
        self.matrix, self.person, self.size = _fixed(matrix), _fixed(person), size
        self.prepared: Any = None

    @cached_property
    def starts(self) -> Integers:
        """For each person the place of its first row, and after them the number of rows."""
        return _fixed(np.searchsorted(self.person, np.arange(self.size + 1)))

    def column(self, name: str) -> Integers:
        """Return a column's integers, one for each row."""
        found: Integers = self.matrix[:, [*self._read.columns].index(name)]
        return found

    def real(self, name: str) -> NDArray[np.float64]:
        """Return a column's values as floats: the integers times the step of its grid."""
        return np.asarray(self.column(name) * float(self._read.columns[name].step), np.float64)

    def summed(self, of_rows: NDArray[Any]) -> NDArray[Any]:
        """For each person the sum of what its rows have."""
        if not self.size:
            return np.zeros((0, *of_rows.shape[1:]), of_rows.dtype)
        return np.asarray(np.add.reduceat(of_rows, self.starts[:-1], axis=0))

    def take(self, chosen: Integers) -> PeopleRows:
        """Return these people alone, in their order."""
        place = np.full(self.size, -1)
        place[chosen] = np.arange(len(chosen))
        own = place[self.person]
        kept = own >= 0
        return PeopleRows(self._read, self.matrix[kept], own[kept], len(chosen))

    def one(self, place: int) -> PeopleRows:
        """One person alone."""
        rows = slice(int(self.starts[place]), int(self.starts[place + 1]))
        # copied: from a view of the matrix everybody's rows could be reached
        return PeopleRows(self._read, self.matrix[rows].copy(), np.zeros(rows.stop - rows.start, np.int64), 1)


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def people_of(read: HandedRows, columns: Sequence[Integers]) -> PeopleRows:
    """Return the people of what the database gave for their rows: `p`, where units have several, and the columns."""
    n = len(read.columns)
    if len(columns) != n + (1 if read.is_keyed else 0):
        raise BackendFailed("The database gave other columns than were asked for. The charge stands.")
    own = columns[-n:]
    order = np.lexsort([*reversed(own), *([columns[0]] if read.is_keyed else [])])
    matrix = np.empty((len(order), n), np.int64)
    for i in range(n):
        matrix[:, i] = own[i][order]
    if not read.is_keyed:
        return PeopleRows(read, matrix, np.arange(len(order)), len(order))
    numbers, person = np.unique(columns[0][order], return_inverse=True)
    return PeopleRows(read, matrix, person.astype(np.int64), len(numbers))


@dataclass(frozen=True, slots=True)
class PartUse(PlannedUse):
    """The draws of a private part."""

    part: Drawing  # what was planned
    code: PrivateCode  # the recipe's

    @property
    def times(self) -> int:
        return self.part.times

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        args = plain(args)
        part, people = self.part, self._people(exact)
        if part.sampling is not None:
            sampling, size = part.sampling, people.size
            samples: Iterator[Integers] = exact.once(("samples", self.name), lambda: sampling.start(size, rng))
            people = self._prepared(people.take(next(samples)))
        law = part.law
        assert law is not None
        secret = law.secret(rng)
        if secret is not None:
            args = {"args": args, "secret": secret}
        with np.errstate(all="ignore"):  # a warning, or one that is made an error, would tell of the data
            values = exact_values(part, self.code, people, args)
        limit = law.steps_of_a_unit  # of a whole, in how many draws a unit moves it is the recipe's promise
        if limit is not None and part.kind is not PartKind.WHOLE:
            taken = exact.once(("taken", self.name), lambda: np.zeros(people.size, np.int64))
            values = _taking(values, taken, limit)
        vector = total_of(part, values)
        run = exact.once(("run", self.name), lambda: law.start(rng))
        return run(vector)

    def read_ahead(self, exact: PrivateReads) -> None:
        self._people(exact)

    def _people(self, exact: PrivateReads) -> PeopleRows:
        read = self.part.rows
        # one text may stand for columns of several names
        named = tuple((name, v.step) for name, v in read.columns.items())
        return exact.once(("rows", self.part.apart, read.sql, named), lambda: self._read(exact))

    def _read(self, exact: PrivateReads) -> PeopleRows:
        read = self.part.rows
        width = len(read.columns) + (1 if read.is_keyed else 0)
        return self._prepared(people_of(read, exact.columns(read.sql, read.is_keyed, width)))

    def _prepared(self, people: PeopleRows) -> PeopleRows:
        if not self.part.apart:  # else each person is prepared alone
            with np.errstate(all="ignore"):
                people.prepared = by_recipe(lambda: self.code.prepare(people))
        return people


def exact_values(part: Drawing, code: PrivateCode, people: PeopleRows, args: Any) -> Numbers:
    """Return what the code of a recipe gives for a draw, in its planned shape. Private: only uses and audits call it.

    Raises:
        InternalError: it failed, or gave something else.
    """
    if part.kind is PartKind.WHOLE:
        whole = by_recipe(lambda: code.whole(people, part.name, args))
        return np.asarray(_integers(whole, (part.width,))[None, :])
    if part.apart:
        return np.array([_of_one(part, code, people.one(i), args) for i in range(people.size)], np.int64).reshape(
            people.size, part.width
        )
    found: Any = by_recipe(lambda: code.each(people, part.name, args))
    if type(found) is RowPlaces:
        if found.people != people.size or found.width != part.width or part.kind is PartKind.SQUARES:
            raise _other_shape()
        return found
    if part.kind is PartKind.SQUARES and type(found) is RowFactor:  # the rows weigh themselves, whatever they are
        found = found.matrix.toarray().astype(np.int64), found
    elif part.kind is not PartKind.EACH:  # the price is for parts that do not point away from each other
        raise _other_shape()
    if type(found) is not tuple:
        return _integers(found, (people.size, part.width))
    if len(found) != 2:
        raise _other_shape()
    if type(found[1]) is RowFactor:
        weights, rows = _integers(found[0], (found[1].matrix.shape[0], None)), found[1]
        if rows.people != people.size or weights.shape[1] * rows.width != part.width:
            raise _other_shape()
        return weights, rows
    a, b = (_integers(f, (people.size, None)) for f in found)
    if a.shape[1] * b.shape[1] != part.width:
        raise _other_shape()
    return a, b


def _of_one(part: Drawing, code: PrivateCode, person: PeopleRows, args: Any) -> Integers:
    """Return the part of one person; 0 where its code fails."""
    try:
        person.prepared = code.prepare(person)
        own: Integers = _integers(code.each(person, part.name, args), (1, part.width))[0]
        return own
    except KeyboardInterrupt:
        raise
    except BaseException:  # it counts 0, as a part beyond the norms does
        return np.zeros(part.width, np.int64)


def _taking(values: Numbers, taken: Integers, limit: int) -> Numbers:
    """Return the parts of people who counted in fewer draws of this run than the limit; `taken` counts this draw."""
    if isinstance(values, tuple) and isinstance(values[1], RowFactor):
        weights, rows = values
        values = np.concatenate([np.zeros((0, weights.shape[1] * rows.width), np.int64), *rows.parts(weights)])
    if isinstance(values, RowPlaces):
        values = dense(values)
    factors = values if isinstance(values, tuple) else (values,)
    counts = np.logical_and.reduce([(f != 0).any(axis=1) for f in factors])
    first = np.where((counts & (taken < limit))[:, None], factors[0], 0)
    taken += counts
    return (first, values[1]) if isinstance(values, tuple) else first


def total_of(part: Drawing, values: Numbers) -> NDArray[Any]:
    """Return the exact numbers of a draw: the sum over people, where a part beyond the norms counts 0; or the whole.

    What is kept of a person lies within l∞ < 2^31 (`plan/parts.py`), so that no sum over 2^31 people leaves 64 bits.
    """
    if isinstance(values, RowPlaces):
        return values.total(part.norms)
    if isinstance(values, tuple):
        a, b = values
        if isinstance(b, RowFactor):
            return b.total(a, part.norms)
        kept = _within_product(part, a, b)
        return _product(a[kept], b[kept]).reshape(-1)
    if part.kind is PartKind.WHOLE:
        return np.asarray(values[0])
    return np.asarray(values.sum(axis=0, where=within(values, part.norms)[:, None]))


def _within_product(part: Drawing, a: Integers, b: Integers) -> NDArray[np.bool_]:
    """Whose products a·bᵀ keep to the norms: each norm is that of a times that of b, and x·y ≤ n where x ≤ n // y."""
    n = part.norms
    small = np.ones(len(a), np.bool_)
    for factor in (a, b):
        most = min(n.linf, (1 << 31) - 1)  # a person whose factor is beyond counts 0 too
        small &= ((factor <= most) & (factor >= -most)).all(axis=1)
    x, y = (np.abs(np.where(small[:, None], f, 0)) for f in (a, b))
    kept = small
    for norm, most in (
        (lambda f: (f != 0).sum(axis=1), n.l0),
        (lambda f: f.max(axis=1, initial=0), n.linf),
        (lambda f: f.sum(axis=1), n.l1),
        (squares, n.l2_squared),
    ):
        p, q = norm(x), norm(y)
        kept &= (q == 0) | (p <= most // np.maximum(q, 1))
    return np.asarray(kept)


def _product(a: Integers, b: Integers) -> NDArray[Any]:
    """Return the sum over people of a·bᵀ, exactly: in floats where all sums are whole numbers that these hold."""
    most = int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0)) * len(a)
    if most < 1 << 53:
        return np.asarray((a.T.astype(np.float64) @ b.astype(np.float64)).astype(np.int64))
    return np.asarray(a.T @ b)


def by_recipe(work: Callable[[], T]) -> T:
    """Return what the code of a recipe returns; whatever it raises is one constant error, and none of its own.

    Raises:
        InternalError: it failed; the charge stands.
    """
    failed = False
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException:  # its words, its type and its frames may tell of the data
        failed = True
    assert failed
    raise InternalError(
        "The recipe's code for people's rows failed. The charge stands.",
        hint="a private part must not fail on any rows, whatever stands in them",
    )


def _integers(found: Any, shape: tuple[int | None, ...]) -> Integers:
    """Return the integers that the code gave, in this shape; None for any length."""
    if type(found) is not np.ndarray or found.dtype != np.int64 or found.ndim != len(shape):
        raise _other_shape()
    if any(n not in (None, has) for n, has in zip(shape, found.shape, strict=True)):
        raise _other_shape()
    return found


def _other_shape() -> InternalError:
    return InternalError(
        "The recipe's code for people's rows gave no int64 array of the planned shape. The charge stands.",
        hint="each: (people.size, width) or two factors; places: `RowPlaces`; squares: `RowFactor`; whole: (width,)",
    )


_PLAIN = (type(None), bool, int, float, str)


def plain(args: Any) -> Any:
    """Return a copy of public arguments, of plain values alone: nothing comes back through them, and they call no code.

    Raises:
        InternalError: they hold something else; nothing was read.
    """
    if type(args) in _PLAIN:
        return args
    if type(args) in (list, tuple):
        return type(args)(plain(x) for x in args)
    if type(args) is dict:
        return {plain(k): plain(v) for k, v in args.items()}
    if type(args) is np.ndarray and args.dtype.kind in "biufU":
        return _fixed(args.copy())
    raise InternalError(
        "The arguments of a draw are plain values: numbers, text, lists, dicts and arrays. The charge stands.",
        hint="convert what run() yields: w.tolist()",
    )


def part_uses(parts: Sequence[Drawing], code: Any) -> list[PlannedUse]:
    """Return what may be drawn of people's rows, of which the recipe's code gives the exact numbers."""
    return [PartUse(part.name, part, code) for part in parts]
