"""Mechanisms of peers, by name, each run in its peer's own environment; `benchmarks.audit_peers` asks them."""
