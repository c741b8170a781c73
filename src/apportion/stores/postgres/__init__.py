"""The PostgreSQL store: tables of a database that members of several hosts share."""
