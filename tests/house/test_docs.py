"""The documents are true: links lead somewhere, code runs, shown output is what comes out.

Every `python` block of the README and of docs/ is executed, the blocks of one page in one namespace and in
an empty folder. A `text` block right after an executed block is its output. A `bash` block is run when the
line before it is `<!-- run -->` (or `<!-- run, exits 3 -->`). A `python` block that cannot run says why:
`<!-- not run: reason -->`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from discreet.engine.release import MARKED
from tests.house.tree import ROOT, name_of, pages

LANGUAGES = {"", "bash", "json", "powershell", "python", "sql", "text", "toml"}
RUN_PAGES = [page for page in pages() if page == ROOT / "README.md" or page.is_relative_to(ROOT / "docs")]

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w+-]*)\s*$")
_COMMENT = re.compile(r"^\s*<!-- (?P<words>.*) -->\s*$")
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_NUMBER = r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_NOISY = rf"({_NUMBER}) ?± ?({_NUMBER})"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, where it starts, the comment before it."""

    language: str
    text: str
    line: int
    comment: str
    follows: bool  # nothing but blank lines stands between it and the block before


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = iter(enumerate(text.splitlines(), start=1))
    comment, follows = "", False
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            if line.strip():
                said = _COMMENT.match(line)
                comment, follows = said["words"] if said else "", False
            continue
        closing = fence["indent"] + fence["ticks"]
        body = []
        for _, inner in lines:
            if inner.rstrip() == closing:
                break
            body.append(inner.removeprefix(fence["indent"]))
        yield Block(fence["language"], "\n".join(body) + "\n", number, comment, follows)
        comment, follows = "", True


def run(block: Block, page: Path, namespace: dict[str, Any]) -> str | None:
    """What the block prints, or None when it is not for running."""
    if block.language == "python" and not block.comment.startswith("not run: "):
        # Padding makes a traceback point at the line of the page.
        code = compile("\n" * block.line + block.text, name_of(page), "exec", dont_inherit=True)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, namespace)
        return out.getvalue()
    asked = re.fullmatch(r"run(?:, exits (?P<status>\d+))?", block.comment)
    if block.language == "bash" and asked:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == int(asked["status"] or 0), f"{name_of(page)}:{block.line}\n{done.stdout}"
        return done.stdout
    return None


def assert_agree(shown: str, got: str, where: str) -> None:
    """Checks that output agrees with what a page shows: the same text, up to spacing and to noise.

    Two draws of `value ± half-width`, in a sentence or in a table's column with ± beside it, agree when they
    are at most four times the sum of both half-widths apart, and the half-widths are within a factor of two.
    For Laplace noise and 95 % intervals a false alarm has probability 5e-10 a number. `...` is anything.
    """
    said = f"{where} shows\n{shown}\nand this came out:\n{got}"
    match = re.fullmatch(_pattern(_tidy(shown)), _tidy(got))
    assert match, said
    drawn = [_value(text) for text in match.groups()]
    written = [_value(text) for pair in re.findall(_NOISY, _tidy(shown)) for text in pair]
    for a, wide_a, b, wide_b in zip(written[::2], written[1::2], drawn[::2], drawn[1::2], strict=True):
        assert abs(a - b) <= 4 * (wide_a + wide_b), said
        assert wide_a <= 2 * wide_b and wide_b <= 2 * wide_a, said


def _tidy(text: str) -> str:
    """The text with a table's ± columns joined to their numbers, without blank lines, with single spaces.

    Whether the two sides of an interval differ so much that both are shown is a matter of noise: the larger is taken.
    So is whether a value is marked since its margin of error reaches it.
    """
    lines = (re.sub(r"([─-])\1+", r"\1", " ".join(line.split())) for line in _joined(text.splitlines()))
    plain = "\n".join(line for line in lines if line).replace(", + and − are its sides where they differ", "")
    plain = re.sub(rf"([±−] ?{_NUMBER})\*", r"\1", plain.replace(f"\n{MARKED}", ""))
    return re.sub(r" \+([\d,.]+) −([\d,.]+)", lambda m: f" ± {max(m.groups(), key=_value)}", plain)


