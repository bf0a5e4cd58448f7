"""The decided question: the SQL to run, the noise for each column, and the cost. A value; nothing has been touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.accounting.filter import Charge
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, MissingBounds, UnknownColumn, UnsupportedQuery
from discreet.plan.bound import Bounding, bounded_sql, needs_secret, truncation_sql
from discreet.plan.check import check
from discreet.plan.cost import Allocation, Kind, allocate, sensitivity_of
from discreet.plan.expr import Expr, Mean
from discreet.plan.interval import MeanError, half_width
from discreet.plan.measure import UnitCount
from discreet.plan.question import Question, read_question
from discreet.plan.schema import TableSchema
from discreet.privacy.exact import Real, exact, positive, probability
from discreet.privacy.guarantee import words
from discreet.privacy.sensitivity import Sensitivity

_ONE_UNIT = Sensitivity(1, 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """A question that has been decided: free to look at, and nothing has been read or charged.

    Attributes:
        question: what is measured, and how the answer is made from it.
        identity: the same for the same question (decision 0001).
        epsilon, delta: what was asked to be spent at most.
        sql: what the database will run; `$secret` stands for the account's key.
        truncation: the SQL that counts units at a cap, when its report was asked for.
        sensitivities: of each integer column, exactly.
        allocation: noise, selection of groups, events and the guarantee to be charged.
    """

    question: Question
    identity: str
    epsilon: Fraction
    delta: Fraction
    sql: str
    truncation: str | None
    sensitivities: tuple[Sensitivity, ...]
    allocation: Allocation

    @property
    def cost(self) -> PrivacyLoss:
        """What running it will cost."""
        return PrivacyLoss(self.allocation.events)

    @property
    def charge(self) -> Charge:
        """What the ledger is asked to pay."""
        return Charge(self.allocation.events, self.allocation.guarantee)

    @property
    def columns(self) -> list[str]:
        """The names of the answer's columns."""
        return [n for n, _ in self.question.outer.columns]

    @property
    def needs_secret(self) -> bool:
        """Whether `sql` has the `$secret` parameter."""
        return needs_secret(bounding(self.question))

    def column(self, name: str) -> Expr:
        """An output column's expression, by its name.

        Raises:
            UnknownColumn: no output column is called that.
        """
        found = [e for n, e in self.question.outer.columns if n == name]
        if not found:
            raise UnknownColumn(
                f"The answer has no column {name!r}.", hint=f"its columns are: {', '.join(self.columns)}"
            )
        return found[0]

    def error(
        self, column: str, confidence: Real = Fraction(19, 20), *, assuming: Mapping[str, float] | None = None
    ) -> float:
        """The half-width t such that the noise moves the column by at most t with probability `confidence`.

        For counts, sums and what is affine in them it is known before the data. A mean's depends on how
        many rows it is over:
        give a public guess, `assuming={"rows": 10_000}` (the key is any name).

        Raises:
            InvalidParameter: a column whose error depends on the data, without an assumption that settles it.
        """
        expr, level = self.column(column), confidence_level(confidence)
        width = half_width(expr, self.allocation.noises, level)
        if width is not None:
            return width
        if isinstance(expr, Mean) and assuming:
            return MeanError(expr, self.allocation.noises).at(min(assuming.values()), level)
        what = (
            "how many rows it is over"
            if isinstance(expr, Mean)
            else "the values of the columns that it combines"
        )
        raise InvalidParameter(
            f"the error of {column!r} depends on {what}.",
            hint="for a mean, give a public guess: assuming={'rows': 10_000}; the release itself has an interval",
        )

    def explain(self) -> str:
        """The derivation in the textbook's terms, with the numbers of this question."""
        from discreet.plan.explain import explain

        return explain(self)

    def __str__(self) -> str:
        lines = [
            f"A plan that costs {words(self.allocation.guarantee.epsilon, self.allocation.guarantee.delta)}"
        ]
        for name, expr in self.question.outer.columns:
            width = half_width(expr, self.allocation.noises, Fraction(19, 20))
            if width is not None:
                lines.append(f"  {name}: ± {width:,.6g} at 95 %")
            elif isinstance(expr, Mean):
                example = MeanError(expr, self.allocation.noises).at(10_000, Fraction(19, 20))
                lines.append(f"  {name}: ± {example:,.6g} at 95 % if it is over 10,000 rows")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def make_plan(
    sql: str,
    tables: Sequence[TableSchema],
    *,
    population: str,
    version: str | None,
    epsilon: Real,
    delta: Real = 0,
    noise: str | None = None,
    truncation: Real = 0,
) -> Plan:
    """Decides a question.

    Args:
        sql: the question.
        tables: the connected private tables.
        population: whose account pays.
        version: the owner's public label of the data.
        epsilon: the ε to be spent at most, above 0.
        delta: the δ to be spent at most; 0 for pure ε.
        noise: "laplace" (the default) or "gaussian".
        truncation: the share of ε, below 1, spent on counting the units that exceed a cap; 0 for none.

    Raises:
        PlanError, InvalidParameter: see `discreet.errors`; nothing has been read or charged.
    """
    eps, dlt, kind, share = (
        positive("epsilon", epsilon),
        probability("delta", delta),
        _kind(noise),
        probability("truncation", truncation),
    )
    question = read_question(sql, tables)
    b = bounding(question)
    relation, groups = question.table.relation, question.keys.count
    sensitivities = tuple(
        sensitivity_of(m.span(b.max_rows), b.max_groups, groups, relation) for m in question.measures
    )
    reports = _reports(question, share)
    allocation = allocate(
        sensitivities,
        epsilon=eps,
        delta=dlt,
        kind=kind,
        select=(b.max_groups, relation) if groups is None else None,
        reports=reports,
        report_share=share,
    )
    text = bounded_sql(b)
    extra = truncation_sql(b) if reports else None
    identity = question.identity(
        population=population, version=version, epsilon=eps, delta=dlt, kind=kind, report_share=share
    )
    plan = Plan(question, identity, eps, dlt, text, extra, sensitivities, allocation)
    check(plan.sql, plan)
    return plan


