"""Answers requests for outputs, a line each, in a peer's own environment; standard library only.

    python -m benchmarks.audited.serve benchmarks.audited.opendp

A request is `[name, input, n]` as JSON; the answer is the list of n outputs, or `{"error": text}`.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings


def main() -> None:
    """Serves until stdin ends."""
    warnings.simplefilter("ignore")
    made = importlib.import_module(sys.argv[1]).MECHANISMS
    sys.stdout.write(json.dumps(sorted(made)) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        name, x, n = json.loads(line)
        try:
            answer = [made[name](x) for _ in range(n)]
            text = json.dumps(answer)
        except Exception as error:
            text = json.dumps({"error": f"{type(error).__name__}: {error}"})
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
