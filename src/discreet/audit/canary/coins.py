"""Canaries and the records that their coins make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.privacy.unit import Relation

Floats: TypeAlias = NDArray[np.float64]
_HINT = "a list of records, an array with a record a row, or a tuple of arrays (X, y)"


@dataclass(frozen=True, slots=True)
class Coins:
    """Canaries, each of which one coin puts in or leaves out; or pairs of twins, of which it chooses one.

    Attributes:
        first: the canaries; the twins of heads.
        second: the twins of tails; empty for add-remove neighbours.
        data: the other records.
        columns: how many parallel arrays a record is spread over; 0 for one list or array.
        combine: makes records of data and the included canaries.
    """

    first: tuple[Any, ...]
    second: tuple[Any, ...]
    data: Any
    columns: int
    combine: Callable[[Any, list[Any]], Any] | None

    @classmethod
    def of(
        cls, canaries: Any, relation: Relation, data: Any, combine: Callable[[Any, list[Any]], Any] | None
    ) -> Coins:
        """The canaries as records.

        Raises:
            InvalidParameter: there are none, they have no length, or twins that are no pairs.
        """
        if isinstance(canaries, str | bytes | Mapping) or hasattr(
            canaries, "columns"
        ):  # their items are no records
            raise InvalidParameter(f"canaries must be records, not {type(canaries).__name__}.", hint=_HINT)
        columns = _columns(canaries) or (_columns(data) if relation is Relation.ADD_REMOVE else 0)
        if _columns(canaries):
            if len({len(c) for c in canaries}) > 1:
                raise InvalidParameter("canaries are arrays of several lengths.", hint=_HINT)
            records: tuple[Any, ...] = tuple(zip(*canaries, strict=True))
        else:
            try:
                records = tuple(canaries)
            except TypeError:
                raise InvalidParameter(
                    f"canaries must be records, not {type(canaries).__name__}.", hint=_HINT
                ) from None
        if not records:
            raise InvalidParameter(
                "canaries are empty: nothing can be guessed.", hint="give 100 to 10,000 records"
            )
        if relation is Relation.ADD_REMOVE:
            return cls(records, (), data, columns, combine)
        if not all(isinstance(pair, Sequence | np.ndarray) and len(pair) == 2 for pair in records):
            raise InvalidParameter(
                'canaries must be pairs of twins for relation="replace".',
                hint="canaries=list(zip(these, those))",
            )
        first, second = tuple(pair[0] for pair in records), tuple(pair[1] for pair in records)
        return cls(first, second, data, _columns(data), combine)

    def __len__(self) -> int:
        return len(self.first)

    def records(self, inside: NDArray[np.bool_]) -> Any:
        """The data and the canaries that the coins chose, in the canaries' order.

        Raises:
            InvalidParameter: records that do not fit the data.
        """
        if self.second:
            chosen = [a if heads else b for a, b, heads in zip(self.first, self.second, inside, strict=True)]
        else:
            chosen = [a for a, heads in zip(self.first, inside, strict=True) if heads]
        if self.combine is not None:
            return self.combine(self.data, chosen)
        try:
            return self._joined(chosen)
        except (TypeError, ValueError) as e:
            raise InvalidParameter(
                f"the canaries and the data do not fit together: {e}",
                hint="give combine=lambda data, chosen: …",
            ) from e

    def _joined(self, chosen: list[Any]) -> Any:
        if self.columns:
            data = self.data if self.data is not None else (None,) * self.columns
            places = range(self.columns)
            return tuple(
                _stacked(d, [record[i] for record in chosen], self.first[0][i])
                for i, d in zip(places, data, strict=True)
            )
        if isinstance(self.data, np.ndarray) or (
            self.data is None and isinstance(self.first[0], np.ndarray | np.generic)
        ):
            return _stacked(self.data, chosen, self.first[0])
        return [*([] if self.data is None else self.data), *chosen]


def trained(train: Callable[[Any], object], records: Any) -> object:
    """The model.

    Raises:
        InvalidParameter: training raised.
    """
    try:
        return train(records)
    except Exception as e:
        raise InvalidParameter(
            f"train raised {type(e).__name__}: {e}",
            hint="it is called with the data and some of the canaries",
        ) from e


def finite_scores(coins: Coins, model: object, score: Callable[[Any, Any], float]) -> Floats:
    """The score of each canary; of twins the difference.

    Raises:
        InvalidParameter: scoring raised, or a score that is no number or NaN.
    """
    first = _scores(model, coins.first, score)
    if not coins.second:
        return first
    second = _scores(model, coins.second, score)
    with np.errstate(invalid="ignore"):
        # two infinite scores of one sign tell nothing apart
        return np.where(first == second, 0.0, first - second)


def _scores(model: object, canaries: Sequence[Any], score: Callable[[Any, Any], float]) -> Floats:
    found = np.empty(len(canaries))
    for i, canary in enumerate(canaries):
        try:
            found[i] = float(np.asarray(score(model, canary)).item())
        except Exception as e:
            raise InvalidParameter(
                f"score raised {type(e).__name__} at canary {i}: {e}",
                hint="score(model, canary) is one number",
            ) from e
    if bool(np.isnan(found).any()):
        raise InvalidParameter(
            f"score is NaN for {int(np.isnan(found).sum())} of {len(found)} canaries.",
            hint="return -math.inf where nothing can be said",
        )
    return found


def _stacked(data: Any, chosen: list[Any], like: Any) -> NDArray[Any]:
    new = np.asarray(chosen) if chosen else np.empty((0, *np.shape(like)), dtype=np.asarray(like).dtype)
    return new if data is None else np.concatenate([np.asarray(data), new])


def _columns(records: Any) -> int:
    parallel = (
        isinstance(records, tuple) and len(records) > 1 and all(isinstance(c, np.ndarray) for c in records)
    )
    return len(records) if parallel else 0
