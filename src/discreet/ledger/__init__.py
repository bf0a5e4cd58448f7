"""The durable record of what has been spent: append-only, hash-chained, charged before any data is read."""
