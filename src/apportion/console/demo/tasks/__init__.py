"""The demonstration of tasks: workers that parse Python's own library, and die and sleep."""
