"""`apportion table repair`: a version that can be read is published once more, and nothing is guessed."""

import json

from apportion import Ring
from apportion.cluster.tables import Keys
from apportion.sync import follow, publish
from tests.console.grouping import URL, eventually, write
from tests.console.running import refused, run

KEYS = Keys("tenants")


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


def test_what_nobody_can_read_is_left_to_the_next_publish(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    publish(url, "tenants", Ring(["a", "b"]).table())
    write(tmp_path, KEYS.head, b"?")
    assert "Publish it: that mends what is damaged." in refused(run("table", "repair", URL, "tenants", folder=tmp_path))
    assert "'nothing'" in refused(run("table", "repair", URL, "tenant", folder=tmp_path))
    done = publish(url, "tenants", Ring(["a", "b"]).table())
    with follow(url, "tenants") as follower:
        assert done.version == follower.version