def bounding(question: Question) -> Bounding:
    """The question as the writer of SQL takes it; where groups are selected privately, their units are counted last."""
    unit = question.table.unit
    if unit.max_groups is None or unit.max_rows is None:
        raise MissingBounds(
            "How much of the data one unit may add has not been said.",
            hint=f"dp.PrivacyUnit({unit.column!r}, max_groups=3, max_rows=10) lets it enter 3 groups, 10 rows in each",
        )
    groups = question.keys.count
    k = unit.max_groups if groups is None else min(unit.max_groups, groups)
    measures = question.measures if groups is not None else (*question.measures, UnitCount())
    return Bounding(question.table, question.where, question.keys, measures, k, unit.max_rows)


def confidence_level(confidence: Real) -> Fraction:
    """A confidence strictly between 0 and 1."""
    level = exact("confidence", confidence)
    if not 0 < level < 1:
        raise InvalidParameter(
            f"confidence must lie strictly between 0 and 1, not {confidence}.", hint="0.95, for instance"
        )
    return level


def _kind(noise: str | None) -> Kind:
    if noise is None:
        return Kind.LAPLACE
    try:
        return Kind(noise)
    except ValueError:
        raise InvalidParameter(f"noise must be 'laplace' or 'gaussian', not {noise!r}.") from None


def _reports(question: Question, share: Fraction) -> tuple[Sensitivity, ...]:
    """One unit is at a cap or not: it moves each of the two counts by at most 1, under either relation."""
    if share == 0:
        return ()
    if question.table.unit.is_row:
        raise UnsupportedQuery(
            "Each row is a unit of its own, so nothing is truncated.", hint="leave truncation out"
        )
    return (_ONE_UNIT, _ONE_UNIT)
