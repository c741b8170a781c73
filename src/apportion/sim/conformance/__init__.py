"""The suite that certifies a store: `CoordinationStore` as cases, run by pytest against a rig of the store."""
