"""The program with a ledger in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Call
from tests.postgres import Server

COUNT = "SELECT COUNT(*) AS n FROM adult WHERE age > 30"


def test_a_url_is_a_ledger_for_every_command_and_its_password_is_never_printed(
    samples: Path, call: Call, postgres: Server
) -> None:
    url = postgres.url().replace("postgres@", "postgres:geheim@")
    said = [call("ledger", "verify", url)]
    assert "there is no ledger at" in said[0].stderr
    ask = ["sql", "adult.parquet", COUNT, "--epsilon", "1", "--each-row", "--ledger", url]
    said += [call(*ask, "--budget", "3"), call(*ask), call("plan", *ask[1:])]
    said += [call("budget", url, "--history"), call("ledger", "verify", url), call("ledger", "head", url)]
    said += [call("ledger", "export", url), call("ledger", "transfer", url, "new.ledger", "--by", "a", "--reason", "b")]
    assert [one.exit_code for one in said] == [4, *[0] * (len(said) - 1)]
    assert said[1].stdout == said[2].stdout
    assert "Answered from the ledger" in said[2].stderr
    said += [call("ledger", "verify", "new.ledger"), call(*ask)]
    assert said[-2].exit_code == 0
    said += [
        call("budget", url, "--population", "nobody"),
        call(*ask[:3], "--each-row", "--ledger", url, "--budget", "1"),
    ]
    assert said[-2].exit_code != 0
    shown = "".join(one.stdout + one.stderr for one in said)
    assert "postgresql://postgres@127.0.0.1" in shown
    assert "geheim" not in shown
