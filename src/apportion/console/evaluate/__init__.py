"""`apportion evaluate`: balancers side by side on clusters that fail, grow and change."""
