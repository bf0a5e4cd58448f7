"""Our SQL runs only on connections with the settings on which its meaning rests: one function opens them all."""

from __future__ import annotations

import ast
from functools import cache

from tests.house.tree import ROOT, name_of, texts

OPENS = "src/discreet/backends/connection.py"

# Whoever opens a database of their own: why none of this package's SQL is evaluated there.
ALLOWED = {
    "tests/backends/test_connection.py": "shows the difference that the settings make",
    "tests/backends/test_frames.py": "the connection of a user, which is a source",
    "tests/query/test_spelling.py": "plain DuckDB, whose results are compared",
    "benchmarks/auto_bounds.py": "the analyst's exact results",
    "benchmarks/compared_peers.py": "runs where this package is not installed",
    "benchmarks/people.py": "writes a file",
    "benchmarks/query.py": "plain DuckDB, which is raced",
    "benchmarks/race.py": "plain DuckDB, which is raced",
    "benchmarks/tpch.py": "the analyst's exact results",
    "examples/make_sample_data.py": "writes files whose rows keep their order",
}

# What runs SQL without a connection that was opened for it, or opens one.
RUNS = {"connect", "execute", "executemany", "from_query", "query", "query_df", "sql", "table", "view"}


def opened(tree: ast.Module) -> list[int]:
    """Return the lines on which a tree opens a database by itself; to write a file with COPY is no evaluation."""
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "duckdb"
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "duckdb":
            found += [node.lineno for alias in node.names if alias.name in RUNS]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in RUNS
            and ast.unparse(node.func.value) in names
            and not _copies(node)
        ):
            found.append(node.lineno)
    return found


def _copies(call: ast.Call) -> bool:
    return bool(call.args) and ast.unparse(call.args[0]).lstrip("f\"'").startswith("COPY ")


@cache
def trees() -> dict[str, ast.Module]:
    """Return every Python file of the project that names the database, the benchmarks and the examples too."""
    read = {path: path.read_text(encoding="utf-8") for path in texts() if path.suffix == ".py"}
    return {name_of(path): ast.parse(text) for path, text in read.items() if "duckdb" in text}


def test_one_function_opens_every_database_on_which_our_sql_runs() -> None:
    found = {name: lines for name, tree in trees().items() if (lines := opened(tree))}
    assert list(found.pop(OPENS)) != []
    beside = {name: lines for name, lines in found.items() if name not in ALLOWED}
    assert beside == {}, "use discreet.backends.connection.open_database"


def test_the_list_of_exceptions_holds_no_file_that_needs_none() -> None:
    assert [name for name in ALLOWED if not (ROOT / name).is_file()] == []
    assert [name for name, tree in trees().items() if name in ALLOWED and not opened(tree)] == []


def test_a_database_that_is_opened_beside_it_is_seen() -> None:
    for text in (
        "import duckdb\nduckdb.connect()",
        "import duckdb as d\nd.sql('SELECT 1')",
        "import duckdb\nduckdb.connect('x').execute('COPY t TO 1')",
        "from duckdb import connect",
    ):
        assert opened(ast.parse(text)) != []
    assert opened(ast.parse("import duckdb\nduckdb.sql(f\"COPY (SELECT 1) TO '{x}'\")")) == []
