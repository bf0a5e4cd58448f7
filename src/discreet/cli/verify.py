"""`discreet verify`: does a release keep what its certificate says?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import click

from discreet.cli import output
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.verify.certificate.checker import Verdict


@click.command("verify", short_help="Check the certificate of a release, without the data.")
@click.argument("release")
@click.option("--ledger", metavar="FILE", help="Ledger, or its export, that must hold the release's entries.")
@click.option("--head", metavar="HASH", help="Published head that the ledger must contain.")
@click.option("--registry", is_flag=True, help="Output as entries of a registry of releases.")
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
def command(release: str, ledger: str | None, head: str | None, registry: bool, as_json: bool) -> None:
    """Check the certificate in the file RELEASE, step by step, and name the first step that does not hold.

    `release.certificate()` makes it. No data is needed, and neither planner nor session runs: what each person can add
    is read off the SQL again, and what the noise costs is computed again.

    Exit code 0 when every step holds, 2 when one does not.
    """
    if head is not None and ledger is None:
        raise InvalidParameter(
            "a head is looked for in a ledger, and none was given.", hint="--ledger FILE --head HASH"
        )
    from discreet.verify.certificate.checker import check

    document = _read(release)
    verdict = check(document, None if ledger is None else _lines(ledger), head=head)
    if registry and verdict.certificate is not None and verdict.ok:
        output.say_json(verdict.certificate.registry)
    elif as_json:
        output.say_json(_json(verdict))
    else:
        _say(verdict, compared=ledger is not None)
    if not verdict.ok:
        raise click.exceptions.Exit(2)


def _say(verdict: Verdict, *, compared: bool) -> None:
    from discreet.privacy.guarantee import words as price
    from discreet.verify.certificate.checker import words

    output.say("\n".join(words(verdict)))
    if not verdict.ok:
        output.say("\nThis release is NOT verified.")
        return
    output.say("")
    if verdict.declared:
        output.say(verdict.declared)
    for paid in () if verdict.certificate is None else verdict.certificate.prices:
        output.say(
            f"Verified: the release cost each unit of {paid.population!r} "
            f"{price(paid.cost.epsilon, paid.cost.delta)} ({paid.relation.value}), charged by entry {paid.entry}."
        )
    if not compared:
        output.say("No ledger was compared: whoever made the file could have made the entries up (--ledger FILE).")


def _json(verdict: Verdict) -> dict[str, Any]:
    return {
        "verified": verdict.ok,
        "holds": list(verdict.held),
        "broken": verdict.broken,
        "reason": verdict.reason or None,
    }


def _read(path: str) -> Any:
    """Return the JSON in a file; one that says a thing twice is refused, since readers take the first or the last."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise InvalidParameter(
            f"the file {path!r:.200} cannot be read.", hint="json.dump(release.certificate(), file) writes one"
        ) from None
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidParameter(
            f"the file {path!r:.200} is not the JSON of a certificate.",
            hint="json.dump(release.certificate(), file) writes one",
        ) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidParameter("a field stands twice in one object.")
    return found


def _no_number(text: str) -> Never:
    raise InvalidParameter(f"{text} is no number of JSON.")


def _lines(path: str) -> list[str]:
    """Return the lines of a ledger's export: of the file itself, where it is one."""
    from discreet.ledger.export import is_export
    from discreet.ledger.ledger import Ledger

    try:
        with Path(path).open(encoding="ascii") as file:
            first = file.readline(1000)
            if is_export(first):
                return [first, *file]
    except (OSError, ValueError):  # no text: a ledger's own file, or the address of a database
        pass
    with Ledger.existing(path) as book:
        return list(book.export())
