"""Rows that belong to people: joins, subqueries and windows, as a tree that becomes nested SELECTs."""
