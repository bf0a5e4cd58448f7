"""The nodes of an answer, one file each, with all their operations: value, interval, error, and what they read."""
