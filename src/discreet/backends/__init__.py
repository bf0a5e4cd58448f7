"""Databases: they run integer SQL and know nothing of privacy."""
