"""`service`: valid units that wake unfinished sessions; files of others are never overwritten."""

import json
import os
import pwd
import stat
import subprocess
import sys

import pytest

from tests.cli.commands.test_wake import unanswered_session
from tests.cli.systemd import complaints, environment_of, understood, words_of
from wakelog.cli.commands import service as command
from wakelog.cli.commands.service import Unit
from wakelog.log.entry import ContextEntry
from wakelog.runtime.context_entry import store_declarations
from wakelog.tools import builtin_tools

NAMES = ["wakelog-wake.service", "wakelog-wake.timer"]
OTHER_USER = next(user.pw_name for user in pwd.getpwall() if user.pw_uid not in (0, os.geteuid(), 65534))


@pytest.fixture
def config(shell, monkeypatch):
    """The folder of a user's units."""
    folder = shell.folder / "my %h config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("SUDO_USER", raising=False)
    return folder / "systemd" / "user"


@pytest.fixture
def system(shell, monkeypatch):
    """The folder of the system's units."""
    folder = shell.folder / "etc"
    monkeypatch.setattr(command, "_SYSTEM_FOLDER", str(folder))
    monkeypatch.delenv("SUDO_USER", raising=False)
    return folder


def files_of(answer):
    return {os.path.basename(file["path"]): file for file in answer.json["files"]}


def read_by_systemd(answer):
    units = [Unit(name, file["text"]) for name, file in files_of(answer).items()]
    return understood(*units)["wakelog-wake.service"]


