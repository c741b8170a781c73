"""What commands print: columns, JSON, and the reports of plans and assignments."""
