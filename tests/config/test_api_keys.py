"""LOG-13: keys come from the environment or a program, and are not repeated anywhere."""

import sys

import pytest

from tests.config.layers import loaded
from wakelog.config.files import key_for, run_key_command
from wakelog.config.schema import Config
from wakelog.errors import UsageError

ENVIRON = {"OPENAI_API_KEY": "usual", "MINE": "named", "EMPTY": ""}


def never(words):
    raise AssertionError(words)


def config(text):
    return loaded(text).config


def test_the_default_variable():
    assert key_for("openai", Config(), ENVIRON, never) == "usual"
    assert key_for("openai-chat", Config(), ENVIRON, never) == "usual"
    assert key_for("anthropic", Config(), ENVIRON, never) is None
    assert key_for("demo", Config(), ENVIRON, never) is None
    assert key_for("anthropic", Config(), {"ANTHROPIC_API_KEY": ""}, never) is None


def test_a_configured_variable():
    named = config("[providers.openai]\nkey_env = 'MINE'")
    assert key_for("openai", named, ENVIRON, never) == "named"
    assert key_for("openai-chat", named, ENVIRON, never) == "usual"


@pytest.mark.parametrize("name", ["EMPTY", "MISSING"])
def test_a_configured_variable_that_is_not_set(name):
    """One line names the variable, and the model that needs none."""
    with pytest.raises(UsageError) as error:
        key_for("openai", config(f"[providers.openai]\nkey_env = '{name}'"), ENVIRON, never)
    assert error.value.message == f"${name}, which holds the key of openai, is not set"
    assert "--model demo" in error.value.hint


BY_PROGRAM = config("[providers.openai]\nkey_command = ['pass', 'show', 'openai; rm -rf /']")


@pytest.mark.parametrize("printed", ["secret\n", "secret", "secret\r\nuser: me\n", "  secret \nmore"])
def test_a_program_prints_the_key(printed):
    """The first line counts, and the words are passed as they are: no shell splits them."""
    ran = []

    def run(words):
        ran.append(words)
        return printed

    assert key_for("openai", BY_PROGRAM, ENVIRON, run) == "secret"
    assert ran == [("pass", "show", "openai; rm -rf /")]


@pytest.mark.parametrize("printed", ["", "\n\nsecret", "sec\x1bret\n", "sécret\n", "sec\0ret"])
def test_an_invalid_key_is_not_repeated(printed):
    with pytest.raises(UsageError) as error:
        key_for("openai", BY_PROGRAM, ENVIRON, lambda _: printed)
    assert "ret" not in f"{error.value.message}{error.value.hint}"
    assert "key_command of openai" in error.value.message


# ── the real program ─────────────────────────────────────────────────────────────────────────────


def test_a_real_program(tmp_path):
    program = "import sys; print('key', *sys.argv[1:]); sys.stdin.read()"
    assert run_key_command([sys.executable, "-c", program, "$HOME", "a b"]) == "key $HOME a b\n"


def test_the_output_of_a_failed_program_is_not_repeated(capfd):
    with pytest.raises(UsageError) as error:
        run_key_command([sys.executable, "-c", "print('half a secret'); raise SystemExit(3)"])
    assert error.value.message == f"key_command {sys.executable} exited with status 3"
    assert "secret" not in "".join(capfd.readouterr())


def test_a_program_that_does_not_exist():
    with pytest.raises(UsageError, match="cannot be run: No such file"):
        run_key_command(["/no/such/program"])
