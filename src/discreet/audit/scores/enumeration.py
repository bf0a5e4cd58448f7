"""Whole outputs, counted: the best score where outputs are repeated."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoded
from discreet.audit.places import Floats
from discreet.audit.scores.column import shrunk

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The log ratio of each output that was seen; one value for all that were not."""

    known: NDArray[np.int64]
    scores: Floats
    unseen: float

    @property
    def name(self) -> str:
        """How it was learned."""
        return "enumeration"

    @property
    def needs(self) -> frozenset[int]:
        """The codes of whole outputs."""
        return frozenset([-1])

    def __call__(self, outputs: Encoded) -> Floats:
        """Return the score of each output."""
        at = np.minimum(np.searchsorted(self.known, outputs.codes), len(self.known) - 1)
        return np.where(self.known[at] == outputs.codes, self.scores[at], self.unseen)

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        """Return the outputs that were hit."""
        inside, times = np.unique(outputs.codes[hit], return_counts=True)
        if not len(inside):
            return "never"
        outside, times_out = np.unique(outputs.codes[~hit], return_counts=True)
        is_new = float(self(outputs)[hit].min()) <= self.unseen
        if is_new and len(outside) < len(inside):
            return "output is not " + _listed(outputs, outside, times_out, "nor")
        return "output is " + _listed(outputs, inside, times, "or")


def learn(p: Encoded, q: Encoded) -> Enumeration | None:
    """Return the score, or None where hardly any output is repeated."""
    known, index = np.unique(np.concatenate([p.codes, q.codes]), return_inverse=True)
    n_p, n_q = len(p), len(q)
    k = np.bincount(index[:n_p], minlength=len(known)).astype(np.float64)
    m = np.bincount(index[n_p:], minlength=len(known)).astype(np.float64)
    if (k + m).max() < 4:
        return None
    # Where most outputs are new, one that was seen once will not be seen again.
    kept = np.flatnonzero(k + m > (1 if len(known) > (n_p + n_q) // 2 else 0))
    scores = shrunk(k[kept], m[kept], n_p, n_q)
    # Good–Turing: what was seen once tells how likely it is to see something new.
    once_p, once_q = int(((k == 1) & (m == 0)).sum()), int(((m == 1) & (k == 0)).sum())
    unseen = math.log((once_p + 2) / n_p / ((once_q + 2) / n_q))
    telling = abs(unseen) > 3 / math.sqrt(once_p + once_q + 4)
    return Enumeration(known[kept], scores, unseen if telling else 0.0)


def _listed(outputs: Encoded, codes: NDArray[np.int64], times: NDArray[np.intp], word: str) -> str:
    frequent = codes[np.argsort(-times, kind="stable")[:_SHOWN]]
    texts = [outputs.examples(int(c)) for c in frequent]
    rest = len(codes) - len(frequent)
    return f" {word} ".join(texts) + (f" {word} … ({len(codes)} outputs)" if rest else "")
