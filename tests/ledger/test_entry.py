from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.accounting.filter import Charge
from discreet.errors import LedgerCorrupt, LedgerError
from discreet.ledger.chain import GENESIS, canonical
from discreet.ledger.entry import (
    KINDS,
    AnalystCapped,
    Analysts,
    Begun,
    Charged,
    Closed,
    Content,
    Entry,
    Frozen,
    GroupCapped,
    Locked,
    Moved,
    Opened,
    People,
    PeopleCharged,
    Pinned,
    Rebudgeted,
    Released,
    Thawed,
    from_row,
    to_row,
)
from discreet.ledger.store import Row
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.unit import Relation

HALF, TINY = Fraction(1, 2), Fraction(1, 10**9)
EVENTS = Composed(
    [
        ApproximateEvent(HALF, TINY),
        (DiscreteLaplaceEvent(7, Fraction(100, 3)), 12),
        (GaussianEvent(HALF), 3),
        LaplaceEvent(HALF),
        ZCDPEvent(TINY),
        DiscreteGaussianEvent(2, HALF),
    ]
)
CONTENTS: list[Content] = [
    Opened(Budget(3, 1e-6, per_query=7), Relation.REPLACE, "zcdp", (HALF, TINY), "ab" * 32),
    Pinned("visits", {"columns": [["user_id", "BIGINT"], ["région", "VARCHAR"]]}),
    Charged("c0ffee", Charge(EVENTS, Approximate(HALF, TINY)), (HALF, TINY), {"sql": "SELECT 'ü', 1"}),
    Released("c0ffee", 3, {"rows": [[1, -2.5, None, "x"], []]}),
    Opened(
        None,
        Relation.ADD_REMOVE,
        "zcdp",
        None,
        "ab" * 32,
        People(Budget(3, 1e-6), "zcdp", (HALF, TINY)),
        Analysts.TOGETHER,
    ),
    Opened(Budget(1), Relation.ADD_REMOVE, "basic", (HALF, TINY), "ab" * 32, None, Analysts.APART),
    Charged("c0ffee", Charge(EVENTS, Approximate(HALF, TINY)), (HALF, TINY), {}, "ana"),
    Begun(3, 16),
    PeopleCharged(3, "cd" * 32),
    PeopleCharged(None, "cd" * 32),
    Rebudgeted(Budget(4), (HALF, TINY), "the board", "a second study"),
    Rebudgeted(Budget(4), (HALF, TINY), "the board", "a third study", signature="cd" * 64),
    Frozen("the board", "why"),
    Thawed("the board", "why not"),
    Closed("the board", "the end"),
    AnalystCapped("ana", "team", Budget(1), (HALF, TINY), "the board", "plan"),
    AnalystCapped("ben", None, Budget(1, per_query=HALF), (HALF, TINY), "the board", "plan"),
    GroupCapped("team", Budget(1), (HALF, TINY), "the board", "plan"),
    Moved("elsewhere.ledger", "ef" * 32, "the board", "a new server"),
    Locked(True, "ab" * 32, "the board", "no more accounts", signature="cd" * 64),
    Locked(False, None, "the board", "one more account"),
]


def row(content: Content, **changes: Any) -> Row:
    stored = to_row(Entry(5, "2026-11-21T01:02:03.004Z", "customers", content), GENESIS)
    body = {**json.loads(stored.body), **changes}
    return stored._replace(body=canonical({k: v for k, v in body.items() if v is not ...}))


@pytest.mark.parametrize("content", CONTENTS, ids=lambda c: c.kind)
def test_every_kind_reads_back_as_it_was(content: Content) -> None:
    entry = from_row(row(content))
    assert entry == Entry(5, "2026-11-21T01:02:03.004Z", "customers", content)
    assert to_row(entry, GENESIS) == row(content)


def test_every_kind_is_here_with_exactly_its_fields() -> None:
    assert {c.kind for c in CONTENTS} == KINDS.keys()
    for content in CONTENTS:
        assert KINDS[content.kind] is type(content)
        assert content.to_json().keys() | {"units"} == content.forms.keys() | {"units"}


