"""`apportion table repair`: a version that can be read is published once more, and nothing is guessed."""

import json

from apportion import Ring
from apportion.errors import StoreWentBack
from apportion.sync import follow, publish
from apportion.tables.layout import TableKeys, decode_head
from tests.console.grouping import URL, eventually, item_of, write
from tests.console.running import refused, run

KEYS = TableKeys("tenants")


def test_a_table_is_published_once_more_under_a_number_that_no_follower_saw(tmp_path):
    url, table = f"sqlite:///{tmp_path}/work.db", Ring(["a", "b"]).table()
    publish(url, "tenants", table)
    with follow(url, "tenants") as follower:
        before = follower.version
        done = run("table", "repair", URL, "tenants", "--json", folder=tmp_path)
        said = json.loads(done.stdout)
        assert ("table repair", "tenants") == (said["command"], said["table"])
        eventually(lambda: str(follower.version) == said["version"])
        assert follower.version > before
        assert table.epoch == follower.epoch
    text = run("table", "repair", URL, "tenants", folder=tmp_path).stdout.decode()
    assert text.startswith(f"table repair: tenants is version {before.incarnation}:")


def test_a_table_whose_numbers_went_back_is_mended_for_those_who_saw_the_later_ones(tmp_path):
    url, tables = f"sqlite:///{tmp_path}/work.db", [Ring(["a", f"b{number}"]).table() for number in range(4)]
    publish(url, "tenants", tables[0])
    first = item_of(tmp_path, KEYS.head).value
    chunks = {key: item_of(tmp_path, key).value for key in KEYS.parts(decode_head(first).links[0])}
    for table in tables[1:]:
        publish(url, "tenants", table)
    with follow(url, "tenants") as follower:
        seen = follower.version
        for key, value in chunks.items():
            write(tmp_path, key, value)
        write(tmp_path, KEYS.head, first)
        eventually(lambda: isinstance(follower.trouble, StoreWentBack))
        assert (seen, tables[-1].epoch) == (follower.version, follower.epoch)
        assert 0 == run("table", "repair", URL, "tenants", folder=tmp_path).returncode
        eventually(lambda: follower.epoch == tables[0].epoch and follower.trouble is None)
        assert follower.version > seen


def test_a_table_whose_head_miscounts_its_chunks_is_mended(tmp_path):
    url, table = f"sqlite:///{tmp_path}/work.db", Ring(["a", "b"]).table()
    before = publish(url, "tenants", table).version
    head = json.loads(item_of(tmp_path, KEYS.head).value)
    head["links"][0][2] += 1
    write(tmp_path, KEYS.head, json.dumps(head).encode())
    assert 0 == run("table", "repair", URL, "tenants", folder=tmp_path).returncode
    with follow(url, "tenants") as follower:
        assert (table.epoch, None) == (follower.epoch, follower.trouble)
        assert follower.version > before


def test_what_nobody_can_read_is_left_to_the_next_publish(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    publish(url, "tenants", Ring(["a", "b"]).table())
    write(tmp_path, KEYS.head, b"?")
    assert "Publish the table to repair it." in refused(run("table", "repair", URL, "tenants", folder=tmp_path))
    assert "'nothing'" in refused(run("table", "repair", URL, "tenant", folder=tmp_path))
    done = publish(url, "tenants", Ring(["a", "b"]).table())
    with follow(url, "tenants") as follower:
        assert done.version == follower.version
