"""The exact columns of integers that a question needs, each with its sensitivity."""
