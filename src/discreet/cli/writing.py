"""Files that a command writes: what can be refused is refused before the work, and before the charge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli import output
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.engine.release import Release
    from discreet.plan.plan import Plan

_PAID = "The query is supported and paid for"


def check(option: str, file: str, used: Iterable[str] = ()) -> None:
    """Refuse a file in no folder, a folder, and a file that the command uses itself: its ledger, its data.

    Raises:
        InvalidParameter: what is wrong with the file that stands after the option.
    """
    here = Path(file).resolve()
    if not here.parent.is_dir():
        raise InvalidParameter(f"{option} {file}: there is no such folder.", hint="name another file")
    if here.is_dir():
        raise InvalidParameter(f"{option} {file} is a folder.", hint="name a file in it")
    for place in used:
        if _same(Path(place), here) or fnmatch(str(here), str(Path(place).resolve())):  # a source may be a glob
            raise InvalidParameter(
                f"{option} {file} would be written over {place}, which this command uses.", hint="name another file"
            )


def certificate(file: str, release: Release) -> None:
    """Write the proof of a release that has been paid for.

    Raises:
        InvalidParameter: the file cannot be written.
    """
    try:
        Path(file).write_text(json.dumps(release.certificate(), indent=1) + "\n", encoding="ascii")
    except OSError as error:
        raise InvalidParameter(
            f"--certificate {file} cannot be written: {error.strerror}. {_PAID}.",
            hint="ask it again with another file, which is free",
        ) from None


def check_picture(file: str, used: Iterable[str]) -> None:
    """Refuse a file that cannot be a picture or is in use, and a machine on which nothing can be drawn."""
    from discreet import plots

    plots.check(file)
    check("--plot", file, used)


def foresee_picture(plan: Plan) -> None:
    """Refuse a query whose result no picture has room for; planning it is free."""
    from discreet.plots.answers import columns, room

    if plan.stages is not None:  # its intervals follow from what is measured
        return
    keys, measures = columns(plan)
    room(len(keys), len(measures))


def picture(file: str, release: Release, confidence: float) -> None:
    """Write the picture of a result that has been printed."""
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
    output.remark(f"The result is drawn in {file}.")


def choice(file: str, plan: Plan, confidence: float, guesses: dict[str, Any]) -> None:
    """Write the picture of a plan's risk and errors.

    Raises:
        InvalidParameter: there is no such picture of this plan, or the file cannot be written.
    """
    from discreet import plots

    try:
        plots.save(plots.choice(plan, confidence=confidence, assuming=guesses or None), file)
    except OSError as error:
        raise InvalidParameter(
            f"--plot {file} cannot be written: {error.strerror}.", hint="name another file"
        ) from None
    output.remark(f"Risk and error are drawn in {file}.")


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by links too; the file need not be there yet."""
    try:
        return one.resolve() == other or (one.exists() and other.exists() and one.samefile(other))
    except OSError:  # such as the name of a URL, which is too long for a file
        return False
