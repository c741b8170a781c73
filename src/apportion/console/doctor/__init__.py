"""`apportion doctor`: checks this installation, or a store."""
