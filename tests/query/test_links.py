"""Links: joins along a further key hold the units equal too, where rows meet, and say so."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.schema import Reached
from discreet.errors import DiscreetError, InvalidParameter, UnknownColumn, UnsupportedQuery
from tests.query.relations import answered, data, database, exact, narrow, of_unit, planned, read, tables

LINKED = narrow(narrow(tables(), "orders", links=(Reached("day", "customers", "age"),)), "items", links=(
    Reached("quantity", "orders", "day"),
))  # fmt: skip

# each text; with the units held equal where {u} stands, it means the same
MEANT = [
    "SELECT COUNT(*) FROM orders o JOIN customers c ON o.day = c.age {u}",
    "SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON o.day = c.age {u}",
    "SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON o.day = c.age AND total > 1 {u}",
    "SELECT COUNT(*) FROM orders o FULL JOIN customers c ON o.day = c.age {u}",
    "SELECT COUNT(*) FROM orders o ANTI JOIN customers c ON o.day = c.age {u}",
    "SELECT COUNT(*) FROM orders o SEMI JOIN customers c ON o.day = c.age {u}",
    "SELECT COUNT(*) FROM orders o, customers c WHERE o.day = c.age AND total > 1 {u}",
    "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.age = o.day {u})",
    "SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.age = o.day AND c.id > 1 {u})",
    "SELECT COUNT(*) FROM orders o WHERE o.day IN (SELECT c.age FROM customers c WHERE c.id > 1 {u})",
    "SELECT COUNT(*) FROM orders o WHERE total > 3 OR o.day IN (SELECT c.age FROM customers c WHERE c.id > 1 {u})",
    "SELECT COUNT(*) FROM orders o WHERE o.day NOT IN (SELECT c.age FROM customers c WHERE c.id > 1 {u})",
    "SELECT SUM((SELECT COUNT(*) FROM orders o WHERE o.day = c.age {u})) FROM customers c",
    "SELECT COUNT(*) FROM (SELECT day, customer FROM orders) o JOIN customers c ON o.day = c.age {u}",
]


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("text", MEANT)
def test_a_link_holds_the_units_equal_where_rows_meet(text: str) -> None:
    question = read(text.format(u=""), LINKED)
    assert question.relation is not None
    assert len(question.relation.linked) == 1
    for seed in (1, 3):
        rows = data(seed)
        rows["customers"] = [(i, c, a if a is None else a // 9) for i, c, a in rows["customers"]]
        found = answered(question, db := database(rows))
        assert found == exact(text.format(u="AND o.customer = c.id"), db, question)
        alone = [
            answered(question, database(of_unit(rows, unit))).get((), [0.0])[0] for unit in range(6 if seed == 1 else 0)
        ]
        assert seed != 1 or sum(alone) == found.get((), [0.0])[0]


def test_a_link_leads_on_from_a_table_that_another_key_leads_to_a_unit() -> None:
    text = "SELECT COUNT(*) FROM items i JOIN orders o ON i.quantity = o.day"
    with pytest.raises(UnsupportedQuery):
        read(text)
    plan = planned(text, narrow(tables(3, 10), "items", links=(Reached("quantity", "orders", "day"),)))
    assert any(
        "is held equal too where rows meet on i.quantity = o.day, as its link declares." in n for n in plan.notes
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM (SELECT day FROM orders GROUP BY day) t",
        "SELECT COUNT(*) FROM (SELECT DISTINCT day FROM orders) t",
        "SELECT COUNT(*) FROM (SELECT rank() OVER (PARTITION BY day) r FROM orders) t",
        "SELECT COUNT(*) FROM (SELECT day FROM orders INTERSECT SELECT age FROM customers) t",
        "SELECT COUNT(*) FROM orders o JOIN customers c ON o.day < c.age",
        "SELECT COUNT(*) FROM orders o JOIN customers c ON o.day = c.age OR total > 1",
        "SELECT COUNT(*) FROM orders o JOIN customers c ON o.day + 1 = c.age",
        "SELECT COUNT(*) FROM orders o JOIN customers c ON o.day = c.id",
    ],
)
def test_a_link_is_for_equations_of_joins_alone(text: str) -> None:
    with pytest.raises(UnsupportedQuery):
        read(text, LINKED)


def test_the_refusal_of_a_join_says_the_link_to_declare() -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        read("SELECT COUNT(*) FROM orders o JOIN (SELECT id AS x, age FROM customers) c ON c.age = o.day")
    assert "links={'orders': 'day -> customers.age'}" in (caught.value.hint or "")
    with pytest.raises(UnsupportedQuery) as caught:
        read("SELECT COUNT(*) FROM orders o JOIN items i ON o.id = i.quantity")
    assert "links={'items': 'quantity -> orders.id'}" in (caught.value.hint or "")


SHOP = {
    "orders": pd.DataFrame({"id": [1], "person": [1], "visit": [1]}),
    "visits": pd.DataFrame({"id": [1], "person": [1], "place": ["a"]}),
    "places": pd.DataFrame({"place": ["a"]}),
}


def connected(**options: object) -> dp.Session:
    unit = dp.PrivacyUnit("person", max_groups=1, max_rows=3, tables=options.pop("tables", {}))  # type: ignore[arg-type]
    given = {"budget": dp.Budget(epsilon=1), "population": "p", "ledger": ":memory:", "public": ["places"], **options}
    return dp.connect(options.pop("source", SHOP), unit=unit, **given)  # type: ignore[arg-type]


def test_links_are_declared_at_connect() -> None:
    text = "SELECT COUNT(*) AS n FROM orders o JOIN visits v ON o.visit = v.id"
    with pytest.raises(UnsupportedQuery):
        connected().plan(text, epsilon=1)
    for links in ({"orders": "visit -> visits.id"}, {"Orders": ["visit -> visits.id", "id -> visits.person"]}):
        plan = connected(links=links).plan(text, epsilon=1)
        assert "'person' is held equal too where rows meet on o.visit = v.id" in plan.notes[0]


@pytest.mark.parametrize(
    ("links", "kind"),
    [
        ("orders", InvalidParameter),
        ({"orders": 3}, InvalidParameter),
        ({"orders": "visit"}, InvalidParameter),
        ({"orders": "visit -> nothing.id"}, UnknownColumn),
        ({"nothing": "visit -> visits.id"}, UnknownColumn),
        ({"orders": "visit -> visits.nothing"}, UnknownColumn),
        ({"orders": "nothing -> visits.id"}, UnknownColumn),
        ({"orders": "visit -> places.place"}, InvalidParameter),
        ({"orders": "visit -> visits.place"}, InvalidParameter),
    ],
)
def test_links_that_lead_nowhere_are_refused(links: object, kind: type[DiscreetError]) -> None:
    with pytest.raises(kind):
        connected(links=links)


def test_where_each_row_is_a_unit_nothing_is_linked() -> None:
    with pytest.raises(InvalidParameter, match="each row is a unit"):
        dp.connect(SHOP, unit=dp.PrivacyUnit.row(), links={"orders": "visit -> visits.id"}, population="p",
                   ledger=":memory:", budget=dp.Budget(epsilon=1))  # fmt: skip


def test_a_table_with_two_names_of_the_unit_needs_a_choice() -> None:
    source = {
        "a": pd.DataFrame({"subject": [1], "id": [2]}),
        "b": pd.DataFrame({"person": [1], "Subject": [2], "id": [3]}),
    }
    with pytest.raises(InvalidParameter, match="may hold the unit: 'person', as is said, and 'Subject', which"):
        dp.connect(source, unit=dp.PrivacyUnit("person", 1, 3, tables={"a": "subject"}), population="p",
                   ledger=":memory:", budget=dp.Budget(epsilon=1))  # fmt: skip
    for chosen in ("person", "Subject"):
        unit = dp.PrivacyUnit("person", 1, 3, tables={"a": "subject", "b": chosen})
        dp.connect(source, unit=unit, population="p", ledger=":memory:", budget=dp.Budget(epsilon=1))


@pytest.mark.parametrize("by_policy", [True, False])
def test_a_table_is_not_protected_by_another_id_where_it_has_the_persons(tmp_path: Path, by_policy: bool) -> None:
    frames = {"patients": pd.DataFrame({"patient_id": [1]}), "visits": pd.DataFrame({"patient_id": [1], "visit": [2]})}
    unit = dp.PrivacyUnit("patient_id", 1, 3, tables={"visits": "visit"})
    place = str(tmp_path / "policy.toml")
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    lines = [
        f'[table.{n}]\nsource = "{n}.csv"\nunit = "{u}"\n' for n, u in (("visits", "visit"), ("patients", "patient_id"))
    ]
    some = "[population.p]\nbudget = { epsilon = 1 }\n"
    for order in (lines, lines[::-1]):
        Path(place).write_text(some + "".join(order), encoding="utf-8")
        with pytest.raises(
            InvalidParameter, match="'visit', as is said, and 'patient_id', which holds it in table 'pa"
        ):
            if by_policy:
                dp.connect(place)
            else:
                dp.connect(frames, unit=unit, population="p", ledger=":memory:", budget=dp.Budget(epsilon=1))


def test_a_name_that_the_unit_has_elsewhere_is_proposed() -> None:
    source = {"a": pd.DataFrame({"subject": [1]}), "b": pd.DataFrame({"subject": [2]})}
    with pytest.raises(UnknownColumn) as caught:
        dp.connect(source, unit=dp.PrivacyUnit("person", 1, 3, tables={"a": "subject"}), population="p",
                   ledger=":memory:", budget=dp.Budget(epsilon=1))  # fmt: skip
    assert "tables={'b': 'subject'}" in (caught.value.hint or "")


def test_a_policy_declares_links_and_an_analyst_has_those_of_the_own_tables(tmp_path: Path) -> None:
    for name, frame in SHOP.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    people = 'population = "p"\nunit = "person"\nmax_groups = 1\nmax_rows = 3\n'
    place = tmp_path / "policy.toml"
    some = "budget = { epsilon = 1 }\n"
    place.write_text(
        f'[population.p]\nledger = "p.ledger"\n{some}'
        f'[table.orders]\nsource = "orders.csv"\nlinks = ["visit -> visits.id"]\n{people}'
        f'[table.visits]\nsource = "visits.csv"\n{people}'
        f'[analyst.all]\n{some}[analyst.some]\n{some}tables = ["orders"]\n'
    )
    text = "SELECT COUNT(*) AS n FROM orders o JOIN visits v ON o.visit = v.id"
    with dp.connect(str(place), analyst="all") as session:
        assert "as its link declares" in session.plan(text, epsilon=1).notes[0]
    with dp.connect(str(place), analyst="some") as session, pytest.raises(DiscreetError):
        session.plan(text, epsilon=1)
    with pytest.raises(InvalidParameter, match="links= is fixed by the policy"):
        dp.connect(str(place), analyst="all", links={"orders": "visit -> visits.id"})
