"""`discreet demo`: a tour in a few seconds, scene by scene."""

from __future__ import annotations

import math
import shutil
import tempfile
import textwrap
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet import data
from discreet.cli import output
from discreet.cli.answers import as_table
from discreet.cli.output import spelled, spent
from discreet.errors import BudgetExceeded, SourceError
from discreet.pages import page
from discreet.table import render

if TYPE_CHECKING:
    import duckdb

    from discreet.engine.session import Session

WIDTH = 92


@click.command("demo", short_help="Tour on sample data: results, an attack, a budget.")
@click.option("--ledger", metavar="FILE", help="File for the demo's ledger; a second run returns the stored releases.")
@click.option("--save", metavar="FOLDER", help="Folder for copies of the sample tables; nothing else is done.")
def command(ledger: str | None, save: str | None) -> None:
    """Run a tour on sample data: results with confidence intervals, an attack that fails, a budget that ends."""
    if save is not None:
        _save(Path(save))
        return
    with ExitStack() as stack:
        if ledger is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-demo-"))
            ledger = str(Path(folder) / "demo.ledger")
            tell("This demo keeps its ledger in a temporary file; `--ledger FILE` keeps it for you to look at.")
        scene = Scene(
            adults=stack.enter_context(closing(_adults(ledger, "demo-adults", budget=1))),
            clinic=stack.enter_context(closing(_clinic(ledger))),
            practice=stack.enter_context(closing(_adults(":memory:", "practice", budget=100))),
            exact=stack.enter_context(closing(exact_data())),
        )
        ask(scene)
        ask_about_visits(scene)
        attack(scene)
        average(scene)
        close(scene)


def _adults(ledger: str, population: str, *, budget: int) -> Session:
    import discreet as dp

    return dp.connect(
        data.adult(),
        unit=dp.PrivacyUnit.row(),
        columns={
            "age": dp.Range(17, 90),
            "hours": dp.Range(1, 99),
            "workclass": dp.Values(
                "Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Self-emp-inc", "Federal-gov"
            ),
        },
        budget=dp.Budget(budget),
        population=population,
        ledger=ledger,
    )


def _clinic(ledger: str) -> Session:
    import discreet as dp

    return dp.connect(
        data.clinic_visits(),
        unit=dp.PrivacyUnit("person_id", max_groups=2, max_rows=10),
        columns={
            "cost": dp.Range(0, 2000),
            "ward": dp.Values("emergency", "maternity", "cardiology", "oncology", "surgery"),
        },
        budget=dp.Budget(3),
        population="demo-patients",
        ledger=ledger,
    )


def _save(folder: Path) -> None:
    targets = {source: folder / source.name for source in data.tables()}
    there = [target for target in targets.values() if target.exists()]
    if there:
        raise SourceError(
            f"{there[0]} exists already; nothing was copied.", hint="name another folder, or remove the file"
        )
    for source, target in targets.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise SourceError(f"{target} cannot be written: {error.strerror}.", hint="name another folder") from None
        output.say(f"{target}")


@dataclass(frozen=True, slots=True)
class Scene:
    """What every part of the story works with.

    Attributes:
        adults: the people of the census survey, one row each, with a budget of ε = 1.
        clinic: the people of the clinic, many rows each.
        practice: the same adults under a throw-away account, to show odds that one attempt cannot show.
        exact: the data as it is, to compare with; no analyst has it.
    """

    adults: Session
    clinic: Session
    practice: Session
    exact: duckdb.DuckDBPyConnection

    def truth(self, query: str) -> list[tuple[Any, ...]]:
        """Return the exact result, which an analyst never sees."""
        return self.exact.execute(query).fetchall()


def heading(number: int, title: str) -> None:
    """Begin a part of the story."""
    click.secho(f"\n{number}. {title}\n", bold=True)


def tell(text: str) -> None:
    """Say something in plain sentences."""
    output.say(textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False) + "\n")


def show(text: str) -> None:
    """Show a query, a table or a message, set in."""
    output.say(textwrap.indent(text, "    ") + "\n")