@pytest.mark.parametrize("content", CONTENTS, ids=lambda c: c.kind)
def test_a_field_that_is_missing_or_new_is_noticed(content: Content) -> None:
    for name in content.to_json():
        with pytest.raises(LedgerCorrupt, match="entry 5"):
            from_row(row(content, **{name: ...}))
    with pytest.raises(LedgerError, match="unknown field 'future'"):
        from_row(row(content, future=None))


def test_the_stored_form_of_a_charge_is_the_documented_one() -> None:
    charge = Charge(Composed([(DiscreteLaplaceEvent(1, Fraction(2)), 2)]), Approximate(Fraction(1)))
    stored = row(Charged("q", charge, (Fraction(1), Fraction(0)), {"k": "v"}))
    assert stored.body == (
        '{"analyst":null,"delta":"0/1","epsilon":"1/1","events":[{"count":2,"event":"discrete-laplace","scale":"2/1","shift":1}],'
        '"kind":"charge","note":{"k":"v"},"population":"customers","question":"q","seq":5,"spent":["1/1","0/1"],'
        '"time":"2026-11-21T01:02:03.004Z","units":null}'
    )


@given(
    st.fractions(min_value=0, max_value=10**6),
    st.fractions(min_value=0, max_value=Fraction(1, 2)),
    st.lists(st.fractions(min_value=0), max_size=4),
    st.integers(min_value=1, max_value=10**9),
)
def test_amounts_are_kept_exactly(epsilon: Fraction, delta: Fraction, spent: list[Fraction], n: int) -> None:
    charge = Charge(Composed([(ApproximateEvent(epsilon, delta), n)]), Approximate(epsilon, delta))
    content = Charged("q", charge, tuple(spent), {})
    assert from_row(row(content)).content == content


CHARGE = CONTENTS[2]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "per-unit"},
        {"kind": None},
        {"kind": ["charge"]},
        {"future": 1},
        {"units": "units_table"},
        {"units": False},
        {"events": [{"event": "quantum", "count": 1}]},
    ],
)
def test_what_another_version_wrote_is_refused_and_never_skipped(changes: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="another version of discreet wrote it") as caught:
        from_row(row(CHARGE, **changes))
    assert not isinstance(caught.value, LedgerCorrupt)


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 6},
        {"seq": True},
        {"seq": 5.0},
        {"population": "others"},
        {"population": 3},
        {"question": "beef"},
        {"time": 7},
        {"epsilon": "0.5"},
        {"epsilon": "2/4"},
        {"epsilon": "1/0"},
        {"epsilon": 0.5},
        {"spent": ["1/2", 0]},
        {"spent": None},
        {"note": []},
        {"events": {}},
        {"units": ...},
        {"question": ...},
    ],
)
def test_a_body_that_is_not_what_it_should_be_is_damage(changes: dict[str, Any]) -> None:
    with pytest.raises(LedgerCorrupt, match="entry 5"):
        from_row(row(CHARGE, **changes))


@pytest.mark.parametrize(
    "change", [lambda r: r._replace(key="x"), lambda r: r._replace(kind="release"), lambda r: r._replace(seq=4)]
)
def test_columns_that_contradict_the_body_are_damage(change: Callable[[Row], Row]) -> None:
    with pytest.raises(LedgerCorrupt):
        from_row(change(row(CHARGE)))


def test_an_entry_shows_public_facts_and_only_those_of_its_kind() -> None:
    charge = from_row(row(CHARGE))
    assert (charge.kind, charge.question, charge.epsilon, charge.delta) == ("charge", "c0ffee", HALF, TINY)
    assert charge.note == {"sql": "SELECT 'ü', 1"}
    release = replace(charge, content=CONTENTS[3])
    assert (release.kind, release.question, release.epsilon, release.delta, release.note) == (
        "release",
        "c0ffee",
        None,
        None,
        {},
    )
