"""Builder of the documentation site: `python -m docs.site [FOLDER]` writes FOLDER/index.html.

The pages under `docs/` are plain Markdown, as a repository's host shows them. The builder copies them to a
temporary folder, adds the pages that are generated from the code, and puts each page below the first that links to it.
Sphinx then makes the site; each warning, a broken link too, is an error.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docs.site import commands, python

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("analysts", "owners", "engineers", "students", "reference", "project")
"""Pages that are the site's main menu, in its order."""

OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "benchmarks/auditor_table.md": "project/auditor-table.md",
    "changelog.d/README.md": "project/changelog-fragments.md",
    "docs/README.md": "index.md",
    "src/discreet/data/README.md": "reference/sample-tables.md",
}
"""Pages that stand elsewhere in the repository, or under another name, and their places in the site."""

GENERATED = """
## Generated from the code

| I want to | read |
|---|---|
| call it from Python | [the Python reference](reference/python/discreet.md) |
| call it from a terminal | [the commands](reference/commands.md) |
"""
"""What the site adds to the page of the reference."""

_LINK = re.compile(
    r"^ *(?P<ticks>`{3,})[^\n]*\n.*?^ *(?P=ticks)\s*$"  # a block
    r"|(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)"
    r"|`[^`\n]*`",
    flags=re.M | re.S,
)
"""Links, and the code in which nothing is one."""


def main(folder: Path) -> int:
    """Build the site; return 0, or 1 when anything is wrong with it."""
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory(prefix="discreet-site-") as staged:
        stage(Path(staged))
        quiet = ["--quiet", "--fail-on-warning", "--keep-going", "--jobs", str(min(4, os.cpu_count() or 1))]
        # no cache: what an earlier build left must not hide a broken link
        options = [*quiet, "--fresh-env", "--conf-dir", str(Path(__file__).parent), "-d", f"{staged}/.doctrees"]
        failed: int = build_main(["-b", "html", *options, staged, str(folder)])
    return failed


def stage(folder: Path) -> None:
    """Write every page of the site, ready for Sphinx, into a folder."""
    pages = {place: in_place(source, place) for source, place in sorted(sources().items()) if source != "README.md"}
    pages |= python.pages() | commands.pages()
    pages["reference.md"] += GENERATED
    children = contents(pages)
    for place, text in pages.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + toctree(place, children.get(place, [])), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures", ignore=shutil.ignore_patterns("*.py", "__*"))


def sources() -> dict[str, str]:
    """Return every page of the repository that is in the site, and its place there."""
    found = (ROOT / "docs").rglob("*.md")
    inside = {path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix() for path in found}
    return inside | OUTSIDE


def in_place(source: str, place: str) -> str:
    """Return a page's text with its links turned to the places where the pages are in the site."""
    known = sources()

    def turned(match: re.Match[str]) -> str:
        target, mark, anchor = (match["target"] or "").partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if file in known:
            return f"[{match['text']}]({posixpath.relpath(known[file], posixpath.dirname(place) or '.')}{mark}{anchor})"
        if file.startswith("docs/") and (ROOT / file).is_file():
            return match[0]  # a picture, or a page that is generated
        return match["text"] if (ROOT / file).exists() else match[0]

    return _LINK.sub(turned, (ROOT / source).read_text(encoding="utf-8"))


def contents(pages: dict[str, str]) -> dict[str, list[str]]:
    """Return what each page has below it: the pages that it is the first to link to, from the sections down."""
    children = {"index.md": [f"{name}.md" for name in SECTIONS]}
    placed = {"index.md", *children["index.md"]}
    level = children["index.md"]
    while level:
        following = []
        for page in level:
            new = [p for p in dict.fromkeys(linked(page, pages[page])) if p in pages and p not in placed]
            placed.update(new)
            children[page] = new
            following += new
        level = following
    return children


def linked(place: str, text: str) -> Iterator[str]:
    """Yield the pages of the site that a page links to, in order."""
    for match in _LINK.finditer(text):
        if match["target"]:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(place), match["target"].partition("#")[0]))


def toctree(place: str, children: list[str]) -> str:
    """Return the hidden list of the pages below a page, from which the menus are made."""
    if not children:
        return ""
    return "\n".join(
        ["", "```{toctree}", ":hidden:", "", *(f"/{child.removesuffix('.md')}" for child in children), "```", ""]
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site")))
