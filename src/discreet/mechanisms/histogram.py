"""The private histogram: how many rows have each key."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.gaussian import Gaussian, root_above
from discreet.mechanisms.parameters import read_choice, read_delta, read_size
from discreet.mechanisms.threshold import Threshold
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, exact, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation, Sensitivity

Key: TypeAlias = "int | float | str | bytes | None"
"""What a row is counted under. Equal numbers are one key: True, 1 and 1.0 are 1."""

NOISES = ("laplace", "geometric", "gaussian")
"""Every kind of noise; the first two are one law on counts."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Histogram(Mechanism):
    """How many rows have each key, each count with independent noise.

    With declared `keys` all of them are answered, those that nobody has included. Without, the keys come from the data
    through `Threshold`, which needs δ and half of ε; they are shown in their own order, numbers before texts.

    Guarantee:
        ε-DP for "laplace" and "geometric" noise on declared keys, else (ε, δ)-DP, when each unit has at most `changes`
        rows (one, where keys come from the data). Under add-remove a unit's rows are there or not: the counts move by
        `changes` in ℓ1, and by its square in ℓ2². Under replace they become any other rows: twice as much in ℓ1 and in
        ℓ2². Rows whose key is not declared are dropped; NaN is the key None, and so is what is no int, float, text or
        bytes.

    References:
        Dwork, McSherry, Nissim, Smith 2006, Section 3 (Example: histograms),
        https://doi.org/10.1007/11681878_14; Dwork, Roth, *The Algorithmic Foundations of Differential Privacy*,
        Theorem 3.6, https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; docs/proofs/histogram.md.

    Attributes:
        selection: what chooses the keys; None where they are declared.
        law: the noise that each count gets.

    >>> Histogram(keys=["red", "blue"], epsilon=1000).release(["red", "red", "green"])
    {'red': 2, 'blue': 0}
    """

    keys: tuple[Key, ...] | None
    epsilon: Fraction
    delta: Fraction | None
    noise: str
    relation: Relation
    changes: int
    selection: Threshold | None
    law: DiscreteLaplaceNoise | RoundedGaussianNoise

    def __init__(
        self,
        keys: Sequence[Any] | None = None,
        *,
        epsilon: Real,
        delta: Real | None = None,
        noise: str = "laplace",
        relation: Relation | str = Relation.ADD_REMOVE,
        changes: int = 1,
    ) -> None:
        noise = read_choice("noise", noise, NOISES)
        needed = keys is None or noise == "gaussian"
        set_fields(self, keys=None if keys is None else _declared(keys), epsilon=read_size("epsilon", epsilon))
        set_fields(self, delta=_delta(delta, needed=needed), noise=noise, relation=Relation.parse(relation))
        set_fields(self, changes=count("changes", changes))
        if keys is None and self.changes > 1:
            raise InvalidParameter(
                "without declared keys each unit must have one row: keys are shown for their number of units.",
                hint="declare keys=, or take one row of each unit first",
            )
        object.__setattr__(self, "selection", self._chosen())
        object.__setattr__(self, "law", self._noise())

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one unit moves the counts."""
        c, sides = self.changes, 2 if self.relation is Relation.REPLACE else 1
        return Sensitivity(sides * c, c, l1=sides * c, l2_squared=sides * c * c)

    @property
    def events(self) -> Composed:
        chosen = self.selection
        counted = self.law.event(self.sensitivity)
        return counted if chosen is None else chosen.events + counted

    def release(self, rows: Iterable[Any], *, rng: Entropy | None = None) -> dict[Key, int]:
        """Return the noisy count of each key.

        Args:
            rows: the key of each row; a list or an array in one dimension.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        source = SystemEntropy() if rng is None else rng
        held = Counter(_key(row) for row in _rows(rows))
        chosen = self.selection
        if self.keys is not None:
            shown: Sequence[Key] = self.keys
        else:
            assert chosen is not None
            there = sorted(held, key=_order)
            kept = chosen.keep([held[k] for k in there], source)
            shown = [k for k, keep in zip(there, kept, strict=True) if keep]
        noisy = self.law.add([held[k] for k in shown], source)
        return dict(zip(shown, noisy, strict=True))

    def error(self, confidence: Real = 0.95) -> float:
        """Return a half-width within which the error of each shown count stays with at least this confidence."""
        return float(self.law.quantile(confidence))

    def explain(self) -> str:
        s, law, e = self.sensitivity, self.law, decimal(self.epsilon)
        many = "row" if self.changes == 1 else "rows"
        moved = f"it moves the counts by {s.l1} in ℓ1 and by {s.l2_squared} in ℓ2²"
        steps = [f"Sensitivity. Under {self.relation.value} one unit has at most {self.changes} {many}: {moved}."]
        chosen = self.selection
        if chosen is not None:
            steps.append(
                f"Keys. Shown for their number of units by a threshold at ({decimal(chosen.epsilon)}, "
                f"{decimal(chosen.delta)}); the counts get the rest."
            )
        if isinstance(law, DiscreteLaplaceNoise):
            steps.append(f"Noise. P(Z = k) ∝ exp(−|k|/b) for each count, b = {decimal(law.scale)}.")
            claim = f"ε = {decimal(s.l1 / law.scale)}"
        else:
            steps.append(f"Noise. N(0, σ²), rounded, for each count, σ = {float(law.sigma):.6g}.")
            claim = f"μ² = {decimal(s.l2_squared / law.sigma**2)}"
        whole = f"{e}-DP" if self.delta is None else f"({e}, {decimal(self.delta)})-DP"
        return numbered(
            repr(self),
            *steps,
            f"Ratio. Counts are independent and those of other keys cancel: {claim} for all of them together.",
            f"Conclusion. M is {whole}.",
            f"Error. Each count within ±{self.error():.6g} with confidence 95%.",
        )

    def _chosen(self) -> Threshold | None:
        if self.keys is not None or self.delta is None:
            return None
        delta = self.delta / 2 if self.noise == "gaussian" else self.delta
        return Threshold(self.epsilon / 2, delta, relation=self.relation)

    def _noise(self) -> DiscreteLaplaceNoise | RoundedGaussianNoise:
        share = 1 if self.keys is not None else 2
        if self.noise != "gaussian":
            return DiscreteLaplaceNoise(share * self.sensitivity.l1 / self.epsilon)
        assert self.delta is not None
        unit = Gaussian(epsilon=self.epsilon / share, delta=self.delta / share).noise.sigma
        return RoundedGaussianNoise(root_above(self.sensitivity.l2_squared * unit * unit))

    def __repr__(self) -> str:
        first = "" if self.keys is None else f"keys={list(self.keys)!r}"
        return called(self, "epsilon", "delta", first=first, noise="laplace", relation=Relation.ADD_REMOVE, changes=1)


