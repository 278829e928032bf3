"""Completion: scripts for three shells, and session names from the index."""

import os
import shutil
import subprocess

import pytest


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell, name):
    answer = shell("completions", name)
    assert answer.code == 0
    assert "_WAKELOG_COMPLETE" in answer.out
    if shutil.which(name):
        checked = subprocess.run([name, "-n"], input=answer.raw, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


def completed(shell, *words):
    """Return the completions that bash offers for the last word."""
    environment = {"_WAKELOG_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["wakelog", *words])}
    done = shell.process(env={**environment, "COMP_CWORD": str(len(words))})
    return [line.partition(",")[2] for line in done.out.splitlines() if line]


def test_what_is_completed(shell, story):
    """Commands, options, and the names of sessions."""
    story.user("a")
    assert completed(shell, "sho") == ["show"]
    assert completed(shell, "show", "--act") == ["--active"]
    assert completed(shell, "show", "cr") == ["crab_user_1"]
    assert completed(shell, "show", "@") == ["@latest"]
    assert completed(shell, "show", "zzz") == []


def test_a_completion_prints_no_error(shell):
    """A store that cannot be read completes to nothing."""
    shell.store.write_text("not a folder")
    assert completed(shell, "show", "cr") == []
    assert os.path.isfile(shell.store)
