"""`apportion guard check`: what a shell script asks before it writes."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.console.grouping import URL, members, write
from tests.console.running import refused, run

OF_RUN = {
    "APPORTION_GROUP": "mailers", "APPORTION_PARTITION": "1", "APPORTION_TOKEN": "1:7", "APPORTION_TOKEN_HOLDER": "ann",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, value in OF_RUN.items():
        monkeypatch.setenv(name, value)
    with members(tmp_path, "a"):
        yield tmp_path


def check(folder, *more):
    """Return the exit code and what was said."""
    done = run("guard", "check", URL, *more, folder=folder)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def test_the_newest_token_passes_as_often_as_it_is_checked_and_says_nothing(folder):
    assert [(0, "")] * 2 == [check(folder), check(folder)]


def test_an_older_token_is_refused_with_one_typed_line_from_the_moment_that_a_newer_one_passed(folder):
    assert (0, "") == check(folder)
    assert (0, "") == check(folder, "--token", "1:8", "--holder", "bob")
    line = "Fenced: mailers/1 belongs to another holder: token 1:7 came after 1:8 had been accepted.\n"
    assert (1, line) == check(folder)
    assert (0, "") == check(folder, "--token", "2:1", "--holder", "cid"), "a later life of the store"
    assert 1 == check(folder, "--token", "1:9")[0]


def test_an_equal_token_of_another_holder_is_refused(folder):
    assert (0, "") == check(folder)
    assert 1 == check(folder, "--holder", "bob")[0]


def test_resources_are_kept_apart_though_one_begins_as_another(folder):
    assert (0, "") == check(folder, "--resource", "mailers/1/x", "--token", "9:9")
    assert (0, "") == check(folder, "--resource", "mailers/12", "--token", "9:9")
    assert (0, "") == check(folder)


@pytest.mark.slow
def test_of_many_at_once_no_older_one_passes_after_a_newer_one(folder):
    with ThreadPoolExecutor(4) as threads:
        epochs = [5, 3, 8, 6, 1, 7, 2, 4]
        codes = list(threads.map(lambda each: run(
            "guard", "check", URL, "--token", f"1:{each}", folder=folder, stdin=b"").returncode, epochs))  # fmt: skip
    assert 0 == codes[epochs.index(8)]
    assert [1] * 7 == [check(folder, "--token", f"1:{each}")[0] for each in range(1, 8)]


def test_json_says_what_was_decided(folder):
    check(folder, "--token", "1:8", "--holder", "bob")
    code, text = check(folder, "--json")
    document = json.loads(text)
    assert (1, False, "1:8") == (code, document["accepted"], document["newer"])
    assert (1, "guard check") == (document["format_version"], document["command"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--token", "7"), "incarnation:epoch"),
        (("--token", "1:٣"), "incarnation:epoch"),
        (("--token", f"1:{2**64}"), "epoch is"),
        (("--holder", ""), "holder"),
        (("--resource", "x" * 2000), "resource"),
    ],
)
def test_what_is_no_token_is_refused(more, words, folder):
    assert words in refused(run("guard", "check", URL, *more, folder=folder))


def test_without_the_variables_each_option_is_asked_for(folder, monkeypatch):
    monkeypatch.delenv("APPORTION_PARTITION")
    assert "resource is ''" in refused(run("guard", "check", URL, folder=folder))


def test_a_store_that_is_not_there_is_not_made(folder):
    assert "an existing store" in refused(run("guard", "check", "sqlite:///typo.db", folder=folder))
    assert not (folder / "typo.db").exists()


def test_a_kept_token_that_is_damaged_lets_nothing_pass(folder):
    write(folder, "guard/mailers/1/", b"\xff{}")
    assert "token is" in refused(run("guard", "check", URL, folder=folder))
