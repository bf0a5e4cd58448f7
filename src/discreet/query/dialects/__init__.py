"""Other databases' spelling, read as the one language of the planner."""
