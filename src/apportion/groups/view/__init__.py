"""What one process knows of its group: the records in the store, each held to be right, and the view made of them."""
