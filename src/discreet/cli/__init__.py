"""The command line: parse, call, print. No privacy logic lives here."""

from __future__ import annotations

from discreet.cli.program import main as main
