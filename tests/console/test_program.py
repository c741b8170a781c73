"""A program that cannot be imported: the error names its file and line, and is JSON where JSON was asked for."""

import json
import sqlite3
import sys

import pytest

from apportion.console.main import _failed
from apportion.stores.sqlite.file import InDoubt
from tests.console.running import refused, run, written


def test_an_error_of_an_inner_class_has_the_name_of_the_public_one(capsys):
    doubt = InDoubt("sqlite:///w.db", sqlite3.OperationalError("disk I/O error"), None)
    assert 1 == _failed(doubt, (), is_json=True)
    assert "StoreUnavailable" == json.loads(capsys.readouterr().err)["error"]


PLACES = {
    "def fail():\n    return 1 / 0\nfail()\n": "broken.py:2: ZeroDivisionError: division by zero",
    "import json\njson.loads('{')\n": "broken.py:2: JSONDecodeError: Expecting property name",
    "x = = 1\n": "broken.py:1: SyntaxError: invalid syntax",
    "import no_such_module\n": "broken.py:1: ModuleNotFoundError: No module named 'no_such_module'",
    "raise SystemExit\n": "broken.py:1: SystemExit\n",
    "raise ValueError('see postgresql://app:s3c@ret@db/x')\n": "broken.py:1: ValueError: see postgresql://***@db/x",
    "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute\n": "broken.py:3: Mute\n",
    "import apportion\napportion.Queue('sqlite:///w.db', 'a b')\n": "broken.py:2: name of the queue is 'a b'",
    "import apportion\nnext(apportion.cron_slots('61 * * * *', after=None))\n": "broken.py:2: rule is '61 * * * *'",
}
COMMANDS = [("cron", "plan"), ("cron", "apply"), ("tasks", "worker")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    sys.path_importer_cache.clear()
    yield tmp_path
    sys.modules.pop("broken", None)


@pytest.mark.parametrize("text", PLACES)
def test_an_error_of_a_program_names_its_file_and_line(folder, text):
    written(folder, "broken.py", text)
    assert PLACES[text] in refused(run("cron", "plan", "broken:queue", folder=folder)) + "\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_of_a_program_is_one_json_object_where_json_is_asked_for(folder, command):
    written(folder, "broken.py", "1 / 0\n")
    done = run(*command, "broken:queue", "--json", folder=folder)
    error = json.loads(done.stderr)
    assert (1, b"", "InvalidInput") == (done.returncode, done.stdout, error["error"])
    assert error["hint"].startswith("broken.py:1: ZeroDivisionError: division by zero\n")
