"""The second derivation of a plan's cost, from its SQL alone: it shares no code with what wrote it."""