def _joined(lines: list[str]) -> Iterator[str]:
    """The lines, with `12  3` under the headings `n  ±` of a table made `12 ± 3`."""
    columns: list[tuple[int, int]] = []
    for above, line in zip(["", *lines], lines, strict=False):
        if re.fullmatch(r"\s*─[─ ]*", line):
            columns = [match.span() for match in re.finditer("─+", line)]
            widths = {start: end for start, end in columns if above[start:end].strip() == "±"}
        gaps = [line[end:start] for (_, end), (start, _) in pairwise(columns)]
        if not columns or len(line) > columns[-1][1] or any(gap.strip() for gap in gaps):
            columns = []
        elif "─" not in line:
            cells = [("± " if start in widths else "") + line[start:end] for start, end in columns]
            line = " ".join(cells)
        yield line


def _pattern(shown: str) -> str:
    """A regular expression in which every noisy number is two groups and `...` is anything."""
    pieces = re.split(f"({_NOISY}|\\.\\.\\.)".replace("(" + _NUMBER + ")", f"(?:{_NUMBER})"), shown)
    known = {"...": r"[\s\S]*?"}
    return "".join(known.get(p) or (_NOISY if re.fullmatch(_NOISY, p) else re.escape(p)) for p in pieces)


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


@pytest.mark.system
@pytest.mark.sampled(1_000)  # the first is the README
@pytest.mark.parametrize("page", RUN_PAGES, ids=name_of)
def test_code_runs_and_prints_what_is_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = None
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{name_of(page)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: `{block.language}` is none of {sorted(LANGUAGES)}"
        if block.language == "text" and block.follows and printed is not None:
            assert_agree(block.text, printed, where)
        printed = run(block, page, namespace)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_files_of_the_package_that_a_page_names_exist(page: Path) -> None:
    places = (ROOT, ROOT / "src", ROOT / "src" / "discreet", page.parent)
    named = set(re.findall(r"`([\w.-]+/[\w./-]+\.py)`", page.read_text(encoding="utf-8")))
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in _LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        to = (page.parent / file).resolve() if file else page
        if not to.exists() or (anchor and anchor not in _anchors(to)):
            broken.append(target)
    assert broken == []


def test_every_page_of_the_documentation_is_linked_from_another() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in pages()
        for target in _LINK.findall(_prose(page))
        if (page.parent / target.partition("#")[0]).resolve() != page
    }
    documentation = [page for page in pages() if ROOT / "docs" in page.parents]
    assert [name_of(p) for p in documentation if p not in linked and p != ROOT / "docs" / "README.md"] == []


def _prose(page: Path) -> str:
    """A page without its blocks and its inline code, where brackets mean something else."""
    text = re.sub(r"^ *(`{3,})[^`]*?^ *\1\s*$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def _anchors(page: Path) -> set[str]:
    """The names under which the headings of a page are linked to."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "got", ["north 1,204 ± 17\n", "north  1,230 ± 16\n──\n", "north 1,100 ± 17"], ids=["same", "spacing", "noise"]
)
def test_the_comparison_accepts_another_draw(got: str) -> None:
    shown = "north   1,204 ± 17\n" + ("─────\n" if "─" in got else "")
    assert_agree(shown, got, "here")


@pytest.mark.parametrize(
    "got",
    ["south 1,204 ± 17", "north 1,404 ± 17", "north 1,204 ± 40", "north 1,204", "north 1,204 ± 17\nmore"],
    ids=["text", "far away", "other width", "no interval", "more lines"],
)
def test_the_comparison_rejects_what_is_not_shown(got: str) -> None:
    with pytest.raises(AssertionError):
        assert_agree("north 1,204 ± 17", got, "here")


TABLE = """\
ward     visits    ±
───────  ──────  ───
surgery   {:>5}  {:>3}
± is a 95 % interval
"""


def test_the_comparison_reads_tables() -> None:
    assert_agree(TABLE.format("3,544", 180), TABLE.format("3,390", 181), "here")
    for wrong in (TABLE.format("9,544", 180), TABLE.format("3,544", 18), TABLE.format("3,544", 180) + "more"):
        with pytest.raises(AssertionError):
            assert_agree(TABLE.format("3,544", 180), wrong, "here")


def test_blocks_are_found_with_their_comments_and_neighbours() -> None:
    page = "<!-- run -->\n```bash\na\n```\n\n```text\nb\n```\nwords\n````\n```\n````\n"
    found = [(b.language, b.text, b.comment, b.follows) for b in blocks(page)]
    assert found == [("bash", "a\n", "run", False), ("text", "b\n", "", True), ("", "```\n", "", False)]
