"""Distributions: what users install, made and tried."""
