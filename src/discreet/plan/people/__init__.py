"""What a query costs each person: rates for the person's own contribution, and the SQL that reads it."""
