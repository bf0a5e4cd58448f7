"""What each person has spent, by itself: a private table, and the one transaction in which a query is settled."""

SUMMARY = "summary"
"""The field of a charge's note that says that it paid for a summary of what people have used, not for SQL."""
