"""Some of the combinations of options with a ledger in PostgreSQL."""

from __future__ import annotations

import pytest

from tests.exhaustive.test_options import CASES, Case, check_case, name_of
from tests.postgres import Server


@pytest.mark.parametrize("case", CASES[::12], ids=name_of)
def test_in_postgres_it_is_refused_and_not_charged_or_charged_and_answered_entirely(
    case: Case, postgres: Server
) -> None:
    check_case({**case, "store": "file"}, postgres.url())
