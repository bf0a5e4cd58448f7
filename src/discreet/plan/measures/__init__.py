"""The exact columns of integers that a query needs, each with its sensitivity."""
