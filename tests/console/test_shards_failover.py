"""`apportion shards accept-failover`: the words for each finding, and the exit codes."""

import json
from dataclasses import asdict

import pytest

from apportion.console.shards import failover
from apportion.shards.admin import FailOver
from tests.console.running import run

URL = "sqlite:///control.db"
FOUND = FailOver(shard="one", noted="7/1", found="7/2")
DONE = "shards accept-failover: world: shard one "


@pytest.fixture
def told(monkeypatch, capsys):
    """Return a function that runs the command with a result of the library; it returns exit code, calls and lines."""
    asked = []

    def ran(found, **options):
        async def accept(*words, **given):
            asked.append((words, given))
            return found

        monkeypatch.setattr(failover.admin, "accept_failover", accept)
        code = failover.accept_failover_shards(URL, "world", "one", **options)
        return code, asked[-1], capsys.readouterr().out.splitlines()

    return ran


def test_a_clean_acceptance_and_a_check_have_one_line(told):
    code, asked, lines = told(FOUND, check=True)
    assert (0, [DONE + "would serve on timeline 7/2, after 7/1"]) == (code, lines)
    assert ((URL, "world", "one"), {"is_check": True, "accept_loss": False}) == asked
    assert (0, [DONE + "serves on timeline 7/2, after 7/1"]) == told(FOUND)[::2]
    same = FailOver(shard="one", noted="7/2", found="7/2")
    assert (0, [DONE + "serves on timeline 7/2 already"]) == told(same)[::2]


@pytest.mark.parametrize(
    ("more", "options", "code", "words"),
    [
        ({"refused": (5, 9)}, {}, 0, "- slots 5, 9: they lie elsewhere, so this shard has to refuse them"),
        ({"accepted": (5,)}, {}, 0, "- slots 5: they lie here, so this shard has to accept them again"),
        ({"lost": (5,)}, {}, 1, "may have lost their rows; to go on without them: --accept-loss"),
        ({"lost": (5,)}, {"accept_loss": True}, 0, "may have lost their rows; they serve with the rows that are there"),
        ({"ahead": (5,)}, {"accept_loss": True}, 1, "newer than the table; first run: apportion shards recover URL"),
        ({"moves": ("a-000",)}, {}, 0, "- move a-000 is under way"),
        ({"unended": ("a-000",)}, {}, 1, "- move a-000 is not at its end yet; run: apportion shards apply URL world"),
        ({"refused": tuple(range(30))}, {}, 0, "18, 19 and 10 more: they lie elsewhere"),
    ],
)
def test_each_finding_has_a_line_and_the_exit_code_tells_whether_the_shard_serves(told, more, options, code, words):
    found = FailOver(**{**asdict(FOUND), **more})
    exited, _, (line, last) = told(found, **options)
    assert code == exited
    assert words in line
    refuses = bool(code and not found.unended)
    assert refuses == ("does not serve on timeline 7/2; nothing was written" in last)


def test_the_result_is_told_as_json(told):
    _, _, lines = told(FailOver(**{**asdict(FOUND), "lost": (5,)}), json=True)
    found = json.loads("".join(lines))
    assert ("world", False, "one", "7/1", [5]) == tuple(
        found[each] for each in ("set", "check", "shard", "noted", "lost")
    )


def test_an_absent_store_is_told(tmp_path):
    done = run("shards", "accept-failover", URL, "world", "one", folder=tmp_path)
    assert 1 == done.returncode
    assert b"no store" in done.stderr or b"control.db" in done.stderr
