"""Connections have the settings on which the SQL's totality rests, in every version of DuckDB, or there are none."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from discreet.backends import connection
from discreet.backends.connection import open_database
from discreet.errors import SourceError

# An expression that two TRYs share: computed once outside both, its error would stop the query.
SHARED = "SELECT TRY(x * x + 1), TRY(x * x + 2) FROM (VALUES (9223372036854775807)) t(x)"


def test_an_error_that_two_expressions_share_is_null_in_both() -> None:
    with open_database() as database:
        assert database.execute(SHARED).fetchall() == [(None, None)]
    if duckdb.__version__ == "2.0.0":  # the oldest one needs the settings for this
        with duckdb.connect() as plain, pytest.raises(duckdb.OutOfRangeException):
            plain.execute(SHARED).fetchall()


def test_the_harmful_optimizers_of_this_version_are_off_for_the_connection_and_its_cursors() -> None:
    with open_database() as database:
        known = {n for (n,) in database.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
        for one in (database, database.cursor()):
            (off,) = one.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0]
            assert set(off.split(",")) == {"common_subexpressions", "projection_pullup"} & known


def test_no_connection_is_given_where_the_optimizer_has_another_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connection, "SHARES_ERRORS", "renamed_subexpressions")
    monkeypatch.setattr(connection, "_HARMFUL", ("renamed_subexpressions",))
    with pytest.raises(SourceError, match=r"has no optimizer 'renamed_subexpressions'"):
        open_database(tmp_path / "a.duckdb")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as free:  # it was closed: with other settings it would be refused
        assert free.execute("SELECT 1").fetchall() == [(1,)]


def test_an_optimizer_that_a_version_does_not_have_is_not_named_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_HARMFUL", (connection.SHARES_ERRORS, "of_a_later_version"))
    with open_database() as database:
        ((off,),) = database.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    assert off == "common_subexpressions"
