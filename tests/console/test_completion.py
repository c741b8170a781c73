"""`apportion completion`: the shell completes commands and options with the printed script."""

import subprocess

import pytest

from tests.console.running import refused, run, written

ASK = """
source {script}
COMP_WORDS=({words}) COMP_CWORD={place}
_apportion
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The script for bash, made once."""
    folder = tmp_path_factory.mktemp("completion")
    return written(folder, "apportion.bash", run("completion", "bash", folder=folder).stdout)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("apportion ta", {"table", "tasks"}),
        ("apportion table r", {"repair"}),
        ("apportion route --repl", {"--replicas"}),
        ("apportion completion z", {"zsh"}),
        ("apportion tasks red", {"redrive"}),
        ("apportion cron ru", {"run-now"}),
        ("apportion cron next --exp", {"--explain"}),
        ("apportion tasks limit --ra", {"--rate"}),
    ],
)
def test_bash_completes_a_word_that_was_begun(words, expected, script):
    asked = ASK.format(script=script, words=words, place=len(words.split()) - 1)
    out = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert expected == set(out.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(("shell", "begin"), [("zsh", "#compdef apportion\n"), ("fish", "# Fish completion")])
def test_the_script_is_for_the_shell_that_was_named(shell, begin, tmp_path):
    text = run("completion", shell, folder=tmp_path).stdout.decode()
    assert text.startswith(begin)
    assert "undrain" in text


def test_another_shell_is_refused_with_the_known_ones(tmp_path):
    message = refused(run("completion", "nosuch", folder=tmp_path))
    for shell in ("bash", "zsh", "fish"):
        assert shell in message
