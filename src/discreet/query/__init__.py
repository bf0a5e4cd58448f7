"""From the text of a query to typed trees: parsing, names and types, the functions, and the rows that it reads."""
