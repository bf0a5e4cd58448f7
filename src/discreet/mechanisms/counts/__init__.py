"""Mechanisms for counts and ranks: histogram, quantiles, median, the k most frequent."""
