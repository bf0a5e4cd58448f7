"""Runs a mechanism, and turns whatever it puts out into rows of numbers."""
