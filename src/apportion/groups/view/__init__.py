"""View: one process's knowledge of its group. It reads the records in the store and checks each of them."""
