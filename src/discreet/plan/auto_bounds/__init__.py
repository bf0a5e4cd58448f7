"""Bounds chosen by a first, charged look at the data."""
