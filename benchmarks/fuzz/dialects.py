"""How other databases spell what is answered in their spelling: templates as in `functions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.fuzz.functions import Language

_P, _B, _S, _K = "postgres", "bigquery", "snowflake", "spark"
_ALL = (_P, _B, _S, _K)
Spelled = tuple[tuple[str, ...], str, str, str]

_SPELLED: tuple[Spelled, ...] = (
    # numbers
    *((_ALL, k, op, f"({{{k}}} {op} {{{k}}})") for k in "ir" for op in "+-*"),
    *((_ALL, k, f, f"{f}({{{k}}})") for k in "ir" for f in ("ABS", "SIGN")),
    (_ALL, "i", "MOD", "MOD({w}, 3)"),
    (_ALL, "r", "ROUND digits", "ROUND({r}, 2)"),
    ((_B, _S, _K), "r", "ROUND", "ROUND({r})"),
    *((_ALL, "r", f, f"{f}({{n}})") for f in ("FLOOR", "CEIL", "SQRT", "LN", "EXP")),
    ((_P, _B, _S), "r", "TRUNC", "TRUNC({n})"),
    ((_P,), "i", "/ of whole numbers", "({w} / 2)"),
    ((_B, _S, _K), "r", "/", "({n} / {n})"),
    ((_P,), "r", "/", "(CAST({w} AS DOUBLE PRECISION) / {n})"),
    ((_P, _B), "i", "DIV", "DIV({w}, 2)"),
    ((_K,), "i", "DIV", "({w} DIV 2)"),
    ((_B,), "r", "SAFE_DIVIDE", "SAFE_DIVIDE({n}, {n})"),
    ((_P,), "r", "^", "({n} ^ 2)"),
    ((_B, _S, _K), "r", "POW", "POW({n}, 2)"),
    ((_P,), "r", "LOG", "LOG({n})"),
    ((_B, _K), "r", "LOG", "LOG({n})"),
    ((_B,), "r", "LOG of a base", "LOG({n}, 2)"),
    ((_P, _S, _K), "r", "LOG of a base", "LOG(2, {n})"),
    (_ALL, "i", "CAST AS whole", "CAST(FLOOR({r}) AS BIGINT)"),
    ((_P,), "r", "CAST AS number", "{w}::DOUBLE PRECISION"),
    ((_P,), "r", "numeric", "{w}::numeric"),
    ((_B,), "r", "CAST AS number", "CAST({w} AS FLOAT64)"),
    ((_B,), "r", "SAFE_CAST", "SAFE_CAST({t} AS FLOAT64)"),
    ((_S,), "r", "CAST AS number", "{w}::float"),
    ((_S,), "i", "number", "FLOOR({r})::number"),
    ((_K,), "r", "CAST AS number", "CAST({w} AS DOUBLE)"),
    # what takes any type
    *((_ALL, k, "COALESCE", f"COALESCE({{{k}}}, {{{k}}})") for k in "irtbds"),
    *((_ALL, k, "NULLIF", f"NULLIF({{{k}}}, {{{k}}})") for k in "irt"),
    *((_ALL, k, "CASE", f"CASE WHEN {{b}} THEN {{{k}}} ELSE {{{k}}} END") for k in "irtbd"),
    *(((_B, _K), k, "IF", f"IF({{b}}, {{{k}}}, {{{k}}})") for k in "irt"),
    *(((_S,), k, "IFF", f"IFF({{b}}, {{{k}}}, {{{k}}})") for k in "irt"),
    *(((_S, _K), k, "NVL", f"NVL({{{k}}}, {{{k}}})") for k in "irt"),
    *(((_S, _K), k, "NVL2", f"NVL2({{t}}, {{{k}}}, {{{k}}})") for k in "ir"),
    ((_S,), "i", "ZEROIFNULL", "ZEROIFNULL({w})"),
    *((_ALL, k, f, f"{f}({{{k}}}, {{{k}}})") for k in "ir" for f in ("LEAST", "GREATEST")),
    ((_S,), "i", "GREATEST_IGNORE_NULLS", "GREATEST_IGNORE_NULLS({w}, 3)"),
    # times
    *((_ALL, "i", "EXTRACT", f"EXTRACT({p} FROM {{m}})") for p in ("YEAR", "QUARTER", "MONTH", "DAY")),
    *((_ALL, "i", "EXTRACT of times", f"EXTRACT({p} FROM {{s}})") for p in ("HOUR", "MINUTE")),
    *(((_P,), "i", "EXTRACT", f"EXTRACT({p} FROM {{m}})") for p in ("dow", "isodow", "doy", "week")),
    *(((_B,), "i", "EXTRACT", f"EXTRACT({p} FROM {{m}})") for p in ("DAYOFWEEK", "DAYOFYEAR", "ISOWEEK")),
    ((_P, _S), "i", "DATE_PART", "DATE_PART('year', {m})"),
    *(((_S,), "i", f, f"{f}({{m}})") for f in ("DAYOFWEEK", "WEEKISO", "YEAR", "MONTH", "DAYOFYEAR")),
    *(((_K,), "i", f, f"{f}({{m}})") for f in ("DAYOFWEEK", "WEEKOFYEAR", "YEAR", "MONTH", "DAYOFYEAR")),
    *(((_P,), "s", "DATE_TRUNC", f"DATE_TRUNC('{u}', {{m}})") for u in ("month", "week", "hour")),
    *(((_B,), "d", "DATE_TRUNC", f"DATE_TRUNC({{d}}, {u})") for u in ("MONTH", "ISOWEEK", "WEEK(MONDAY)")),
    ((_B,), "s", "DATETIME_TRUNC", "DATETIME_TRUNC({s}, HOUR)"),
    *(((_S,), k, "DATE_TRUNC", f"DATE_TRUNC('month', {{{k}}})") for k in "ds"),
    ((_K,), "d", "TRUNC of dates", "TRUNC({d}, 'month')"),
    ((_K,), "s", "DATE_TRUNC", "DATE_TRUNC('MONTH', {s})"),
    ((_S, _K), "d", "TO_DATE", "TO_DATE('2024-01-31')"),
    ((_B, _S), "d", "DATE()", "DATE({s})"),
    (_ALL, "d", "CAST AS DATE", "CAST({s} AS DATE)"),
    # texts
    *((_ALL, "t", f, f"{f}({{t}})") for f in ("LOWER", "UPPER")),
    (_ALL, "t", "||", "({t} || {q})"),
    (_ALL, "t", "CONCAT", "CONCAT({t}, {q})"),
    (_ALL, "t", "SUBSTR", "SUBSTR({t}, 2, 3)"),
    ((_P,), "t", "SUBSTRING FROM", "SUBSTRING({t} FROM 2 FOR 3)"),
    ((_P, _S, _K), "t", "TRIM", "TRIM({t})"),
    (_ALL, "t", "LEFT", "LEFT({t}, 2)"),
    (_ALL, "t", "RIGHT", "RIGHT({t}, 2)"),
    (_ALL, "t", "REPLACE", "REPLACE({t}, 'a', 'bb')"),
    ((_P, _S, _K), "t", "CAST AS text", "CAST({w} AS TEXT)"),
    ((_B,), "t", "CAST AS text", "CAST({w} AS STRING)"),
    (_ALL, "i", "LENGTH", "LENGTH({t})"),
    ((_S,), "i", "LEN", "LEN({t})"),
    ((_P, _B), "i", "CHAR_LENGTH", "CHAR_LENGTH({t})"),
    ((_P,), "i", "POSITION", "POSITION('a' IN {t})"),
    ((_B,), "i", "STRPOS", "STRPOS({t}, 'a')"),
    ((_S,), "i", "CHARINDEX", "CHARINDEX('a', {t})"),
    # conditions
    *((_ALL, "b", op, f"({{{k}}} {op} {{{k}}})") for op in ("=", "<>", "<", "<=", ">", ">=") for k in "nnt"),
    *((_ALL, "b", op, f"({{b}} {op} {{b}})") for op in ("AND", "OR")),
    (_ALL, "b", "NOT", "(NOT {b})"),
    (_ALL, "b", "BETWEEN", "({n} BETWEEN {n} AND {n})"),
    (_ALL, "b", "IN", "({t} IN ({q}, {q}))"),
    (_ALL, "b", "IS NULL", "({t} IS NULL)"),
    (_ALL, "b", "IS TRUE", "({b} IS TRUE)"),
    (_ALL, "b", "dates", "({d} >= DATE '2023-06-01')"),
    (_ALL, "b", "LIKE", "({t} LIKE 'a%')"),
    (_ALL, "b", "NOT LIKE", "({t} NOT LIKE '%b_')"),
    ((_P, _S, _K), "b", "ILIKE", "({t} ILIKE 'A%')"),
    ((_B, _P), "b", "STARTS_WITH", "STARTS_WITH({t}, {q})"),
    ((_S, _K), "b", "STARTSWITH", "STARTSWITH({t}, {q})"),
    ((_S, _K), "b", "ENDSWITH", "ENDSWITH({t}, {q})"),
    ((_S, _K), "b", "CONTAINS", "CONTAINS({t}, {q})"),
    ((_B,), "b", "ENDS_WITH", "ENDS_WITH({t}, {q})"),
    ((_B, _K), "b", "text in double quotes", '({t} = "a")'),
    ((_K,), "b", "<=>", "({n} <=> {n})"),
    ((_K,), "b", "==", "({n} == {n})"),
    ((_S,), "b", "EQUAL_NULL", "EQUAL_NULL({w}, {w})"),
    ((_P, _S), "b", "IS DISTINCT FROM", "({w} IS DISTINCT FROM {w})"),
)  # fmt: skip
"""(dialects, letter of the result, name, template)."""

_AGGREGATES: tuple[Spelled, ...] = (
    (_ALL, "i", "COUNT", "COUNT(*)"),
    (_ALL, "i", "COUNT of x", "COUNT({x})"),
    (_ALL, "i", "COUNT DISTINCT", "COUNT(DISTINCT {x})"),
    *((_ALL, "r", f, f"{f}({{v}})") for f in ("SUM", "AVG", "MIN", "MAX")),
    *((_ALL, "r", f, f"{f}({{v}})") for f in ("STDDEV", "STDDEV_POP", "STDDEV_SAMP")),
    *((_ALL, "r", f, f"{f}({{v}})") for f in ("VAR_POP", "VAR_SAMP", "VARIANCE")),
    *((_ALL, "r", f, f"{f}({{v}}, {{v}})") for f in ("CORR", "COVAR_POP", "COVAR_SAMP")),
    ((_P, _S, _K), "r", "REGR_SLOPE", "REGR_SLOPE({v}, {v})"),
    (_ALL, "r", "SUM by COUNT", "SUM({u}) / COUNT(*)"),
    ((_B,), "i", "COUNTIF", "COUNTIF({b})"),
    ((_S, _K), "i", "COUNT_IF", "COUNT_IF({b})"),
    ((_P, _K), "i", "COUNT FILTER", "COUNT(*) FILTER (WHERE {b})"),
    ((_P, _K), "r", "SUM FILTER", "SUM({v}) FILTER (WHERE {b})"),
    ((_B,), "b", "LOGICAL_OR", "LOGICAL_OR({b})"),
    ((_B,), "b", "LOGICAL_AND", "LOGICAL_AND({b})"),
    ((_P, _K), "b", "BOOL_OR", "BOOL_OR({b})"),
    ((_P, _K), "b", "BOOL_AND", "BOOL_AND({b})"),
    ((_S,), "b", "BOOLOR_AGG", "BOOLOR_AGG({b})"),
    ((_S,), "b", "BOOLAND_AGG", "BOOLAND_AGG({b})"),
    ((_P, _S), "r", "PERCENTILE_CONT", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {v})"),
    ((_P, _S), "r", "PERCENTILE_DISC", "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY {v})"),
    ((_K,), "r", "PERCENTILE", "PERCENTILE({v}, 0.5)"),
    ((_S, _K), "r", "MEDIAN", "MEDIAN({v})"),
    (_ALL, "r", "contribution_bounds_per_group", "SUM({v}, contribution_bounds_per_group => (0, 1))"),
    (_ALL, "i", "contribution_bounds_per_group of COUNT", "COUNT(*, contribution_bounds_per_group => (0, 1))"),
)  # fmt: skip
"""`{x}` is any column, `{v}` a number with bounds, `{u}` such a real."""

_TIME = {
    "postgres": "TIMESTAMP '2024-02-29 13:45:59'",
    "bigquery": "DATETIME '2024-02-29 13:45:59'",
    "snowflake": "CAST('2024-02-29 13:45:59' AS TIMESTAMP)",
    "spark": "CAST('2024-02-29 13:45:59' AS TIMESTAMP_NTZ)",
}
_REAL = {"postgres": "DOUBLE PRECISION", "bigquery": "FLOAT64", "snowflake": "FLOAT", "spark": "DOUBLE"}
_TEXT = {"bigquery": "STRING"}


def _of(name: str) -> Language:
    templates: dict[str, list[tuple[str, str]]] = {letter: [] for letter in "irtbds"}
    for dialects, letter, construct, template in _SPELLED:
        if name in dialects:
            templates[letter].append((f"{name} {construct}", template))
    real, text = _REAL[name], _TEXT.get(name, "TEXT")
    written = {
        "i": ("0", "1", "2", "7"),
        "r": ("0.5", "2.25"),
        "t": ("'a'", "'b'", "''"),
        "q": ("'a'", "'b'", "'é'"),
        "b": ("TRUE", "FALSE"),
        "d": ("DATE '2024-02-29'", "DATE '1969-12-31'"),
        "s": (_TIME[name],),
    }
    casts = {
        "i": ("LENGTH({t})", "EXTRACT(YEAR FROM {d})", "EXTRACT(DAY FROM {s})", "CAST(FLOOR({r}) AS BIGINT)"),
        "r": (f"CAST({{i}} AS {real})",),
        "t": (f"CAST({{i}} AS {text})", f"CAST({{d}} AS {text})"),
        "b": ("({i} > 1)", "({r} < 1)", "({t} = 'a')", "({d} > DATE '2020-01-01')"),
        "d": ("CAST({s} AS DATE)",),
        "s": (),
    }
    aggregates = tuple((f"{name} {c}", t, k) for dialects, k, c, t in _AGGREGATES if name in dialects)
    one_sided = ("LEFT SEMI JOIN", "LEFT ANTI JOIN") * 12 if name == "spark" else ()
    joins = ("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", *one_sided)
    public = ("JOIN", "LEFT JOIN", "CROSS JOIN", *one_sided)
    spelled = {k: tuple(v) for k, v in templates.items()}
    return Language(name, spelled, written, casts, aggregates, joins, public)


LANGUAGES: Mapping[str, Language] = {name: _of(name) for name in _ALL}


def constructs() -> Iterable[str]:
    """Every spelling of another database that is in the grammar."""
    for language in LANGUAGES.values():
        for templates in language.templates.values():
            yield from (c for c, _ in templates)
        yield from (c for c, _, _ in language.aggregates)
