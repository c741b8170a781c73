"""The SQLite store: one file that many processes of one host share."""
