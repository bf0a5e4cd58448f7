"""Synthetic data sets as they are asked for: of a session's table, or of a data frame without a ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from discreet.catalog.schema import Fact, Range, TableSchema, Values, asked_table, refuse_undeclared
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, MissingBounds, NotPrivate
from discreet.privacy.exact import Real, count, positive, probability
from discreet.privacy.unit import Relation
from discreet.query.parse import columns_named
from discreet.synth.domain import SynthColumn, bias_of, read_columns
from discreet.synth.named import AimSynthesis, TreeSynthesis, WeightsSynthesis
from discreet.synth.recipe import AdaptiveSynthesis, Schedule, sigmas_of
from discreet.synth.released import Priced, frame_session
from discreet.synth.synthetic import Synthetic

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

METHODS: Mapping[str, type[AdaptiveSynthesis]] = {
    "adaptive": AdaptiveSynthesis,
    "independent": AdaptiveSynthesis,
    "mst": TreeSynthesis,
    "aim": AimSynthesis,
    "mwem": WeightsSynthesis,
}
"""Recipes by the names of methods."""

Workload: TypeAlias = str | Sequence[str] | Sequence[tuple[str, str]] | Mapping[tuple[str, str], int]
"""Pairs of columns, their weights, or SQL."""

BINS = 100  # the most bins of a range
COMPONENTS = 400  # product distributions of a mixture
MOST_CELLS = 2048  # the most cells that all columns have together: matrices have so many lines and columns
MOST_OF_PAIR = 1 << 16  # the most cells of a pair that is measured; larger pairs are not
MOST_WEIGHT = 100  # the largest weight of a pair in a workload


@dataclass(frozen=True, slots=True)
class AskedSynthesis:
    """A synthetic data set as it is asked for; `Session.synthesize` says what each argument is."""

    epsilon: Real | None = None
    delta: Real | None = None
    table: str | None = None
    columns: Sequence[str] | None = None
    workload: Workload | None = None
    label: str | None = None
    bins: int = BINS
    structural_zeros: Sequence[Mapping[str, Any]] = ()
    method: str = "adaptive"
    rows: int | None = None

    def recipe(self, tables: Sequence[TableSchema]) -> AdaptiveSynthesis:
        """Return the recipe over these tables.

        Raises:
            UnknownColumn: there is no such table or column.
            MissingBounds: nothing is declared of a column.
            InvalidParameter, NotPrivate: it cannot be made so; nothing was charged.
        """
        epsilon, delta = self._guarantee()
        source, columns, most = self.domain(tables)
        cells = sum(column.size for column in columns)
        if cells > MOST_CELLS:
            largest = max(columns, key=lambda column: column.size)
            raise InvalidParameter(
                f"the columns have {cells:,} values and bins in all, and at most {MOST_CELLS:,} are measured; "
                f"{largest.name!r} alone has {largest.size:,}.",
                hint=f"leave {largest.name!r} out, declare coarser values, or say fewer bins=",
            )
        pairs = self._pairs(columns) if self.method != "independent" else {}
        more: dict[str, Any] = {}
        if self.method == "mwem":
            if self.structural_zeros or {*pairs.values()} != {1}:
                raise InvalidParameter(
                    "method='mwem' weighs the cells of some pairs alike, and there are none, weights or zeros.",
                    hint="workload=[('age', 'income')], without label= and structural_zeros=",
                )
            more["public_rows"] = None if self.rows is None else count("rows", self.rows)
        elif self.rows is not None:
            raise InvalidParameter(
                f"rows= is for method='mwem', and the method is {self.method!r}.", hint="leave it out"
            )
        return METHODS[self.method](
            columns=columns,
            source=source,
            epsilon=epsilon,
            delta=delta,
            per_person=most,
            candidates=tuple(pairs),
            weights=tuple(pairs.values()),
            zeros=tuple(self._zero(columns, zero) for zero in self.structural_zeros),
            components=COMPONENTS if pairs else 1,
            **more,
        )

    def domain(self, tables: Sequence[TableSchema]) -> tuple[str, tuple[SynthColumn, ...], int]:
        """Return the name of the table, its columns, and how many rows of a person are read; raises as `recipe`."""
        own = self._table(tables)
        caps = own.unit.caps
        return own.name, self._columns(own), 1 if caps is None else caps[1]

    def _guarantee(self) -> tuple[Fraction, Fraction]:
        if self.method not in METHODS:
            raise InvalidParameter(f"method must be one of {', '.join(map(repr, METHODS))}, not {self.method!r:.60}.")
        if self.epsilon is None or self.delta is None:
            raise NotPrivate("The noise of these counts needs epsilon= and delta=.", hint="epsilon=1, delta=1e-6")
        epsilon, delta = positive("epsilon", self.epsilon), probability("delta", self.delta)
        if not delta:
            raise NotPrivate("Synthetic data are made with Gaussian noise, which needs a δ above 0.", hint="delta=1e-6")
        return epsilon, delta

    def _table(self, tables: Sequence[TableSchema]) -> TableSchema:
        hint = "make a table of their join in the source, with the person's column"
        own = asked_table(self.table, tables, ": several tables make no synthetic one", hint)
        if own.public:
            raise InvalidParameter(f"{own.name!r} is public: its rows may be used as they are.")
        return own

    def _columns(self, own: TableSchema) -> tuple[SynthColumn, ...]:
        if isinstance(self.columns, str):
            raise InvalidParameter("columns= is a list of columns.", hint="columns=['age', 'sex']")
        keys = {own.unit.column, own.reached.column if own.reached else None, *(link.column for link in own.links)}
        names = [n for n in own.columns if n not in keys] if self.columns is None else list(map(own.find, self.columns))
        if not names and not self.columns:
            raise MissingBounds(
                "Nothing is declared of any column to make rows of.",
                hint="columns={'age': dp.Range(LOW, HIGH)}, or dp.Values(…), when you connect",
            )
        if len(set(names)) < len(names):
            raise InvalidParameter("columns= names a column twice.", hint="columns=['age', 'sex']")
        refuse_undeclared(own, names, "; or leave them out")
        bins = count("bins", self.bins)
        return tuple(SynthColumn.of(name, own.facts[name], _type_of(own, name), bins) for name in names)

    def _pairs(self, columns: Sequence[SynthColumn]) -> dict[tuple[int, int], int]:
        """Return the weights of the pairs that may be measured."""
        names = [column.name for column in columns]
        weights = dict.fromkeys(combinations(range(len(columns)), 2), 1)
        if self.workload is not None:
            given = _weights_of(self.workload, columns)
            weights = {}
            for pair, weight in given.items():
                if len({*pair}) != 2 or not {*pair} <= {*names}:
                    raise InvalidParameter(
                        f"workload= has {pair!r:.60}, which is no pair of columns.", hint="workload=[('age', 'income')]"
                    )
                a, b = sorted(map(names.index, pair))
                weights[a, b] = count("a weight", weight)
            if any(weight > MOST_WEIGHT for weight in weights.values()):
                raise InvalidParameter(f"weights of pairs are whole numbers from 1 to {MOST_WEIGHT}.")
        if self.label is not None:
            if self.label not in names:
                raise InvalidParameter(f"label={self.label!r} is none of the columns.")
            at = names.index(self.label)
            weights = {pair: weight * 2 if at in pair else weight for pair, weight in weights.items()}
        return {(a, b): w for (a, b), w in weights.items() if columns[a].size * columns[b].size <= MOST_OF_PAIR}

    def _zero(self, columns: Sequence[SynthColumn], zero: Mapping[str, Any]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        names = [column.name for column in columns]
        unknown = [name for name in zero if name not in names]
        if unknown or not zero:
            raise InvalidParameter(
                "structural_zeros= has "
                + (f"{unknown[0]!r}, which is none of the columns." if unknown else "no column."),
                hint="structural_zeros=[{'age': (0, 14), 'married': True}]",
            )
        places = sorted(((names.index(name), value) for name, value in zero.items()), key=lambda pair: pair[0])
        return tuple((i, tuple(columns[i].whole_cells_of(value))) for i, value in places)


def _weights_of(workload: Workload, columns: Sequence[SynthColumn]) -> Mapping[tuple[str, str], int]:
    """Return pairs of columns and their weights, of pairs as they were given or of queries."""
    if isinstance(workload, Mapping):
        return workload
    listed = [workload] if isinstance(workload, str) else [*workload]
    if not listed:
        raise InvalidParameter(
            "workload= is empty.", hint="leave it out for all pairs, or workload=[('age', 'income')]"
        )
    if not all(isinstance(sql, str) for sql in listed):
        return dict.fromkeys(listed, 1)  # type: ignore[arg-type]  # what is no pair is refused later
    found: Counter[tuple[str, str]] = Counter()
    for sql in listed:
        read_columns(sql, columns)  # refuses what is no query over them
        named = {*columns_named(sql)}
        found.update(combinations([c.name for c in columns if c.name.lower() in named], 2))
    if not found:
        raise InvalidParameter(
            "no query of workload= names two columns, and each column is measured anyway.",
            hint="method='independent' measures columns alone",
        )
    return found


def _type_of(own: TableSchema, name: str) -> Type:
    """Return the type of a column's samples: its own, or of a text source what is declared."""
    fact, kind = own.facts[name], own.columns[name]
    if isinstance(fact, Values):
        return fact.type
    return kind if kind is not None and (kind.is_number or kind.is_moment) else fact.type


