"""A fuzzer of questions and data: random SQL on neighbouring tables, and everything that must hold for each."""
