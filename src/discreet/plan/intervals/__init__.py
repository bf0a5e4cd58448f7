"""Intervals of answers that are made of several noisy numbers."""