def exact_data() -> duckdb.DuckDBPyConnection:
    """Both sample tables as they are, for comparison."""
    from discreet.backends.connection import open_database

    database = open_database()
    for path in (data.adult(), data.clinic_visits()):
        database.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM read_parquet('{_quoted(path)}')")
    return database


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


BY_WORK = """\
SELECT workclass, COUNT(*) AS people, AVG(hours) AS hours
FROM adult
GROUP BY workclass
ORDER BY people DESC"""

BY_WARD = """\
SELECT ward, COUNT(DISTINCT person_id) AS people, SUM(cost) AS cost
FROM clinic_visits
GROUP BY ward
ORDER BY cost DESC"""


def ask(scene: Scene) -> None:
    """Ask about one row per person; show its intervals, and how many of them hold the exact number."""
    heading(1, "Ask a query")
    tell(
        """The table has 32,561 people from the US census survey of 1994, one row each. Noise is
        added to every number so that no individual can be identified, and the ± is the margin of
        error of each number."""
    )
    show(BY_WORK)
    release = scene.adults.sql(BY_WORK, epsilon="0.3")
    show(as_table(release))
    exact = {work: values for work, *values in scene.truth(BY_WORK)}
    hits = shown = 0
    for name, at in (("people", 0), ("hours", 1)):
        for row, interval in zip(release.rows, release.interval(name, confidence=0.95), strict=True):
            if interval is not None:
                shown += 1
                hits += interval[0] <= exact[row[0]][at] <= interval[1]
    tell(
        f"""It cost ε = 0.3 of these people's budget of 1. The demo, unlike an analyst, may look:
        {hits} of the {shown} intervals hold the exact number, and on average 95 in 100 do."""
    )


def ask_about_visits(scene: Scene) -> None:
    """Ask about many rows per person, with caps that the engine enforces."""
    heading(2, "People with many rows")
    tell(
        """This table has a year of visits to a clinic, of 3,000 invented people; one of them came
        210 times. The whole person is protected, not the single visit: nobody enters more than 2
        wards or adds more than 10 visits of at most $2,000 to each, and the engine sees to it."""
    )
    show(BY_WARD)
    release = scene.clinic.sql(BY_WARD, epsilon="1")
    show(as_table(release))
    capped, exact = (sum(row[2] for row in rows) for rows in (release.rows, scene.truth(BY_WARD)))
    tell(
        f"""The caps have a price: what lies above them is not counted. These costs add up to
        ${capped / 1e6:.1f} million, and the true ones to ${exact / 1e6:.1f} million. Intervals are about the
        capped result; how to choose caps: {page("how-to/choose-bounds")}"""
    )


EPSILON = Fraction(1, 10)
ATTEMPTS = 40

EVERYONE = "SELECT COUNT(*) AS n FROM adult WHERE income = '>50K'"


def all_but(age: int) -> str:
    """Return the same count without one woman, of whom the attacker knows four things that anybody might know."""
    her = f"age = {age} AND education = 'Masters' AND occupation = 'Sales' AND sex = 'Female'"
    return f"{EVERYONE} AND NOT ({her})"


