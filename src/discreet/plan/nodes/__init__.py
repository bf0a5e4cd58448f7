"""The nodes of a result, one file each, with all their operations: value, interval, error, and what they read."""
