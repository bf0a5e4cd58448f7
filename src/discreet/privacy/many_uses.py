"""Products over many uses that come once each: logarithms, of a few, of what is multiplied first.

Proof of the error bounds: docs/proofs/contour.md, "Pure and Laplace uses, and atoms"
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.privacy.nonuniform import Complex, Floats

LEAST = 0.1
"""A modulus of a factor above which products of many are floats, and still have their digits."""

_HALVINGS = 6  # products of up to 127 of moduli between a tenth and a hundred, which are floats
_ROWS, _COLUMNS = 16, 1024  # of what is worked on at once: it stays in the fastest memories


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """The factors f·(r + w·e^(−2iyl)) of many losses l at a height y; of f and r one of them hangs on y, or on l.

    `front` holds f at each height, and `rest` r at each height; or `front` is None, f is 1, and `rest` holds r for each
    loss. No factor is larger than about a hundred times f.
    """

    loss: Floats
    weight: Floats
    rest: Complex | Floats
    front: Complex | None

    def along(self, step: float, count: int) -> tuple[Complex, Floats]:
        """The logarithms of the products at y = 0, step, …, and at most the least modulus of a factor of each.

        Where the latter is not above `LEAST`, the former says nothing. With y = y' + y'' every e^(−2iyl) is the product
        of two out of a few.
        """
        value, least = np.zeros(count, dtype=np.complex128), np.full(count, math.inf)
        inner = -2j * step * np.arange(min(_ROWS, count))
        room = np.empty(
            (inner.size, _COLUMNS), dtype=np.complex128
        )  # so that it is not asked for again and again
        for j in range(0, self.loss.size, _COLUMNS):
            loss, weight = self.loss[j : j + _COLUMNS], self.weight[j : j + _COLUMNS]
            turned = np.exp(np.multiply.outer(inner, loss))
            for i in range(0, count, _ROWS):
                rows = slice(i, min(i + _ROWS, count))
                first = weight * np.exp(-2j * step * i * loss)
                factor = np.multiply(first, turned[: rows.stop - i], out=room[: rows.stop - i, : loss.size])
                factor += self.rest[j : j + _COLUMNS] if self.front is None else self.rest[rows, None]
                size = 1.0 if self.front is None else np.abs(self.front[rows])
                modulus = factor.real.min(axis=1) * size
                if not modulus.min() > LEAST:
                    modulus = np.abs(factor).min(axis=1) * size
                least[rows] = np.minimum(least[rows], modulus)
                product = _multiplied(factor)
                with np.errstate(divide="ignore"):  # of a factor 0
                    value[rows] += np.log(np.abs(product)).sum(axis=1) + 1j * np.angle(product).sum(axis=1)
        if self.front is not None:
            value += self.loss.size * np.log(self.front)
        return value, least


def _multiplied(factor: Complex) -> Complex:
    """Along each row, the products of up to 127 numbers each: of these logarithms take less time."""
    for _ in range(_HALVINGS):
        half = factor.shape[1] // 2
        if not half:
            break
        product = factor[:, :half] * factor[:, half : 2 * half]
        if factor.shape[1] % 2:
            product[:, 0] *= factor[:, -1]
        factor = product
    return factor
