from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.ledger.chain import GENESIS, canonical, link, parse

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(
    SCALARS, lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(), x, max_size=4), max_leaves=12
)


def test_the_hash_is_the_one_that_sha256sum_gives() -> None:
    # (printf 'discreet ledger entry, format 1\0'; head -c 32 /dev/zero; printf '{"a":1}') | sha256sum
    assert link(GENESIS, '{"a":1}') == "163906ba3639fd931069f1f17f57061c057ac913c5441cfb51dcdaf33dbb8aa0"


def test_the_hash_depends_on_the_previous_hash_and_on_each_byte_of_the_body() -> None:
    one = hashlib.sha256(b"one").hexdigest()
    assert (
        len({link(GENESIS, "ab"), link(one, "ab"), link(GENESIS, "abc"), link(GENESIS, "aB"), link(GENESIS, "")}) == 5
    )


@given(JSON)
def test_canonical_json_reads_back_as_it_was(value: Any) -> None:
    text = canonical(value)
    assert text.isascii()
    assert canonical(parse(text)) == text
    assert repr(json.loads(text)) == repr(json.loads(json.dumps(value, sort_keys=True)))


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_canonical_json_does_not_depend_on_the_order_of_insertion(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        {1: 2},
        {None: 1},
        {"a": {True: 1}},
        b"x",
        {1, 2},
        object(),
        [1, [math.nan]],
        [10**5000],
    ],
    ids=lambda x: type(x).__name__,
)
def test_canonical_json_refuses_what_would_change_on_the_way(value: Any) -> None:
    with pytest.raises(InvalidParameter):
        canonical(value)


@pytest.mark.parametrize(
    "text", ['{"b":1,"a":2}', '{"a": 1}', '{"a":1,"a":1}', '"é"', "1.0e0", "NaN", "[Infinity]", "", "{", '{"a":1}\n']
)
def test_a_text_that_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
