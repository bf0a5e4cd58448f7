"""Exact randomness: entropy, the public lattice, and samplers whose law is the stated law."""
