"""Acts on the slots of keys: own slots for keys with and without rows, and other bounds of ranges."""