@dataclass(frozen=True, slots=True)
class SynthesisPlan(Priced):
    """A synthesis that has been decided, with its size: free, and nothing was read or charged.

    Attributes:
        plan: what is drawn, and its price.
        cells: how many cells all columns have.
        pairs: how many pairs are measured, of how many that could be.
        sigma: standard deviation of the noise of each cell of a column.
        pair_sigma: that of each cell of a pair; None where no pairs are measured.
        pair_error: expected number of rows that stand in a wrong cell of a pair of mean size; None as before.
        unmeasured: pairs that are too large to be measured.
        promise: a bound on the error, in words; empty where none is stated.
        bias: what is clamped, in words; empty where nothing is.
        memory: about how many bytes the fit needs.
        seconds: about how long the fit takes on one core.
    """

    plan: Plan
    cells: int
    pairs: tuple[int, int]
    sigma: float
    pair_sigma: float | None
    pair_error: float | None
    unmeasured: tuple[tuple[str, str], ...]
    memory: int
    seconds: float
    promise: str = ""
    bias: str = ""

    @classmethod
    def of(cls, recipe: AdaptiveSynthesis, plan: Plan) -> SynthesisPlan:
        """Return the plan of a recipe with its size."""
        sigmas = sigmas_of(plan)
        sizes, schedule = recipe.sizes, recipe.schedule
        sigma, n = sigmas.get("pair"), max(len(recipe.candidates), 1)
        mean = sum(sizes[a] * sizes[b] for a, b in recipe.candidates) / n
        names = [column.name for column in recipe.columns]
        large = [
            (names[a], names[b]) for a, b in combinations(range(len(sizes)), 2) if sizes[a] * sizes[b] > MOST_OF_PAIR
        ]
        cells = sum(sizes)
        return cls(
            plan=plan,
            cells=cells,
            pairs=(min(schedule.rounds * schedule.picks, len(recipe.candidates)), len(recipe.candidates)),
            sigma=sigmas["columns"] if "columns" in sigmas else sigmas["cell"],
            pair_sigma=sigma,
            pair_error=None if sigma is None else 0.4 * sigma * mean,  # half of √(2/π)·σ for each cell
            unmeasured=tuple(large),
            memory=8 * (6 * cells**2 + 10 * recipe.components * cells),
            seconds=_seconds(schedule, recipe.components, cells),
            promise=recipe.promise(plan, None),
            bias=bias_of(recipe.columns),
        )

    def without_outlook(self) -> SynthesisPlan:
        """Return the same, silent about accounts."""
        return replace(self, plan=replace(self.plan, left=None, outlook=""))

    def as_json(self) -> dict[str, Any]:
        """Return the plan's size and price as plain values."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "plan"}
        return {**said, "cost": self.price, "outlook": self.plan.outlook, "explanation": self.plan.explain()}

    def explain(self) -> str:
        """Return what is drawn, and what it costs, in sentences."""
        return f"{self}\n{self.plan.explain()}"

    def __str__(self) -> str:
        measured, of = self.pairs
        lines = [
            f"A synthesis that costs {self.price}",
            f"{self.cells:,} cells of columns, each with noise of σ = {self.sigma:.3g}.",
        ]
        if self.pair_sigma is not None and self.pair_error is not None:
            lines.append(
                f"{measured} of {of} pairs, each cell with noise of σ = {self.pair_sigma:.3g}: about "
                f"{self.pair_error:,.3g} rows in a wrong cell of a pair, and fewer where rare values are merged."
            )
        if self.unmeasured:
            shown = ", ".join(" × ".join(pair) for pair in self.unmeasured[:5])
            lines.append(
                f"{len(self.unmeasured)} pairs have over {MOST_OF_PAIR:,} cells and are not measured: {shown}."
            )
        lines += [said for said in (self.promise, self.bias) if said]
        lines.append(f"At most about {self.memory / 1e6:,.3g} MB and {self.seconds:,.2g} s on one core, plus the rows.")
        return "\n".join([*lines, *([self.plan.outlook] if self.plan.outlook else [])])

    __repr__ = __str__


def _seconds(schedule: Schedule, components: int, cells: int) -> float:
    """Return about how long all fits take."""
    steps = max(schedule.rounds - 1, 0) * schedule.steps + schedule.last
    return 0.2 + steps * components * cells * (4 * cells / 3e10 + 5e-8)


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Synthetic data of a data frame, without a ledger, by chosen pairs; each row is a person.

    Guarantee:
        (ε, δ)-DP for each row of the frame under `relation`, once for each fit; the caller accounts for it. The number
        of rows is private under add-remove.

    Attributes:
        epsilon: the ε to be spent.
        delta: the δ to be spent, above 0.
        workload: pairs of columns to be measured, or weights by pairs, or SQL whose columns are; None for all.
        label: a column whose pairs have twice the weight.
        bins: the most bins of a range.
        structural_zeros: combinations that never occur.
        relation: "add-remove", or "replace" where the number of rows is public.
    """

    epsilon: Real
    delta: Real
    workload: Any = None
    label: str | None = None
    bins: int = BINS
    structural_zeros: Sequence[Mapping[str, Any]] = field(default=())
    relation: str | Relation = "add-remove"
    _method: ClassVar[str] = "adaptive"

    def fit(self, frame: Any, domain: Mapping[str, Fact]) -> Synthetic:
        """Return a synthetic data set.

        Args:
            frame: a data frame (pandas, polars, pyarrow), or the path of a file.
            domain: what is declared of each column: `dp.Range` or `dp.Values`; other columns are not read.

        Raises:
            PlanError, InvalidParameter: it cannot be made so.
        """
        declared: Any = domain  # what came need not be what was annotated
        if not isinstance(declared, Mapping) or not all(isinstance(f, Range | Values) for f in declared.values()):
            raise MissingBounds(
                "domain= declares each column, which must not be read from the data.",
                hint="domain={'age': dp.Range(17, 90), 'sex': dp.Values('F', 'M')}",
            )
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "relation"}
        given = AskedSynthesis(**own, columns=[*domain], method=self._method)._guarantee()
        with frame_session(frame, domain, self.relation, *given) as session:
            found: Synthetic = session.synthesize(**own, columns=[*domain], method=self._method)
        return found.without_ledger()


