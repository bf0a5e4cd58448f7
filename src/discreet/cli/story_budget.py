"""The demo's last part: what is spent, what is left, and where to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.cli.budgets import spelled, spent
from discreet.cli.story import Scene, heading, show, tell
from discreet.table import render

if TYPE_CHECKING:
    from discreet.session import Session


def close(scene: Scene) -> None:
    """The accounts at the end."""
    heading(5, "What is left")
    tell(
        """Every charge was written to the ledger before the data was read, in a chain of hashes
        that shows any later change. A population's promise is its budget, for life."""
    )
    rows = [_row(session) for session in (scene.adults, scene.clinic)]
    show(render(["population", "questions charged", "spent", "left"], rows))
    tell(
        """Now ask your own: `discreet demo --save .` copies the two tables here, and `discreet sql --help`
        shows how."""
    )


def _row(session: Session) -> list[str | None]:
    charged = sum(entry.kind == "charge" for entry in session.history())
    used = spent(session.spent, session.budget)
    return [session.population, str(charged), spelled(used), spelled(session.remaining)]
