"""Sandbox for outer queries: a text of the user's own over noisy and public tables, and nothing else.

Guarantee:
    What a run gives is a function of the text and of these tables: no other table, file, variable, clock or source of
    randomness is read. The connection is locked (`open_sandbox`), and the text is read by the database's own parser
    before it runs: by an allow-list of the kinds of node, tables and functions. So it is post-processing. It runs in a
    process of its own, so that what a text uses up of memory, or makes fail, takes nothing else down: the database's
    own limit of memory does not hold for texts, of which `replace(s, 'a', s)`, three times over, makes a thousand
    gigabytes. Where the operating system has limits of a process's memory (Linux), the process has one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import IO, Any, NamedTuple

import duckdb

from discreet.backends.connection import open_sandbox
from discreet.backends.source import identifier
from discreet.errors import BackendFailed, UnsupportedQuery

MEMORY = 3 << 30  # bytes that the process may have
LARGEST = 1 << 28  # bytes of a result, at most
_GRACE = 10  # seconds after which a process that is not interrupted is ended
_KEPT = 2  # processes that wait for the next query
_PROGRAM = "from discreet.backends.sandbox import serve; serve({})"


class SandboxRows(NamedTuple):
    """Result of a statement."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class SandboxProcess:
    """A child that runs statements in a database of its own (`open_sandbox`)."""

    def __init__(self) -> None:
        self._maker = os.getpid()
        self._child = subprocess.Popen(  # noqa: S603  # this interpreter, with a fixed program
            [sys.executable, "-P", "-c", _PROGRAM.format(MEMORY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},  # noqa: PTH109
        )

    @property
    def is_there(self) -> bool:
        """True where it can be asked: a fork of the process that made it cannot."""
        return self._maker == os.getpid() and self._child.poll() is None

    def reset(self, seconds: float) -> None:
        """Begin a new, empty database."""
        self._ask((None, [], seconds), seconds)

    def execute(self, sql: str, parameters: Sequence[Any] = (), *, seconds: float) -> SandboxRows:
        """Run a statement. Raises duckdb.Error: it fails, or takes too long or too much memory."""
        return self._ask((sql, list(parameters), seconds), seconds)

    def close(self) -> None:
        """End it."""
        if self._maker != os.getpid():
            self._child.returncode = 0  # another's child, of which nothing is to be waited for
            return
        self._child.kill()
        for pipe in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._child.wait()

    def _ask(self, request: Any, seconds: float) -> SandboxRows:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        alarm = threading.Timer(seconds + _GRACE, self._child.kill)
        alarm.start()
        try:
            pickle.dump(request, self._child.stdin, pickle.HIGHEST_PROTOCOL)
            self._child.stdin.flush()
            kind, *told = pickle.load(self._child.stdout)  # noqa: S301  # of our own program
        except (OSError, EOFError, pickle.UnpicklingError):
            self.close()
            raise duckdb.OutOfMemoryException("It took too much memory or time, and was ended.") from None
        except BaseException:
            self.close()  # between a question and its answer
            raise
        finally:
            alarm.cancel()
        if kind is not None:
            raise getattr(duckdb, kind, duckdb.Error)(*told)
        return SandboxRows(*told)


_idle: list[SandboxProcess] = []


@contextmanager
def borrowed(seconds: float) -> Iterator[SandboxProcess]:
    """Yield a process with an empty database, which nobody else has now.

    Raises:
        BackendFailed: no process can be started here.
    """
    process = None
    while _idle and process is None:
        with contextlib.suppress(IndexError):  # another thread took it
            process = _idle.pop()
        if process is not None and not process.is_there:
            process.close()
            process = None
    try:
        process = process or SandboxProcess()
        process.reset(seconds)
    except (OSError, TypeError, duckdb.Error):
        raise BackendFailed(
            "No process could be started for the query over results.",
            hint="it runs in a Python of its own: sys.executable has to be one",
        ) from None
    try:
        yield process
    finally:
        if process.is_there and len(_idle) < _KEPT:
            _idle.append(process)
        else:
            process.close()


@atexit.register
def _end() -> None:
    while _idle:
        _idle.pop().close()


def serve(memory: int) -> None:
    """Run statements from standard input until it ends; the program of the child."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    out = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123  # what is printed is no answer
        os.dup2(nowhere.fileno(), 1)
    _limit_memory(memory)
    connection = open_sandbox()
    while True:
        try:
            sql, given, seconds = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the parent
        except EOFError:
            os._exit(0)
        if sql is None:
            connection.close()
            connection = open_sandbox()
            _reply(out, None, [], [])
            continue
        alarm = threading.Timer(seconds, connection.interrupt)
        alarm.start()
        try:
            found = connection.execute(sql, given) if given else connection.execute(sql)
            told = pickle.dumps((None, [name for name, *_ in found.description or []], found.fetchall()))
            if len(told) > LARGEST:
                raise duckdb.OutOfMemoryException(f"The result is larger than {LARGEST >> 20} MB.")
            out.write(told)
            out.flush()
        except MemoryError:
            _reply(out, "OutOfMemoryException", "It took too much memory.")
        except duckdb.Error as error:
            _reply(out, type(error).__name__, str(error))
        except Exception as error:  # a value that Python does not have, such as a date before its first
            _reply(out, "Error", f"A value of the result cannot be shown: {error}"[:300])
        finally:
            alarm.cancel()


def _reply(out: IO[bytes], *told: Any) -> None:
    pickle.dump(told, out)
    out.flush()


def _limit_memory(memory: int) -> None:
    try:
        import resource
    except ImportError:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


FAILURES = duckdb.Error  # the errors of a text that fails
SECONDS = 60  # time that an outer query may take, and all runs together that an interval is made of
Columns = Sequence[tuple[str, str]]  # the names of a table's columns and their types, as the database calls these


@dataclass(slots=True)
class Sandbox:
    """Tables of noisy and public values, over which a user's text runs (`open_tables`)."""

    process: SandboxProcess
    until: float
    tables: dict[str, Columns] = field(default_factory=dict)

    def fill(self, table: str, columns: Columns, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a table, in the place of those that it has."""
        name, shape = identifier(table), ", ".join(f"{identifier(n)} {kind}" for n, kind in columns)
        self._run(f"CREATE OR REPLACE TABLE main.{name} ({shape})")
        self.tables[table] = columns
        if rows:
            cells = ", ".join(f"unnest(${i}::{kind}[])" for i, (_, kind) in enumerate(columns, 1))
            self._run(f"INSERT INTO main.{name} SELECT {cells}", [list(c) for c in zip(*rows, strict=True)])

    def check(self, sql: str) -> None:
        """Refuse a text that reads anything but the tables that are here.

        Raises:
            UnsupportedQuery: the text does, or is no SELECT of the database.
        """
        ((told,),) = self._run("SELECT json_serialize_sql($1::VARCHAR)", [sql]).rows
        tree = json.loads(told)
        if tree.get("error") or len(tree["statements"]) != 1:
            raise UnsupportedQuery("The query over results is no SELECT that can be checked.", hint="write one SELECT")
        nodes = list(_nodes(tree))
        named = {n["key"] for n in nodes if "key" in n and "value" in n}
        tables = {name.lower() for name in (*self.tables, *named)}
        for node in nodes:
            _check_node(node, tables)

    def run(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and rows of a checked text.

        Raises:
            duckdb.Error: it fails, or takes too long or too much memory.
        """
        found = self._run(sql)
        return found.columns, [tuple(map(_plain, row)) for row in found.rows]

    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> SandboxRows:
        left = self.until - time.monotonic()
        if left <= 0:
            raise duckdb.InterruptException(f"It took more than {SECONDS} seconds.")
        return self.process.execute(sql, parameters, seconds=left)


@contextmanager
def open_tables(tables: Mapping[str, tuple[Columns, Sequence[Sequence[Any]]]]) -> Iterator[Sandbox]:
    """Open a sandbox that holds these tables, and close it."""
    with borrowed(SECONDS) as process:
        sandbox = Sandbox(process, time.monotonic() + SECONDS)
        for name, (columns, rows) in tables.items():
            sandbox.fill(name, columns, rows)
        yield sandbox


def rehearsed(sql: str, tables: Mapping[str, Columns], *, types: bool = False) -> list[str]:
    """Return the columns of an outer query, tried on empty tables before anything is charged; or their types.

    Raises:
        UnsupportedQuery: it cannot run, or reads anything else.
    """
    with open_tables({name: (columns, ()) for name, columns in tables.items()}) as sandbox:
        try:
            sandbox.check(sql)
            columns, _ = sandbox.run(sql)
            columns = [str(row[1]) for row in sandbox.run(f"DESCRIBE {sql}")[1]] if types else columns
        except duckdb.Error as error:
            raise UnsupportedQuery(
                f"The query over results cannot run: {_first_line(error)}", hint="correct it; nothing was charged"
            ) from None
    return columns


@contextmanager
def naming_failures() -> Iterator[None]:
    """Name what fails in an outer query over noisy tables, which were paid for and are kept.

    Raises:
        BackendFailed: it failed.
    """
    try:
        yield
    except duckdb.Error as error:
        raise BackendFailed(
            f"The query over the noisy results failed: {_first_line(error)} The results are kept, and their charge "
            "stands.",
            hint="correct what stands around the measured parts; the same parts are answered from the ledger, free",
        ) from None


def _first_line(error: duckdb.Error) -> str:
    line = str(error).partition("\n")[0][:300]
    return line if line.endswith((".", "!")) else f"{line}."


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a parsed text."""
    rest = [tree]
    while rest:
        found = rest.pop()
        if isinstance(found, dict):
            yield found
            rest += found.values()
        elif isinstance(found, list):
            rest += found


def _check_node(node: Mapping[str, Any], tables: Collection[str]) -> None:
    kind, group = node.get("type"), node.get("class")
    if node.get("sample") is not None:
        _refuse("A sample", "leave it out: it would draw rows at random")
    if group is not None and group not in _CLASSES:
        _refuse(f"An expression of the kind {str(group).lower()}", "write it in another way")
    if group is None and isinstance(kind, str) and kind not in _KINDS:
        _refuse(f"A part of the kind {kind.lower()}", "write one SELECT over the measured parts and public tables")
    if kind == "BASE_TABLE":
        name, place = node["table_name"], (node.get("catalog_name"), node.get("schema_name"))
        if any(place) or name.lower() not in tables:
            _refuse(f"The table {name!r:.60}", "it has no measured part and is not public")
    if kind == "COLUMN_REF" and len(node["column_names"]) == 1 and node["column_names"][0].lower() in _CLOCK:
        _refuse(node["column_names"][0].upper(), "write the moment that is meant: DATE '2026-01-31'")
    if "function_name" in node:
        name = node["function_name"]
        if node.get("schema") or node.get("catalog") or name.lower() not in _FUNCTIONS:
            _refuse(f"The function {name!r:.60}", "only functions whose value follows from their arguments are allowed")


def _refuse(what: str, hint: str) -> None:
    raise UnsupportedQuery(f"{what} is not supported in a query over results.", hint=hint)


_CLASSES = frozenset(
    {
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION"),
        *("LAMBDA", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW"),
    }
)
"""Kinds of expression."""

_KINDS = frozenset(
    {
        *("SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE"),
        *("BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST"),
        *("ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"),
        *("ORDER_DEFAULT", "ASCENDING", "DESCENDING"),
    }
)
"""Kinds of query, of what FROM names, and of clauses."""

_CLOCK = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""Names that read the clock where no column is called so."""

_FUNCTIONS = frozenset(
    """
    !~~ !~~* % & && ** * + - ->> / // << <-> <@ >> @ @> ^ ^@ | || ~ ~~ ~~* ~~~ add divide multiply subtract xor

    abs acos acosh asin asinh atan atan2 atanh binom bit_count cbrt ceil ceiling cos cosh cot degrees even exp factorial
    fdiv floor fmod gamma gcd greatest greatest_common_divisor hash if isfinite isinf isnan lcm least
    least_common_multiple lgamma ln log log10 log2 mod nextafter nullif pi pow power radians round round_even
    roundbankers sign signbit sin sinh sqrt tan tanh trunc typeof

    array_to_string ascii base64 bin bit_length char_length character_length chr concat concat_ws contains
    damerau_levenshtein decode editdist3 encode ends_with format_bytes from_base64 from_hex hamming hex ilike_escape
    instr jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme len length length_grapheme
    levenshtein like_escape lower ltrim md5 mismatches nfc_normalize not_ilike_escape not_like_escape octet_length ord
    overlay position prefix regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches
    regexp_replace regexp_split_to_array replace reverse right right_grapheme rtrim sha1 sha256 split split_part
    starts_with str_split str_split_regex string_split string_split_regex string_to_array strip_accents strlen strpos
    substr substring substring_grapheme suffix to_base to_base64 to_binary to_hex translate trim ucase unbin unhex
    unicode upper url_decode url_encode

    century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth
    dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era hour isodow isoyear julian last_day
    make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns microsecond millennium millisecond minute
    month monthname nanosecond quarter second strftime strptime time_bucket to_centuries to_days to_decades to_hours
    to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
    to_years try_strptime week weekday weekofyear year yearweek

    apply array_apply array_cat array_concat array_contains array_distinct array_extract array_filter array_has
    array_has_all array_has_any array_indexof array_intersect array_length array_position array_reduce
    array_reverse_sort array_select array_slice array_sort array_transform array_unique array_value array_where
    array_zip cardinality element_at filter flatten grade_up list_append list_apply list_avg list_cat list_concat
    list_contains list_count list_cosine_similarity list_distance list_distinct list_dot_product list_element
    list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any list_indexof
    list_inner_product list_intersect list_last list_max list_median list_min list_pack list_position list_prepend
    list_reduce list_reverse list_reverse_sort list_select list_slice list_sort list_sum list_transform list_unique
    list_value list_where list_zip map map_concat map_contains map_entries map_extract map_extract_value
    map_from_entries map_keys map_values reduce row struct_concat struct_extract struct_insert struct_keys struct_pack
    struct_values

    array_to_json from_json json_array json_array_length json_contains json_exists json_extract json_extract_string
    json_keys json_merge_patch json_object json_quote json_structure json_transform json_type json_valid json_value
    row_to_json to_json

    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_min arg_min_null
    argmax argmin array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count count_if count_star countif
    covar_pop covar_samp entropy favg first fsum geomean geometric_mean group_concat histogram kahan_sum kurtosis
    kurtosis_pop last list listagg mad max max_by mean median min min_by mode product quantile quantile_cont
    quantile_disc sem skewness stddev stddev_pop stddev_samp string_agg sum sum_no_overflow sumkahan var_pop
    var_samp variance wavg weighted_avg

    cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank rank_dense row_number
    """.split()  # noqa: SIM905  # words are read more easily than a list of literals
) | {f"regr_{name}" for name in ("avgx", "avgy", "count", "intercept", "r2", "slope", "sxx", "sxy", "syy")}
"""Functions whose value follows from their arguments. What the catalog calls consistent is no such list: it has
functions that take a query, a function or a type as a text, and read the clock or chance by it.
"""
