"""What an entry can say: one value for each kind, with its fields in JSON.

`to_json` and `from_json` are each other's inverse; what `from_json` cannot read it refuses with a `ValueError`,
`TypeError`, `KeyError` or `InvalidParameter`, which `discreet.ledger.entry` turns into words.
"""
