"""Continual counting: all prefix sums of a stream, by a noisy tree or by a square root of their matrix."""
