"""`discreet demo`: the whole story in a few seconds."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discreet import data
from discreet.cli import output, story
from discreet.cli.story import Scene, exact_data, tell
from discreet.errors import SourceError

if TYPE_CHECKING:
    from discreet.session import Session


@click.command("demo", short_help="The whole story, on data that ships with the package.")
@click.option("--ledger", metavar="FILE", help="Keep the charges there; asked again, answers come from it.")
@click.option("--save", metavar="FOLDER", help="Only copy the two sample tables to a folder.")
def command(ledger: str | None, save: str | None) -> None:
    """Tell the whole story on data that ships with the package: ask, error bars, attack, budget."""
    if save is not None:
        _save(Path(save))
        return
    with ExitStack() as stack:
        if ledger is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-demo-"))
            ledger = str(Path(folder) / "demo.ledger")
            tell(
                "This demo keeps its ledger in a temporary file; `--ledger FILE` keeps it for you to look at."
            )
        scene = Scene(
            adults=stack.enter_context(closing(_adults(ledger, "demo-adults", budget=1))),
            clinic=stack.enter_context(closing(_clinic(ledger))),
            practice=stack.enter_context(closing(_adults(":memory:", "practice", budget=100))),
            exact=stack.enter_context(closing(exact_data())),
        )
        story.ask(scene)
        story.ask_about_visits(scene)
        story.attack(scene)
        story.average(scene)
        story.close(scene)


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
    for source in (data.adult(), data.clinic_visits()):
        target = folder / source.name
        if target.exists():
            raise SourceError(
                f"{target} is there already; it is left as it is.", hint="name another folder, or remove it"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise SourceError(
                f"{target} cannot be written: {error.strerror}.", hint="name another folder"
            ) from None
        output.say(f"{target}")
