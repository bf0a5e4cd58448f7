"""Releases that carry their proof: what a certificate says, and its check, which needs neither planner nor session."""