def _key(value: Any) -> Key:
    """One key for all that is equal, so that a key shows nothing of the type in which it was held."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if value.is_integer() else float(value)
    if isinstance(value, int):  # truth values too
        return int(value)
    if isinstance(value, str):
        return str(value)
    return bytes(value) if isinstance(value, bytes) else None


def _order(key: Key) -> tuple[int, Any]:
    kinds = ((type(None), 0), ((int, float), 1), (str, 2))
    rank = next((r for kind, r in kinds if isinstance(key, kind)), 3)
    return rank, 0 if key is None else key


def _rows(rows: Iterable[Any], name: str = "rows") -> Iterable[Any]:
    if isinstance(rows, np.ndarray):
        if type(rows) is not np.ndarray or rows.ndim != 1:
            raise InvalidParameter(
                f"{name} must be a plain array in one dimension, not {type(rows).__name__} in {rows.ndim}.",
                hint=f"decide what a masked entry counts as, then use np.array({name}, subok=False)",
            )
        plain: list[Any] = rows.tolist()
        return plain
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise InvalidParameter(
            f"{name} must be a list or an array of keys, not {type(rows).__name__}.", hint=f"{name}=['a', 'b']"
        )
    return rows


def _declared(keys: Sequence[Any]) -> tuple[Key, ...]:
    listed = tuple(_key(k) for k in _rows(keys, "keys"))
    if not listed:
        raise InvalidParameter(
            "keys must hold at least one key.", hint="leave keys out, and give delta=, to take them from the data"
        )
    if len(set(listed)) < len(listed):
        raise InvalidParameter("keys must differ from one another.", hint="True, 1 and 1.0 are one key")
    return listed


def _delta(delta: Real | None, *, needed: bool) -> Fraction | None:
    if needed:
        if delta is None:
            raise InvalidParameter(
                "a histogram needs delta= for Gaussian noise, and where keys come from the data.",
                hint="delta=1e-6; or declare keys= and take noise='laplace'",
            )
        return read_delta(delta, hint="take delta=1e-6; or declare keys= and take noise='laplace'")
    if delta is not None and exact("delta", delta) != 0:
        raise InvalidParameter(
            "Laplace noise on declared keys needs no delta, and takes 0 only.", hint="leave delta out"
        )
    return None
