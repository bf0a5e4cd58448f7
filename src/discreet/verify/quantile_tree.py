"""What the SQL of a quantile tree says of one unit, from the text alone: a grammar beside that of `derive.py`.

For every text that fits, a unit adds to the leaves of each of at most `groups` groups whole weights of at most `total`
together, none of them below 0, whatever the tables hold; the argument is in docs/proofs/quantile-trees.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from discreet.verify.derive import Derived, PrivateRows, Weighted, rows_and_tallies, rows_of_one, whole_kind
from discreet.verify.kinds import span_of
from discreet.verify.shapes import (
    alias_of,
    apart,
    conjuncts,
    filters,
    holds_only,
    is_column,
    is_known,
    lengths,
    only,
    outputs,
    read_from,
    reads_stage,
    reject,
    text_of,
    whole_constant,
)


@dataclass(frozen=True, slots=True)
class DerivedTree:
    """What the SQL of a tree says of one unit.

    Attributes:
        reach: how many groups it can enter; no spans.
        total: the most weight that it adds to a group.
        leaves: how many leaves a group has.
        together: the most weight that it adds to all groups; None where nothing but their number bounds it.
    """

    reach: Derived
    total: int
    leaves: int
    together: int | None = None

    def moves(self, groups: int, *, replace: bool) -> tuple[int, int, int, int]:
        """Return what one unit moves a level of the trees by: ℓ1 and squared ℓ2 at worst, and a move that it surely can
        make, as so many nodes by so much each. Old and new weights are at worst in leaves apart.
        """
        times = 2 if replace else 1
        if self.together is not None and self.together < groups * self.total:
            # squares are convex: at worst as many groups as can be are full, and one has the rest
            full, rest = divmod(self.together, self.total)
            l1, squares = times * self.together, times * (full * self.total**2 + rest**2)
            if self.reach.listed is not None:  # no more nodes than these, each by the whole weight of a group
                nodes = self.leaves * self.reach.listed
                l1, squares = min(l1, nodes * self.total), min(squares, nodes * self.total**2)
                return l1, squares, min(times * full, nodes), self.total
            return l1, squares, times * full, self.total
        cells = times * groups
        if self.reach.listed is not None:
            cells = min(cells, self.leaves * self.reach.listed)
        return cells * self.total, cells * self.total**2, cells, self.total

    def loss_range(self, p: Fraction, groups: int, *, replace: bool) -> Fraction:
        """In how wide an interval the changes of all leaves' losses lie, added up over the groups a unit can change.

        The loss of a leaf is a distance between a rank and p times the weight, and moves by no more than their
        difference, to either side. By trying the corners of what one unit can do in a group, the weight all left or all
        right of a place, or none, and every number of shared groups.
        """
        corners = [Fraction(0), (1 - p) * self.total, -p * self.total]
        alone = 2 * max(map(abs, corners))
        if not replace:
            return groups * alone
        shared = 2 * max(abs(new - old) for new in corners for old in corners)
        listed = self.reach.listed
        found = Fraction(0)
        for both in range(groups + 1) if listed is not None and listed < 2 * groups else (0, groups):
            if listed is None or 2 * groups - both <= listed:
                found = max(found, both * shared + 2 * (groups - both) * alone)
        return found


def derive_tree(sql: str, source: PrivateRows) -> DerivedTree:
    """Return what the text alone says of one unit's weights.

    Raises:
        InternalError: a shape that is not known to be bounded.
    """
    return _by_row(sql, source) if source.unit is None else _by_unit(sql, source)


def _by_row(sql: str, source: PrivateRows) -> DerivedTree:
    """Each row is a unit: it is in one group, has one value, and counts as 1."""
    found = rows_of_one(sql, source)
    reads_stage(found.tree, "unit rows", {"expressions", "from_", "where", "group", "with_"})
    if alias_of(read_from(found.tree)) != "r":
        reject("what a stage reads")
    value, leaves, weight = _last(found.tree, found.keys, found.row)
    if (
        type(weight) is not exp.Count
        or type(weight.this) is not exp.Star
        or not holds_only(weight, {"this", "big_int"})
    ):
        reject("the weight of a row")
    _known(found.tree, value)
    return DerivedTree(_reach(found), 1, leaves)


def _by_unit(sql: str, source: PrivateRows) -> DerivedTree:
    """Units of many rows: rows → tallies of each (unit, group) → the weight of each row in the ranked groups → sums."""
    found = rows_and_tallies(sql, source, "unit weights")
    weights, tree = found.stage, found.tree
    reads_stage(weights, "unit groups", {"expressions", "from_", "qualify"})
    given = outputs(weights, ["u", *found.keys])
    if given.keys() != {"w"}:
        reject("the weight of a row")
    only(tree, {"expressions", "from_", "joins", "where", "group", "with_"})
    rows = read_from(tree)
    if type(rows) is not exp.Table or rows.name != found.rows or not holds_only(rows, {"this", "alias"}):
        reject("what a stage reads")
    if alias_of(rows) != "r":
        reject("what a stage reads")
    _weighted(tree, ["u", *found.keys])
    value, leaves, weight = _last(tree, found.keys, found.row)
    if type(weight) is not exp.Sum or not is_column(weight.this, "w", "w") or not holds_only(weight, {"this"}):
        reject("the weight of a row")
    _known(tree, value)
    total, each = _total(given["w"], found.tallies, value)
    together = None if found.most is None else found.most * each
    return DerivedTree(_reach(found), total, leaves, together)


def _reach(found: Weighted) -> Derived:
    return Derived(found.groups, (), len(found.keys), lengths(found.listed, found.keys))


def _total(weight: exp.Expr, tallies: dict[str, exp.Expr], value: str) -> tuple[int, int]:
    """Return the T of T // greatest(n, R), where n counts the unit's rows of the group that have the value: n such rows
    add up to at most T; and T // R, which is the most that one row weighs.
    """
    most = weight.expression if type(weight) is exp.IntDiv else None
    if type(most) is not exp.Greatest or len(most.expressions) != 1:
        reject("the weight of a row")
    counted = tallies.get(most.this.name) if is_column(most.this, "", most.this.name) else None
    if type(counted) is not exp.Count or not holds_only(counted, {"this", "big_int"}):
        reject("the weight of a row")
    if not is_column(counted.this, "", value) or whole_constant(most.expressions[0]) < 1:
        reject("the weight of a row")
    total = whole_constant(weight.this)
    return total, total // whole_constant(most.expressions[0])


def _weighted(tree: exp.Select, same: list[str]) -> None:
    """One join, on equality with all that tells the weights apart: a row finds at most one."""
    joins = tree.args.get("joins") or []
    if len(joins) != 1 or not holds_only(joins[0], {"this", "on"}):
        reject("what is joined")
    table = joins[0].this
    if type(table) is not exp.Table or table.name != "unit weights" or not holds_only(table, {"this", "alias"}):
        reject("what is joined")
    terms = conjuncts(joins[0].args.get("on"))
    if alias_of(table) != "w" or len(terms) != len(same):
        reject("what is joined")
    for term, name in zip(terms, same, strict=True):
        if type(term) not in (exp.EQ, exp.NullSafeEQ):
            reject("what is joined")
        if not is_column(term.this, "r", name) or not is_column(term.expression, "w", name):
            reject("what is joined")


def _last(tree: exp.Select, keys: list[str], row: dict[str, exp.Expr]) -> tuple[str, int, exp.Expr]:
    """Return the value, the number of leaves and the weight: after the keys come CAST((r.value - low) // width AS a
    kind that holds it), and a text.
    """
    *shown, leaf, weight = tree.expressions
    if [e.alias for e in shown] != keys or not all(
        type(e) is exp.Alias and is_column(e.this, "r", e.alias) for e in shown
    ):
        reject("what the groups are")
    if type(leaf) is not exp.Alias or leaf.alias != "b" or type(leaf.this) is not exp.Cast:
        reject("what the leaves are")
    place, held = leaf.this.this, next((n for n, kind in _HELD.items() if leaf.this.to.is_type(kind)), 0)
    if type(place) is not exp.IntDiv or not holds_only(leaf.this, {"this", "to"}):
        reject("what the leaves are")
    inner = place.this.unnest()
    if type(inner) is not exp.Sub or type(inner.expression) is not exp.Cast:
        reject("what the leaves are")
    low, width = whole_constant(inner.expression.this), whole_constant(place.expression)
    value = inner.this.name
    if not is_column(inner.this, "r", value) or value not in row or width < 1:
        reject("what the leaves are")
    whole_kind(inner.expression, {})
    whole_kind(row[value], {})  # of reals // is no floor, and NaN is in no leaf
    least, most = span_of(row[value], frozenset())
    if not low <= least <= most < low + (1 << 62):
        reject("what the leaves are")
    if (int(most) - low) // width >= held:  # the cast would fail on somebody's row
        reject("what the leaves are")
    number = text_of(weight.this) if type(weight) is exp.Alias and weight.alias == "m0" else None
    if number is None:
        reject("a column that is not a sum")
    group = tree.args.get("group")
    by = group.expressions if group is not None and holds_only(group, {"expressions"}) else []
    if len(by) != len(keys) + 1 or not is_column(by[-1], "", "b") or not apart(["b", *row]):
        reject("what is grouped by")
    if not all(is_column(e, "r", k) for e, k in zip(by[:-1], keys, strict=True)):
        reject("what is grouped by")
    return value, (int(most) - low) // width + 1, number


def _known(tree: exp.Select, value: str) -> None:
    """Check that only rows with the value are counted."""
    if [is_known(term, "r", value) for term in filters(tree)] != [True]:
        reject("rows without a value")


_HELD = {1 << 8: exp.DataType.Type.UTINYINT, 1 << 16: exp.DataType.Type.USMALLINT}
"""How many leaves a kind of whole numbers holds, from 0 on."""
