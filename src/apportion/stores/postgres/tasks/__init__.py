"""The tasks in a PostgreSQL database: their statements and rules, and the store over them."""
