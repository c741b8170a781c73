"""Wrong arguments of a set of shards are told before anything is opened; a router ends with its block."""

import asyncio

import pytest

import apportion
from apportion.errors import InvalidInput, StoreClosed
from apportion.shards import admin
from tests.shards.sample import SET, Base, Files


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"base": None}, "base"),
        ({"base": object}, "base"),
        ({"pool_size": 0}, "pool_size"),
        ({"session": "x"}, "session"),
        ({"create_engine": 3}, "create_engine"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_opened(options, field):
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        apportion.sync.open_shards("sqlite:///absent.db", SET, **{"base": Base, **options})


def test_a_text_is_no_list_of_keys_and_work_is_a_function(tmp_path):
    files = Files(tmp_path, shards=("one",))
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        with pytest.raises(InvalidInput, match=r"^keys is 'FR'"):
            router.session(keys="FR")
        for keys in (None, 5):
            with pytest.raises(InvalidInput, match=r"^keys is"):
                router.session(keys=keys)
        with pytest.raises(InvalidInput, match=r"^work is"):
            router.run("FR", None)
    with pytest.raises(StoreClosed, match="it was closed"):
        router.session("FR").connection()


def test_the_shards_of_a_new_set_are_a_mapping():
    with pytest.raises(InvalidInput, match=r"^shards is"):
        asyncio.run(admin.init("sqlite:///absent.db", SET, ["one"], base=Base))
