"""The demonstration of keys: workers that visit the places of each country in order, and join, die and sleep."""
