"""The measure of lost writes: it counts, and would see a store that loses."""

import shutil
from random import Random

import pytest

from tests import durability
from tests.stores.rigs.sqlite import SqliteRig

pytestmark = pytest.mark.slow


class Forgetful(SqliteRig):
    """A store whose file is emptied when it is struck."""

    async def kill(self):
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    async def start(self):
        pass


def case(rig, strike=None):
    return durability.Case(store="SQLite", mode="", fault="", rig=lambda: rig(own_disk=False), strike=strike)


def test_what_was_acknowledged_is_counted_and_found():
    tally = durability.tallied(case(SqliteRig), 2, Random(1))
    assert 0 == tally.lost
    assert 0 < tally.acknowledged


def test_a_store_that_loses_is_seen():
    tally = durability.tallied(case(Forgetful, Forgetful.kill), 1, Random(1))
    assert 0 < tally.lost == tally.acknowledged
