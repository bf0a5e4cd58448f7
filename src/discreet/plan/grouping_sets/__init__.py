"""The levels of ROLLUP, CUBE and GROUPING SETS: which of them are measured, and how they are made to agree."""
