"""The picture of an answer: what can be refused is refused before the question is paid for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discreet.cli import output, writing
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.engine.release import Release
    from discreet.plan.plan import Plan

_PAID = "The question is answered and paid for"


def check(file: str, used: Iterable[str]) -> None:
    """Refuse a file that cannot be a picture or is in use, and a machine on which nothing can be drawn."""
    from discreet import plots

    plots.check(file)
    writing.check("--plot", file, used)


def foresee(plan: Plan) -> None:
    """Refuse a question whose answer no picture has room for; planning it is free."""
    from discreet.plots.answers import columns, room

    if plan.stages is not None:  # its caps, and so its intervals, follow from its first stage
        return
    keys, measures = columns(plan.query)
    room(len(keys), len(measures))


def draw(release: Release, file: str, confidence: float) -> None:
    """Write the picture of an answer that has been printed."""
    from discreet import plots

    try:
        plots.save(plots.release(release, confidence=confidence), file)
    except InvalidParameter as error:
        raise InvalidParameter(f"--plot: {error.message} {_PAID}.", hint=error.hint) from None
    except OSError as error:
        raise InvalidParameter(
            f"--plot {file} cannot be written: {error.strerror}. {_PAID}.",
            hint="ask it again with another file, which is free",
        ) from None
    output.remark(f"The answer is drawn in {file}.")
