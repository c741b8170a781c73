"""The URL of a store from the environment, from a file, or from the command line."""

import pytest

from apportion.console.main import application
from apportion.console.options.store_url import _ROOMS, _SWITCHES, _WITHOUT_STORE, with_url
from apportion.errors import InvalidInput
from tests.console.grouping import URL, members
from tests.console.running import refused, run

SECRET = "postgresql://ann:s3cr3t@db/work"
SAID_URL = "sqlite:///said.db"
SAID = {"APPORTION_STORE": SAID_URL}


@pytest.mark.parametrize(
    ("arguments", "whole"),
    [
        (["group", "show", "mailers"], ["group", "show", "sqlite:///said.db", "mailers"]),
        (["group", "show", URL, "mailers"], ["group", "show", URL, "mailers"]),
        (["group", "run", "--static", URL, "g", "--", "c"], ["group", "run", "--static", URL, "g", "--", "c"]),
        (["group", "run", "g", "--", "--url-file"], ["group", "run", "sqlite:///said.db", "g", "--", "--url-file"]),
        (["store", "upgrade"], ["store", "upgrade", "sqlite:///said.db"]),
        (["guard", "check"], ["guard", "check", "sqlite:///said.db"]),
        (["table", "repair", "NAME"], ["table", "repair", "sqlite:///said.db", "NAME"]),
        (["table", "log", "FILE"], ["table", "log", "FILE"]),
        (["doctor"], ["doctor"]),
        (["doctor", "--store", "--json"], ["doctor", "--store", "sqlite:///said.db", "--json"]),
        (["doctor", "--store", URL], ["doctor", "--store", URL]),
        (["route", "--nodes", "a", "k"], ["route", "--nodes", "a", "k"]),
        (["group", "--help"], ["group", "--help"]),
        (["group", "show", "--help"], ["group", "show", "--help"]),
        (["shards", "labels"], ["shards", "labels"]),
        (["tasks", "why", "1", "--group-url", "etcd://h"], ["tasks", "why", SAID_URL, "1", "--group-url", "etcd://h"]),
        (["cron", "next", "0 9 * *"], ["cron", "next", "0 9 * *"]),
        (["cron", "next", "-n", "5", "@daily"], ["cron", "next", "-n", "5", "@daily"]),
        (["cron", "next", "nightly", "every night"], ["cron", "next", "sqlite:///said.db", "nightly", "every night"]),
        (["shards", "route", "shop", "http://k"], ["shards", "route", "sqlite:///said.db", "shop", "http://k"]),
        (["shards", "route", URL, "shop", "http://k"], ["shards", "route", URL, "shop", "http://k"]),
        (["shards", "pin", "--models", "a:B", URL, "s", "k"], ["shards", "pin", "--models", "a:B", URL, "s", "k"]),
    ],
)  # fmt: skip
def test_the_variable_says_the_url_where_it_is_left_out(arguments, whole):
    assert whole == with_url(arguments, SAID)


def options():
    """Yield the command and name of each option of the rooms, and whether it is a switch."""
    for room in _ROOMS:
        for name in (each for each in application()[room] if not each.startswith("-")):
            for argument in application()[room][name].assemble_argument_collection():
                names = (*argument.names, *argument.negatives)
                yield from (([room, name], each, argument.hint is bool) for each in names if each.startswith("-"))


def test_options_without_a_value_are_known():
    assert {each for _, each, is_switch in options() if is_switch} == _SWITCHES


def test_a_url_that_is_the_value_of_another_option_is_not_the_store():
    commands = [(command, option) for command, option, is_switch in options() if not is_switch]
    for command, option in commands:
        written = [option, "one=http://k" if option == "--shard" else "http://k"]
        url = [] if command in _WITHOUT_STORE else ["sqlite:///said.db"]
        assert [*command, *url, *written] == with_url([*command, *written], SAID)
        assert [*command, *written, URL] == with_url([*command, *written, URL], SAID)
    assert len(commands) > 90


@pytest.mark.parametrize("option", [["--url-file", "{}"], ["--url-file={}"]])
def test_a_file_says_the_url_before_the_variable_does(option, tmp_path):
    path = tmp_path / "url"
    path.write_text(f"{SECRET}\n")
    words = [each.format(path) for each in option]
    assert ["group", "ls", SECRET] == with_url(["group", "ls", *words], SAID)
    assert ["doctor", f"--store={SECRET}"] == with_url(["doctor", *words], {})


@pytest.mark.parametrize("text", ["", "\n", f"{SECRET}\n{SECRET}", "x" * 5000, "\udcff"])
def test_a_file_that_is_not_one_url_is_refused_and_not_shown(text, tmp_path):
    path = tmp_path / "url"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InvalidInput) as caught:
        with_url(["group", "ls", "--url-file", str(path)], {})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("arguments", [["group", "ls", SECRET], ["route", "k"], []])
def test_a_file_beside_a_url_or_for_a_command_without_one_is_refused(arguments, tmp_path):
    (tmp_path / "url").write_text(SECRET)
    message = refused(run(*arguments, "--url-file", "url", folder=tmp_path))
    assert "s3cr3t" not in message
    assert "Leave out the option" in message


@pytest.mark.slow
def test_commands_take_the_url_from_the_environment_and_from_a_file(tmp_path, monkeypatch):
    (tmp_path / "url").write_text(f"{URL}\n")
    with members(tmp_path, "a"):
        assert b"mailers" in run("group", "ls", "--url-file", "url", folder=tmp_path).stdout
        monkeypatch.setenv("APPORTION_STORE", URL)
        assert b"1 member," in run("group", "show", "mailers", folder=tmp_path).stdout
