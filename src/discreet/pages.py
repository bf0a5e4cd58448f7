"""Address of the documentation, in one place."""

from __future__ import annotations

SITE = "https://discreet.readthedocs.io/en/stable"


def page(name: str) -> str:
    """Return the address of a page of the documentation.

    >>> page("sql-reference")
    'https://discreet.readthedocs.io/en/stable/sql-reference.html'
    """
    path, mark, anchor = name.partition("#")
    return f"{SITE}/{path}.html{mark}{anchor}"
