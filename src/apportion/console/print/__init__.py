"""Print: the output of commands in columns or JSON, and the reports of plans and assignments."""