def kept(folder):
    """Return the files of a folder: names, content, and modification times."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_systemd_accepts_the_units(shell, config, system):
    """`systemd-analyze verify` prints nothing, for a user and for the system."""
    assert shell("service", "install").code == 0
    assert shell("service", "install", "--system", "--as", OTHER_USER).code == 0
    assert complaints(*(config / name for name in NAMES), scope="user") == ""
    assert complaints(*(system / name for name in NAMES), scope="system") == ""


def test_verify_finds_an_invalid_unit(tmp_path):
    """The check above can fail."""
    broken = tmp_path / NAMES[0]
    broken.write_text("[Service]\nType=oneshot\nExecStart=/no/such/program\n")
    assert "is not executable" in complaints(broken, scope="user")


def test_the_unit_wakes_unfinished_sessions(shell, store, config, script):
    """RUN-4: the command line that systemd reads from the unit, with its environment, in another folder."""
    unanswered_session(store, script({"text": "here I am"}))
    asks = unanswered_session(store, script({"toolCalls": [{"name": "shell", "input": {}}]}, name="2.jsonl"))
    asks.append(ContextEntry(policy={"approval": "ask"}, tools=store_declarations(store, builtin_tools("", ["shell"]))))
    (shell.folder / "wakelog").mkdir()
    (shell.folder / "wakelog" / "__init__.py").write_text("raise SystemExit('not this one')")
    shown = shell("service", "show", "--json")
    service = read_by_systemd(shown)
    environment = {"HOME": str(shell.folder), **environment_of(service)}
    done = subprocess.run(words_of(service), cwd=shell.folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 6, done.stderr
    # A session that waits for a person is not a failure of the unit.
    assert "\nSuccessExitStatus=6\n" in files_of(shown)[NAMES[0]]["text"]
    states = {row["name"]: row["state"] for row in shell("ls", "--json").rows}
    assert states == {"crab_user_1": "idle", "crab_user_2": "waiting"}
    assert b"here I am" in (shell.store / "crab_user_1.jsonl").read_bytes()


def test_without_work_it_prints_nothing(shell, config):
    """It runs every five minutes: empty reports would fill the journal."""
    done = shell.process("wake", "--all", "--quiet")
    assert (done.code, done.raw, done.err) == (0, b"", "")


# ── what is carried over ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("kept", "{folder}/kept"),
        ("~/kept", "{folder}/kept"),
        ("jsonl:kept", "jsonl:{folder}/kept"),
        ("sqlite:kept.db", "sqlite:{folder}/kept.db"),
        ("sqlite:///x/kept.db", "sqlite:/x/kept.db"),
        ("postgresql://db.example/agents", "postgresql://db.example/agents"),
    ],
)
def test_the_store_is_written_as_an_absolute_path(shell, config, said, means):
    """`--store` and `WAKELOG_STORE` are resolved from the current folder."""
    told = read_by_systemd(shell("service", "show", "--json", "--store", said))
    assert environment_of(told)["WAKELOG_STORE"] == means.format(folder=shell.folder)


def test_the_environment_is_written_into_the_unit(shell, config, monkeypatch):
    monkeypatch.setenv("PATH", "/odd %n place/bin:/bin")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    monkeypatch.setenv("WAKELOG_CONFIG", "~/my own.toml")
    answer = shell("service", "show", "--json")
    told = environment_of(read_by_systemd(answer))
    assert told["PATH"] == "/odd %n place/bin:/bin"
    assert told["WAKELOG_CONFIG"] == f"{shell.folder}/my own.toml"
    assert told["WAKELOG_STORE"] == str(shell.store)
    assert "very-secret" not in answer.out
    assert answer.json["keys"] == f"{shell.folder}/my %h config/wakelog/environment"


@pytest.mark.parametrize("url", ["postgresql://me:hunter2@db/agents", "postgresql://db/agents?password=hunter2"])
def test_a_secret_in_the_store_stays_out(shell, config, url):
    """Law 14: every user may read a unit."""
    answer = shell("service", "show", "--store", url)
    assert "hunter2" not in answer.out + answer.err
    assert "WAKELOG_STORE" not in answer.out
    assert "WAKELOG_STORE=… into" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("--store", "memory:"),
        ("--store", "/a\nExecStart=/bin/sh"),
        ("--every", "10s"),
        ("--every", "soon"),
        ("--as", "root"),
        ("--force",),
        ("--system", "--as", "no such user"),
    ],
)
def test_invalid_options(shell, config, words):
    answer = shell("service", "show", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1


def test_an_interpreter_at_an_unusual_path(shell, config, monkeypatch):
    """The unit starts the interpreter that runs this command, with links unresolved: its environment needs them."""
    place = shell.folder / 'it\'s 100%h "mine" $HOME'
    place.mkdir()
    (place / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    assert shell("service", "install").code == 0
    assert str(place / "python") in words_of(read_by_systemd(shell("service", "show", "--json")))
    assert complaints(*(config / name for name in NAMES), scope="user") == ""


# ── who runs it ──────────────────────────────────────────────────────────────────────────────────


def test_running_agents_as_root_needs_a_flag(shell, system, monkeypatch):
    """Tools run as the user who wakes the session."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert shell("service", "install", "--system").code == 2
    assert not system.exists()
    monkeypatch.setenv("SUDO_USER", OTHER_USER)
    assert f"\nUser={OTHER_USER}\n" in shell("service", "show", "--system").out
    assert "\nUser=root\n" in shell("service", "show", "--system", "--as", "root").out


def test_the_default_store_of_another_user(shell, system, monkeypatch):
    """It is found at run time, from the configuration of that user: the unit does not name a store."""
    monkeypatch.delenv("WAKELOG_STORE")
    told = shell("service", "show", "--system", "--as", OTHER_USER).out
    assert "WAKELOG_STORE" not in told
    assert "EnvironmentFile=-/etc/wakelog/environment\n" in told
    assert "WAKELOG_STORE=/kept\n" in shell("service", "show", "--system", "--as", OTHER_USER, "--store", "/kept").out


# ── installing ───────────────────────────────────────────────────────────────────────────────────


def test_installing_twice_changes_nothing(shell, config):
    """Unchanged units are not even touched; the advice stays the same."""
    first = shell("service", "install")
    before = kept(config)
    again = shell("service", "install")
    assert (first.code, again.code) == (0, 0)
    assert kept(config) == before
    assert sorted(before) == NAMES
    assert [line.split()[0] for line in first.out.splitlines()] == ["written"] * 2
    assert [line.split()[0] for line in again.out.splitlines()] == ["unchanged"] * 2
    assert stat.S_IMODE((config / NAMES[0]).stat().st_mode) & 0o133 == 0
    for told in (first.err, again.err):
        assert "systemctl --user enable --now wakelog-wake.timer" in told
        assert "loginctl enable-linger" in told


