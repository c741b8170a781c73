"""The catalog of stores: a store is one folder, and says which guarantees it gives."""

import asyncio
from importlib import import_module
from typing import get_args

import pytest

from apportion import stores
from apportion.errors import NotPromised
from apportion.stores import catalog
from apportion.stores.api import Need
from apportion.stores.memory.store import CAPABILITIES as IN_MEMORY
from apportion.stores.spec import StoreSpec

FOLDER = """
from apportion.stores.memory.spec import SPEC as MEMORY
from dataclasses import replace
SPEC = replace(MEMORY, name="shelf", schemes=("shelf",), promises=frozenset({"multi_host"}))
"""


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").touch()
    (tmp_path / "shelf" / "spec.py").write_text(FOLDER)
    monkeypatch.setattr(stores, "__path__", [*stores.__path__, str(tmp_path)])
    catalog._own.cache_clear()
    yield
    catalog._own.cache_clear()


@pytest.mark.usefixtures("shelf")
def test_a_folder_with_a_spec_is_a_store():
    assert "shelf" in stores.schemes()
    assert isinstance(catalog.get("shelf"), StoreSpec)
    with pytest.raises(NotPromised, match=r"\(etcd, postgresql, redis, shelf\)"):
        asyncio.run(stores.connect("memory://", needs=["multi_host"]))


@pytest.mark.parametrize("folder", ["etcd", "memory", "postgres", "redis", "sqlite"])
def test_a_spec_promises_what_its_store_can_at_its_best(folder):
    spec = import_module(f"apportion.stores.{folder}.spec").SPEC
    best = import_module(f"apportion.stores.{folder}.store").CAPABILITIES
    assert {need for need in get_args(Need) if getattr(best, need)} == spec.promises


def test_the_first_need_that_a_store_lacks_is_named():
    assert "durable" == IN_MEMORY.lacking(["linearizable", "durable", "multi_host"])
    assert None is IN_MEMORY.lacking(["linearizable"])
