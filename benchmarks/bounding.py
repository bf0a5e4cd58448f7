"""The bounds of the five queries, and the usual SQL that keeps them with two window functions; imports nothing."""

REGIONS = [f"region_{i:02d}" for i in range(20)]
GROUPS, ROWS, LOW, HIGH = 3, 10, 0, 100
FEW = f"""
WITH few_rows AS (
    SELECT user_id, region, day, least(greatest(amount, {LOW}), {HIGH}) AS amount,
           row_number() OVER (PARTITION BY user_id, region ORDER BY hash(day, amount)) AS nth_row
    FROM visits),
few_groups AS (
    SELECT *, dense_rank() OVER (PARTITION BY user_id ORDER BY hash(user_id, region)) AS nth_group
    FROM few_rows WHERE nth_row <= {ROWS}),
few AS (SELECT * FROM few_groups WHERE nth_group <= {GROUPS})
"""
