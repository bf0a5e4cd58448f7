"""Address of the documentation, in one place."""

from __future__ import annotations

SITE: str | None = None
"""Address of the hosted site; None while the pages are read in the repository, or built by `python -m docs.site`."""


def page(name: str) -> str:
    """Return where a page of the documentation is: its address, or its path where none is set.

    >>> page("sql-reference#aggregates")
    'docs/sql-reference.md#aggregates'
    """
    path, mark, anchor = name.partition("#")
    return f"docs/{path}.md{mark}{anchor}" if SITE is None else f"{SITE}/{path}.html{mark}{anchor}"
