"""Options from the environment and from files: the nearest source counts, and an error names the origin."""

import json

import pytest

from tests.console.running import refused, run, written


def routed(folder, *options):
    """Return the node of a key, which is the only one, so its name tells the source of `--nodes`."""
    process = run("route", *options, "k", folder=folder)
    assert 0 == process.returncode, process.stderr
    return process.stdout.decode().split("\t")[1].strip()


def test_the_nearest_source_of_an_option_counts(tmp_path, monkeypatch):
    written(tmp_path, "pyproject.toml", '[project]\nname = "x"\n[tool.apportion.route]\nnodes = "project"\n')
    assert "project" == routed(tmp_path)
    written(tmp_path, "apportion.toml", '[route]\nnodes = "file"\n')
    assert "file" == routed(tmp_path)
    monkeypatch.setenv("APPORTION_ROUTE_NODES", "variable")
    assert "variable" == routed(tmp_path)
    assert "line" == routed(tmp_path, "--nodes", "line")


def test_commands_of_a_room_have_their_own_options(tmp_path, monkeypatch):
    written(tmp_path, "apportion.toml", '[table.export]\nnodes = "a,b"\n')
    monkeypatch.setenv("APPORTION_TABLE_EXPORT_OUTPUT", "here.json")
    assert 0 == run("table", "export", folder=tmp_path).returncode
    assert (tmp_path / "here.json").exists()


def test_an_error_names_the_options_that_are_not_from_the_command_line(tmp_path, monkeypatch):
    written(tmp_path, "apportion.toml", '[route]\nnodes = "a"\n')
    monkeypatch.setenv("APPORTION_ROUTE_VNODES", "7")
    message = refused(run("route", "k", folder=tmp_path))
    assert "--nodes from apportion.toml" in message
    assert "--vnodes from APPORTION_ROUTE_VNODES" in message
    assert " from " not in refused(run("route", "--nodes", "a", "--vnodes", "7", "k", folder=tmp_path))
    monkeypatch.setenv("APPORTION_ROUTE_VNODES", "seven")
    assert "APPORTION_ROUTE_VNODES" in refused(run("route", "k", folder=tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rotue]\n", ["rotue", "'route'", "apportion.toml"]),
        ("[table.exprot]\n", ["exprot", "'export'", "[table]"]),
        ("[route]\nnods = 1\n", ["'--nods'", "Did you mean '--nodes'?", "[nods] from apportion.toml"]),
        ('[route]\nhasher = ["md5"]\n', ["[hasher]", "one text, such as a,b", "apportion.toml"]),
        ("route = 1\n", ["[route]"]),
        ("[table]\nlog = 1\n", ["log in [table] of apportion.toml is 1", "[table.log]"]),
        ('[route]\nkeys = "a\\u0000b"\n', ["--keys is 'a\\x00b'", "text without NUL", "apportion.toml"]),
        ("[route]\nx = " + 9000 * "[", ["lines of at most", "Configuration"]),
        ("[route\n", ["apportion.toml", "line 1"]),
        (b"\xff", ["apportion.toml", "UTF-8"]),
    ],
)
def test_a_faulty_file_is_refused_with_its_name_and_its_fault(text, words, tmp_path):
    written(tmp_path, "apportion.toml", text)
    message = refused(run("route", "--nodes", "a", "k", folder=tmp_path))
    for word in words:
        assert word in message
    assert 0 == run("--help", folder=tmp_path).returncode


def test_a_project_file_for_other_tools_is_not_read(tmp_path):
    written(tmp_path, "pyproject.toml", "no TOML at all")
    assert "a" == routed(tmp_path, "--nodes", "a")
    written(tmp_path, "pyproject.toml", '[tool.apportion.rotue]\nnodes = "a"\n')
    assert "pyproject.toml" in refused(run("route", "--nodes", "a", "k", folder=tmp_path))


@pytest.mark.parametrize("value", ["true", "1"])
def test_a_variable_of_a_command_with_a_hyphen_has_an_underscore(value, tmp_path, monkeypatch):
    monkeypatch.setenv("APPORTION_EXPLAIN_ERROR_JSON", value)
    assert "StaleEpoch" == json.loads(run("explain-error", "StaleEpoch", folder=tmp_path).stdout)["code"]


def test_an_alias_has_the_options_of_its_command(tmp_path):
    written(tmp_path, "apportion.toml", "[group.explain]\njson = true\n")
    assert "InvalidInput" == told(run("group", "why", "sqlite:///no.db", "g", "1", folder=tmp_path))["error"]


@pytest.mark.parametrize("arguments", [["k", "--slots", "many"], ["k"], ["--json=true"], ["--json"]])
def test_errors_are_json_wherever_the_option_is_from(arguments, tmp_path):
    written(tmp_path, "apportion.toml", "[route]\njson = true\n")
    assert 1 == told(run("route", *arguments, folder=tmp_path))["format_version"]
    assert refused(run("route", "k", "--no-json", folder=tmp_path)).startswith("error: ")


def told(process):
    """Return the error of a command as its JSON."""
    assert (1, b"") == (process.returncode, process.stdout)
    return json.loads(process.stderr)
