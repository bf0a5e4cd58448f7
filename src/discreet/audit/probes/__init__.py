"""Probes beside the statistical test: floating-point numbers, and state."""
