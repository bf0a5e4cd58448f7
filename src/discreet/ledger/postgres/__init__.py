"""A ledger in a PostgreSQL database: URLs, the driver, the tables, and the store over them."""
