"""The crash campaign: a ledger's worker is killed and starved of disk at every step, and nothing may be lost."""
