"""Whether a claim says of each column exactly what its statements say, and not more."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.rederive.check import Found
from discreet.rederive.claim import Claim
from discreet.rederive.moves import column_moves, norms, tree_moves
from discreet.rederive.shapes import disagree


def check_exact(claim: Claim, found: Sequence[Found]) -> None:
    """Refuses a claim that a unit enters more groups, adds more or moves a column further than its statements let it.

    Less noise would have done then: it is no danger, and still not what the certificate says.

    Raises:
        InternalError: naming it.
    """
    other = claim.relation.value == "replace"
    for m, facts in zip(claim.measurements, found, strict=True):
        if m.groups != facts.groups:
            disagree("how many groups a unit enters")
        for column, (low, high) in zip(m.columns, facts.spans, strict=True):
            if (column.low, column.high) != (min(low, 0), max(high, 0)):
                disagree("what a unit adds to a group")
            moved = column_moves((low, high), facts.groups, m.declared, replace=other)
            if moved.norms != norms(column.sensitivity):
                disagree("how far a unit moves a column")
        for tree, reach in zip(m.trees, facts.trees, strict=True):
            moved = tree_moves(reach, facts.groups, replace=other)
            nodes = (
                (2 if other else 1) * facts.groups * reach.total
            )  # each by a step, in as many as there are
            if m.declared is not None:
                nodes = min(nodes, m.declared * reach.leaves)
            if (nodes, reach.total, moved.l1, moved.l2_squared) != norms(tree.sensitivity):
                disagree("how far a unit moves a spread")
