"""The demonstration: processes that share work, and what happens when they join, leave, die and sleep."""
