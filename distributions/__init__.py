"""Distributions: the files that users install, made and tried."""