class Independent(Adaptive):
    """Synthetic data of a data frame whose columns are independent: the floor for every other method.

    Guarantee:
        As `Adaptive`; all of the budget measures single columns.
    """

    _method = "independent"


class MST(Adaptive):
    """Synthetic data of a data frame by a tree of pairs: the method that won NIST's contest, for comparison.

    Guarantee:
        As `Adaptive`.

    References:
        McKenna, Miklau, Sheldon 2021, https://arxiv.org/abs/2108.04978; `TreeSynthesis` says what is done otherwise.
    """

    _method = "mst"


class AIM(Adaptive):
    """Synthetic data of a data frame by AIM's rounds of one pair, for comparison.

    Guarantee:
        As `Adaptive`.

    References:
        McKenna, Mullins, Sheldon, Miklau 2022, Algorithm 2, https://arxiv.org/abs/2201.12677. All draws are planned
        before the first, pairs are the candidates, rare values are merged, and a mixture is fitted in the place of a
        graphical model (`AimSynthesis`).
    """

    _method = "aim"


@dataclass(frozen=True, kw_only=True)
class MWEM(Adaptive):
    """Synthetic data of a data frame by multiplicative weights, with a bound on the error of every cell of a pair.

    It weighs every combination of values, of which there may be 65,536, and noise is Gaussian.

    Guarantee:
        As `Adaptive`. `SynthesisPlan.promise` and `report()` say the bound; with `rows` the plan has it already.

    Attributes:
        rows: the number of rows, where it is public; else a part of the budget measures it.

    References:
        Hardt, Ligett, McSherry 2012, Theorem 2.2, https://arxiv.org/abs/1012.4763.
    """

    _method = "mwem"
    rows: int | None = None