def test_own_units_may_be_replaced(shell, config):
    """Another interval, another store: units written by wakelog are replaced; an unchanged unit is left alone."""
    shell("service", "install")
    states = [file["state"] for file in shell("service", "show", "--every", "1h", "--json").json["files"]]
    assert states == ["current", "older"]
    answer = shell("service", "install", "--every", "1h", "--json")
    assert [file["state"] for file in answer.json["files"]] == ["unchanged", "written"]
    assert "OnUnitInactiveSec=3600s" in (config / NAMES[1]).read_text()


def spoil_by_hand(path):
    path.write_text(path.read_text().replace("30s", "40s"))


def spoil_wholly(path):
    path.write_bytes(b"[Timer]\n\xff\n")


def spoil_by_mask(path):
    path.unlink()
    path.symlink_to("/dev/null")


def spoil_by_link(path):
    path.rename(path.with_suffix(".kept"))
    path.symlink_to(path.with_suffix(".kept"))


@pytest.mark.parametrize("spoil", [spoil_by_hand, spoil_wholly, spoil_by_mask, spoil_by_link])
def test_files_of_others_are_left_alone(shell, config, spoil):
    """Neither file is written if one of them has another author; `--force` overrides that."""
    shell("service", "install")
    spoil(config / NAMES[1])
    before = kept(config)
    answer = shell("service", "install", "--every", "2h", "--store", "elsewhere")
    assert answer.code == 5
    assert "--force" in answer.err
    assert kept(config) == before
    assert files_of(shell("service", "show", "--json"))[NAMES[1]]["state"] == "foreign"
    assert shell("service", "install", "--force").code == 0
    assert files_of(shell("service", "show", "--json"))[NAMES[1]]["state"] == "current"
    assert not (config / NAMES[1]).is_symlink()


def test_a_failed_write_leaves_the_old_file(shell, config, monkeypatch):
    """A file is replaced as a whole or not at all, and nothing is left beside it."""
    shell("service", "install")
    before = kept(config)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    answer = shell("service", "install", "--every", "1h")
    assert answer.code == 1
    assert "free some space" in answer.err
    assert kept(config) == before


def test_nothing_is_run(shell, config, system, monkeypatch):
    """The next commands are only printed."""

    def refuse(*_, **__):
        raise AssertionError("something was run")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "system", refuse)
    assert shell("service", "install").code == 0
    answer = shell("service", "install", "--system", "--as", OTHER_USER, "--json")
    assert answer.json["next"] == ["systemctl daemon-reload", "systemctl enable --now wakelog-wake.timer"]


# ── cron ─────────────────────────────────────────────────────────────────────────────────────────


def test_lines_for_cron(shell, config, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    answer = shell("service", "show", "--cron", "--every", "15m")
    boot, tick = answer.out.splitlines()
    assert boot.startswith("@reboot set -a; ")
    assert tick.startswith("*/15 * * * * set -a; ")
    assert "-P -m wakelog wake --all --quiet" in tick
    assert "crontab -e" in answer.err
    told = shell("service", "show", "--cron", "--every", "15m", "--json").json
    assert (told["files"][0]["text"], told["keys"]) == (answer.out, "~/.config/wakelog/environment")


def test_cron_for_the_system_names_the_user(shell, system, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    told = shell("service", "show", "--cron", "--system", "--as", OTHER_USER, "--json").json
    assert told["files"][0]["path"] == "/etc/cron.d/wakelog"
    assert told["files"][0]["text"].startswith(f"@reboot {OTHER_USER} set -a; ")


def test_a_crontab_is_not_installed(shell, config):
    answer = shell("service", "install", "--cron", "--json")
    assert answer.code == 2
    assert json.loads(answer.err)["error"]["hint"].startswith("`wakelog service show --cron`")
    assert not config.exists()
