"""The planner: from a typed query to SQL, mechanisms and a cost, before any data is touched."""
