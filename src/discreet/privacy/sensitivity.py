"""How far one unit can move a vector of integers, exactly."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import InvalidParameter
from discreet.privacy.exact import count


@dataclass(frozen=True, slots=True, init=False)
class Sensitivity:
    """The largest difference f(x) − f(y) of a vector of integers over all neighbours x, y, in four norms.

    Attributes:
        l0: how many coordinates may differ.
        linf: by how much each of them may.
        l1: the sum of the absolute differences; `l0 * linf` unless a tighter one is given.
        l2_squared: the sum of the squared differences; `l0 * linf**2` unless a tighter one is given
            (the norm itself is seldom a fraction).

    >>> Sensitivity(l0=3, linf=10)
    Sensitivity(l0=3, linf=10, l1=30, l2_squared=300)
    """

    l0: int
    linf: int
    l1: int
    l2_squared: int

    def __init__(self, l0: int, linf: int, *, l1: int | None = None, l2_squared: int | None = None) -> None:
        n, m = count("l0", l0, least=0), count("linf", linf, least=0)
        one = n * m if l1 is None else count("l1", l1, least=0)
        two = n * m * m if l2_squared is None else count("l2_squared", l2_squared, least=0)
        # Consistent norms: each bound must be implied by or tighter than (l0, linf), and at least one
        # coordinate's.
        if not (min(n, 1) * m <= one <= n * m):
            raise InvalidParameter(f"l1 must lie between linf and l0·linf = {n * m}, not {one}.")
        if not (min(n, 1) * m * m <= two <= n * m * m):
            raise InvalidParameter(f"l2_squared must lie between linf² and l0·linf² = {n * m * m}, not {two}.")
        for name, value in (("l0", n), ("linf", m), ("l1", one), ("l2_squared", two)):
            object.__setattr__(self, name, value)

    @property
    def is_product(self) -> bool:
        """Whether any vector of at most `l0` entries up to `linf` is possible, so that no norm is tighter."""
        return self.l1 == self.l0 * self.linf
