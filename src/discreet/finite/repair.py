"""Probabilities in floats made exact: rows that sum to 1 and ratios that hold, as fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from discreet.finite.program import Matrix, Ordered

_NEAR = Fraction(1, 10**7)  # what counts as 0, or as a ratio that is met
_MOST_UNKNOWNS = 60  # of a system that is solved in fractions: some seconds; 80 take minutes


def vertex(rows: Matrix, edges: Ordered, grown: Fraction, costs: Matrix | None) -> Matrix | None:
    """The corner of the set of all private mechanisms that is meant: its equations are read off and solved exactly.

    Entries near 0 are 0, and ratios near the allowed one are that. So each column falls into parts that are known up
    to a factor, and the factors follow from the sums of the rows (and, with `costs`, from the mean costs that are as
    large as the largest). None where that is no mechanism, or does not decide all factors.
    """
    n, m = len(rows), len(rows[0])
    parts: list[dict[int, Fraction]] = []  # of one column each: input → multiple of the factor
    column_of: list[int] = []
    for o in range(m):
        column = [row[o] for row in rows]
        found = _parts(column, edges, grown)
        if found is None:
            return None
        parts += found
        column_of += [o] * len(found)
    unknowns = len(parts) + (costs is not None)
    if unknowns > _MOST_UNKNOWNS:
        return None
    system = [[part.get(x, Fraction(0)) for part in parts] for x in range(n)]
    if costs is not None:
        means = [
            sum((c * p for c, p in zip(cost, row, strict=True)), Fraction(0))
            for cost, row in zip(costs, rows, strict=True)
        ]
        size = max(map(abs, means)) or Fraction(1)
        for row in system:
            row.append(Fraction(0))
        for x in range(n):
            if max(means) - means[x] <= _NEAR * size:
                mean = [
                    part.get(x, Fraction(0)) * costs[x][o] for part, o in zip(parts, column_of, strict=True)
                ]
                system.append([*mean, Fraction(-1)])
    right = [Fraction(1)] * n + [Fraction(0)] * (len(system) - n)
    factors = _solved([[*row, b] for row, b in zip(system, right, strict=True)], unknowns)
    if factors is None:
        return None
    exactly = [[Fraction(0)] * m for _ in range(n)]
    for part, o, factor in zip(parts, column_of, factors, strict=False):
        for x, multiple in part.items():
            exactly[x][o] = multiple * factor
    return exactly if keeps(exactly, edges, grown) else None


def mixed_in(rows: Matrix, edges: Ordered, grown: Fraction) -> Matrix:
    """Rows divided by their sums, with as much of a constant law mixed in as the ratios need.

    A ratio that is missed by v = P(o|x) − e^ε P(o|y) > 0 holds for (1 − t)P + tw once t ≥ v/(v + (e^ε − 1)w(o)), as
    the constant law w has room (e^ε − 1)w(o). It is uniform on the outputs that are used, so the others stay unused.
    """
    used = [any(column) for column in zip(*rows, strict=True)]
    law = [Fraction(int(u), sum(used)) for u in used]
    scaled = [[p / sum(row) for p in row] for row in rows]
    share = Fraction(0)
    for x, y in edges:
        for p, q, w in zip(scaled[x], scaled[y], law, strict=True):
            if (missed := p - grown * q) > 0:
                share = max(share, missed / (missed + (grown - 1) * w))
    return [[(1 - share) * p + share * w for p, w in zip(row, law, strict=True)] for row in scaled]


def keeps(rows: Matrix, edges: Ordered, grown: Fraction) -> bool:
    """Whether rows are laws whose ratios between the given inputs are at most `grown`, exactly."""
    if any(sum(row) != 1 or min(row) < 0 for row in rows):
        return False
    return all(p <= grown * q for x, y in edges for p, q in zip(rows[x], rows[y], strict=True))


def _parts(column: Sequence[Fraction], edges: Ordered, grown: Fraction) -> list[dict[int, Fraction]] | None:
    """The inputs of a column that met ratios tie together, each with its multiple; None where they disagree."""
    tied: dict[int, list[tuple[int, Fraction]]] = {}
    for x, y in edges:
        p, q = column[x], column[y]
        if p > _NEAR**2 and abs(p - grown * q) <= _NEAR * p:
            tied.setdefault(x, []).append((y, 1 / grown))
            tied.setdefault(y, []).append((x, grown))
    found: list[dict[int, Fraction]] = []
    left = {x for x, p in enumerate(column) if p > _NEAR**2}
    while left:
        start = min(left)
        part, ahead = {start: Fraction(1)}, [start]
        while ahead:
            x = ahead.pop()
            for y, factor in tied.get(x, ()):
                if y not in part:
                    part[y] = part[x] * factor
                    ahead.append(y)
                elif part[y] != part[x] * factor:
                    return None
        left -= part.keys()
        found.append(part)
    return found


def _solved(system: Matrix, unknowns: int) -> list[Fraction] | None:
    """The one solution of linear equations, each with its right side last; None where there is none or more."""
    for k in range(unknowns):
        pivot = next((r for r in range(k, len(system)) if system[r][k]), None)
        if pivot is None:
            return None
        system[k], system[pivot] = system[pivot], system[k]
        head = system[k] = [v / system[k][k] for v in system[k]]
        for r, row in enumerate(system):
            if r != k and row[k]:
                system[r] = [v - row[k] * h for v, h in zip(row, head, strict=True)]
    return None if any(row[-1] for row in system[unknowns:]) else [row[-1] for row in system[:unknowns]]
