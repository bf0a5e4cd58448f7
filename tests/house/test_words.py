"""Words that readers met and did not understand stay out of texts for users: docstrings, messages, help and pages."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.tree import ROOT, name_of, pages, sources, tree_of

PHRASES = {
    r"\ban own\b|\bown ones\b": "of their own",
    r"\bfor life\b": "never resets",
    r"\bnobody's\b": "belongs to no person; without personal data",
    r"\bmade out\b": "identified",
    r"\bwithout a word\b": "silently",
    r"\b(what )?makes neighbours\b": "neighbouring relation",
    r"\bhow charges add\b(?! up)": "composition rule",
    r"\bwhose is used up\b": "people whose budget is used up",
    r"\bwhose row it is\b": "column with the person's id",
    r"\bwhose spelling\b": "SQL dialect",
    r"\bmay not be asked for\b": "must not be read from the data",
    r"\btakes a δ\b": "needs δ > 0",
    r"\bkeeper of the claim\b|\baccused with chance\b": "false-positive rate",
    r"\bNothing is ignored\b": "unsupported SQL is rejected, never silently dropped",
    r"\b(is|are) not answered\b": "is not supported",
    r"\bmoved to (the|its) nearest end\b": "clamped",
    r"^(And δ|Of the (intervals|errors))\b": "a noun phrase",
}
"""Phrases, and what is written in their place (the glossary is docs/glossary.md)."""

MESSAGE = {r"\bquestions?\b": "query"}
"""What else messages do not say: sentences that are no docstring."""

DOCSTRING = {
    r"\b[Qq]uestions?\b": "query",
    r"\b[Tt]he answer (of|to) (a|the) (query|statement)\b|\ban answer's\b": "result",
    r"\b(row|rows|part|parts|columns?|nodes?) of (an|the) answer\b": "result",
}
"""What else docstrings do not say, of queries and their results."""

OTHERS = ("src/discreet/local/", "src/discreet/accounting/", "src/discreet/verify/certificate/registry.py")
"""Where a question is one: of a survey on devices, about a loss, or of a guideline."""

PAGES = ("sql-reference.md", "analysts.md", "owners.md", "tutorial.md", "faq.md", "threat-model.md", "glossary.md")
"""Pages whose text says query and result as messages do; in code and in links are names."""

_DOCSTRING = re.compile(r'"""(.*?)"""', flags=re.S)
_NAMES = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|^\s+questions?(, \w+)*:", flags=re.M | re.S)

_QUOTED = re.compile(r'"[^"\n]*\bquestions?\b[^"\n]*"')  # where one may be: to parse every file takes seconds

READ = [page for page in pages() if not name_of(page).startswith("changelog.d/")]


def _found(text: str, phrases: dict[str, str]) -> list[str]:
    return [f"{m[0]!r}: write {said!r}" for p, said in phrases.items() for m in re.finditer(p, text, flags=re.M)]


def test_no_page_has_a_phrase_of_the_list() -> None:
    assert {name_of(p): f for p in READ if (f := _found(p.read_text(encoding="utf-8"), PHRASES))} == {}


def test_no_source_file_has_a_phrase_of_the_list() -> None:
    assert {name_of(p): f for p in sources() if (f := _found(p.read_text(encoding="utf-8"), PHRASES))} == {}


def _messages(tree: ast.Module) -> str:
    """Return the sentences of a file that are no docstring: what a user may be shown."""
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs]
    texts = [n.value for n in constants if isinstance(n.value, str)]
    return "\n".join(text for text in texts if " " in text.strip())


def test_messages_say_query() -> None:
    suspects = [p for p in sources() if _QUOTED.search(p.read_text(encoding="utf-8"))]
    assert {name_of(p): f for p in suspects if (f := _found(_messages(tree_of(p)), MESSAGE))} == {}


def test_docstrings_say_query_and_result() -> None:
    texts = {name_of(p): _DOCSTRING.findall(p.read_text(encoding="utf-8")) for p in sources()}
    said = {name: _NAMES.sub("", "\n".join(of)) for name, of in texts.items() if not name.startswith(OTHERS)}
    assert {name: f for name, text in said.items() if (f := _found(text, DOCSTRING))} == {}


def test_pages_say_query_and_result() -> None:
    wrong = {**MESSAGE, r"\b(the|an) answers?\b(?! for\b)": "result"}
    texts = {page: _NAMES.sub("", (ROOT / "docs" / page).read_text(encoding="utf-8")) for page in PAGES}
    assert {page: f for page, text in texts.items() if (f := _found(text, wrong))} == {}


@pytest.mark.parametrize("text", ["it holds for life", "And δ.", "the column that says whose row it is"])
def test_the_list_finds_what_was_mended(text: str) -> None:
    assert _found(text, PHRASES)
    assert name_of(ROOT / "README.md") in {name_of(page) for page in READ}
