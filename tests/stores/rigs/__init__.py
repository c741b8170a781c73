"""Rigs of the stores that come with the library: a file each, which ends in a `RIG`, to be called without arguments.

Calling it starts the engine, or raises `FileNotFoundError` where its program is absent.
"""

import os
from importlib import import_module
from importlib.util import find_spec

import pytest


def absent(what):
    """Skip without an engine, and fail where everything must run."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(what)


def rig_of(name):
    """Return what starts an engine and makes its rig."""

    def made():
        module = f"tests.stores.rigs.{name}"
        if find_spec(module) is None:
            absent(f"no rig {module}")
        try:
            return import_module(module).RIG()
        except FileNotFoundError as error:
            return absent(f"{name}: {error}: see ENGINES of the Makefile")

    return made
