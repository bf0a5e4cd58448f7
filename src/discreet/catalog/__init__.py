"""Public facts of tables: names, types, shapes, declared ranges and values, whose the rows are, ids in one form."""