def attack(scene: Scene) -> None:
    """Attack one person: by exact results, by ours, and by ours again and again."""
    heading(3, "Attack one person")
    tell(
        """You know a 59-year-old saleswoman with a master's degree, and want to know whether she
        earns more than $50,000. You ask for two totals that look harmless and subtract them."""
    )
    show(EVERYONE + "\n\n" + all_but(59).replace(" AND NOT", "\n    AND NOT"))
    with_her, without = scene.truth(EVERYONE)[0][0], scene.truth(all_but(59))[0][0]
    tell(
        f"""Exact results give her away: {with_her:,} − {without:,} = {with_her - without}, so she
        does. Any database that answers exactly does this, however many people each total counts."""
    )
    noisy_with = scene.adults.sql(EVERYONE, epsilon=EPSILON).rows[0][0]
    noisy_without = scene.adults.sql(all_but(59), epsilon=EPSILON).rows[0][0]
    show(
        render(
            ["", "with her", "without her", "difference"],
            [
                ["exact", f"{with_her:,}", f"{without:,}", f"{with_her - without:,}"],
                ["private", f"{noisy_with:,}", f"{noisy_without:,}", f"{noisy_with - noisy_without:,}"],
            ],
        )
    )
    yes, no = (_guesses(scene, age) for age in (59, 58))
    total = float(2 * EPSILON)
    tell(
        f"""Private results tell next to nothing. In {ATTEMPTS} further attempts on a practice account, the
        difference said "she does" {yes} times about her, and {no} times about her colleague of 58,
        who does not."""
    )
    tell(
        f"""That is the promise. Two results at ε = 0.1 make ε = {total:g} together, so whoever
        starts from an even chance ends, by the best use of them, at most at {
            math.exp(total) / (1 + math.exp(total)):.0%}."""
    )


def _guesses(scene: Scene, age: int) -> int:
    """How often the difference of two private totals lies nearer to 1 than to 0, each time with new noise."""
    count = 0
    for _ in range(ATTEMPTS):
        first, second = (
            scene.practice.sql(query, epsilon=EPSILON, fresh=True).rows[0][0] for query in (EVERYONE, all_but(age))
        )
        count += first - second >= 1
    return count


ONE_WORDING = Fraction(1, 20)
AGAIN = 100
MOST = 100  # wordings; the budget is for far fewer


def reworded(i: int) -> str:
    """How many are 40 or older, in the i-th of endlessly many wordings."""
    condition = "age >= 40" if i == 0 else f"age + {i} >= {40 + i}"
    return f"SELECT COUNT(*) AS n FROM adult WHERE {condition}"


def average(scene: Scene) -> None:
    """Averaging away the noise, stopped; and the same query again, free."""
    heading(4, "Average the noise away")
    tell(
        """Noise averages out, so ask one query in many wordings: how many people are at least
        40? Every new wording draws new noise, and every one is charged to the same people."""
    )
    show(f"{reworded(0)}\n{reworded(1)}\n{reworded(2)}\n…")
    answers: list[int] = []
    refusal = ""
    while not refusal and len(answers) < MOST:
        try:
            answers.append(scene.adults.sql(reworded(len(answers)), epsilon=ONE_WORDING).rows[0][0])
        except BudgetExceeded as error:
            refusal = error.message
    exact = scene.truth(reworded(0))[0][0]
    off = abs(sum(answers) / len(answers) - exact)
    tell(f"After {len(answers)} results at ε = 0.05, whose average is {off:,.0f} off, the ledger refuses:")
    show(refusal)
    tell(
        """No file name, new session, second process or other analyst gets round it, since the
        account belongs to the people, not to the file. But the query that was asked before may
        be asked for ever:"""
    )
    same = [scene.adults.sql(reworded(0), epsilon=ONE_WORDING) for _ in range(AGAIN)]
    distinct = {release.rows[0][0] for release in same}
    free = all(release.stored for release in same)
    show(
        f"asked {AGAIN} times more: {len(distinct)} result, {answers[0]:,}, {'each time free' if free else 'not free'}"
    )


def close(scene: Scene) -> None:
    """Show the accounts at the end."""
    heading(5, "What is left")
    tell(
        """Every charge was written to the ledger before the data was read, in a chain of hashes
        that shows any later change. A population's promise is its budget, which never resets."""
    )
    rows = [_row(session) for session in (scene.adults, scene.clinic)]
    show(render(["population", "queries charged", "spent", "left"], rows))
    tell(
        """Now ask your own: `discreet demo --save .` copies the sample tables here, and `discreet sql --help`
        shows how."""
    )


def _row(session: Session) -> list[str | None]:
    charged = sum(entry.kind == "charge" for entry in session.history())
    used = spent(session.spent, session.budget)
    return [session.population, str(charged), spelled(used), spelled(session.remaining)]
