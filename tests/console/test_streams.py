"""Standard streams as users leave them: closed, full, of another encoding; and what a parser error may quote."""

import os
import subprocess

import pytest

from apportion.console.main import main
from tests.console.running import COMMAND, refused, run


def shell(redirection, *arguments, folder=None, **environment):
    """Return a finished `apportion arguments` under a shell's redirection of streams."""
    command = f'exec "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", command, "sh", *COMMAND, *arguments],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
        cwd=folder,
    )


@pytest.mark.parametrize("arguments", [("route", "--nodes", "a", "k"), ("route", "--nodes", "a", "k", "--json")])
def test_closed_output_is_no_traceback(arguments):
    process = shell(">&-", *arguments)
    assert b"Traceback" not in process.stderr


@pytest.mark.slow
def test_closed_input_holds_no_keys():
    process = shell("<&-", "route", "--nodes", "a", "--keys", "-")
    assert b"Traceback" not in process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", ["route --nodes a k", "plan --nodes a,b --add c", "doctor", "--help"])
def test_a_full_disk_is_an_error_and_no_traceback(words):
    process = shell(">/dev/full", *words.split())
    assert 1 == process.returncode
    assert b"Traceback" not in process.stderr
    assert b"could not be written" in process.stderr


@pytest.mark.slow
def test_an_output_that_is_lost_does_not_hide_that_the_work_was_done(tmp_path):
    run("table", "export", "--nodes", "a,b", folder=tmp_path)
    run("plan", "--table", "table.json", "--add", "c", "-o", "plan.json", folder=tmp_path)
    process = shell(">/dev/full", "apply", "plan.json", folder=tmp_path)
    assert (1, True) == (process.returncode, b"look before you run it again" in process.stderr)
    assert b"+c" in run("table", "log", folder=tmp_path).stdout


@pytest.mark.parametrize("is_full", [True, False], ids=["a full disk", "a pipe without a reader"])
def test_a_task_is_enqueued_once_although_its_id_cannot_be_printed(is_full, tmp_path, monkeypatch, capfd):
    read, write = os.pipe()
    os.close(read)
    if is_full:
        os.dup2(os.open("/dev/full", os.O_WRONLY), write)
    store = f"sqlite:///{tmp_path}/work.db"
    with os.fdopen(write, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert 1 == main(["tasks", "enqueue", store, "mail", "send", "{}"])
        monkeypatch.undo()
    assert is_full == ("look before you run it again" in capfd.readouterr().err)
    assert b"tasks ls: mail: 1 task\n" in run("tasks", "ls", store, "mail", folder=tmp_path).stdout


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_terminal_of_another_encoding_shows_what_it_cannot_print_escaped(encoding):
    for arguments in (("explain", "€", "--nodes", "é,b"), ("route", "--nodes", "é,b", "é", "--json")):
        process = shell("", *arguments, PYTHONIOENCODING=encoding)
        assert (0, b"") == (process.returncode, process.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("route", "--nodes", "a", "--vnodes", "postgres://u:s3cret@h/x", "k"),
        ("route", "--nodes", "a", "--foo=postgres://u:s3cret@h/x", "k"),
        ("apply", "a", "postgres://u:s3cret@h/x"),
        ("postgres://u:s3cret@h/x",),
        ("route", "--nodes", "a", "--vnodes", "\x1b[31mRED", "k"),
    ],
)
def test_the_parser_quotes_no_password_and_no_control_character(arguments, tmp_path):
    message = refused(run(*arguments, folder=tmp_path))
    assert "s3cret" not in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.toml", '["postgres://u:s3cret@h/x"]\na=1\n["postgres://u:s3cret@h/x"]\n'),
        ("t.toml", 'x = "postgres://u:s3cret@h/x\n'),
    ],
)
def test_a_mistake_in_a_file_is_placed_and_not_quoted(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    message = refused(run("route", "--topology", name, "k", folder=tmp_path))
    assert "s3cret" not in message
    assert "at line" in message


def test_a_row_that_is_no_header_is_shown_without_passwords(tmp_path):
    (tmp_path / "k.csv").write_text("postgres://u:s3cret@h/x,\x1b[31m\n1,2\n")
    message = refused(run("route", "--nodes", "a", "--keys", "k.csv", "--column", "id", folder=tmp_path))
    assert "s3cret" not in message
    assert "\x1b" not in message


def test_a_key_of_many_dots_is_refused_and_not_parsed_for_minutes(tmp_path):
    (tmp_path / "t.toml").write_text("a." * 100_000 + "a=1")
    assert "lines of at most" in refused(run("route", "--topology", "t.toml", "k", folder=tmp_path))


@pytest.mark.slow
def test_a_folder_that_was_removed_is_no_fault_of_the_output(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    words = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', folder, *COMMAND, "store", "upgrade", "sqlite:///x.db"]
    process = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert "path is 'the current folder', expected one that can be used" in refused(process)
