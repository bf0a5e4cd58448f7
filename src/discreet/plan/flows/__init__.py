"""Queries to a table that protects two populations at once: each result is a maximum flow between their units."""
