"""The measured claims: `python -m benchmarks.NAME` from the repository's root."""
