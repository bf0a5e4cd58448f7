"""Pages of the site: what hints and docstrings name is there, at the address that the project's metadata has."""

from __future__ import annotations

import re
import tomllib

import pytest

from discreet import pages
from discreet.pages import SITE, page
from tests.house.tree import ROOT, name_of, sources


def test_the_address_stands_in_one_place() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    assert urls.get("Documentation") == SITE
    if SITE is not None:
        assert [name_of(p) for p in sources() if SITE in p.read_text(encoding="utf-8")] == ["src/discreet/pages.py"]


def test_a_page_without_an_address_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ROOT / page("sql-reference")).exists() or SITE is not None
    monkeypatch.setattr(pages, "SITE", "https://docs.example.org")
    assert page("how-to/choose-bounds#x") == "https://docs.example.org/how-to/choose-bounds.html#x"


def test_pages_that_hints_name_are_there() -> None:
    named = {n for p in sources() for n in re.findall(r"\bpage\(['\"]([^'\"]+)['\"]\)", p.read_text(encoding="utf-8"))}
    assert "sql-reference" in named
    assert [name for name in sorted(named) if not (ROOT / "docs" / f"{name.partition('#')[0]}.md").exists()] == []


def test_pages_that_docstrings_name_are_there() -> None:
    named = {n for p in sources() for n in re.findall(r"\bdocs/[\w/-]+\.md", p.read_text(encoding="utf-8"))}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
