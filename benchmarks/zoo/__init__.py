"""Mechanisms to audit: the standard ones, broken ones, sound ones, each with its claim and the truth."""

from __future__ import annotations

from benchmarks.zoo.broken import BROKEN
from benchmarks.zoo.case import Case as Case
from benchmarks.zoo.sound import SOUND
from benchmarks.zoo.standard import STANDARD

ALL: tuple[Case, ...] = (*STANDARD, *BROKEN, *SOUND)
"""Every case; names are unique."""
