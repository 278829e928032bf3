"""Units and crontab lines as texts: for any path, systemd, cron and the shell read what was meant."""

import subprocess
from typing import Any

import pytest

from tests.cli.systemd import complaints, environment_of, understood, words_of
from wakelog.cli.commands.service import ServicePlan, Unit, cron_lines, is_unchanged, units
from wakelog.errors import UsageError

# Each has a special meaning for systemd: specifiers, variables, quotes, escapes, separators, patterns.
HOSTILE = (
    "/a b/%h %% %n",
    "/$HOME/${HOME}/$$",
    '/it\'s/"so"/`id`',
    "/back\\slash/\\n\\x41/end\\",
    "/semi ; colon/#hash",
    "/*/[a-z]?/{x}",
    "/ünïcode/😀",
    "  /blanks  ",
    "",
    "-",
    "@+!:|",
)


def planned(**changed):
    given: dict[str, Any] = {
        "words": ("/bin/true", "wake"),
        "keys_file": "%h/.config/wakelog/environment",
        "every_s": 300,
    }
    return ServicePlan(**given | changed)


def test_systemd_reads_what_was_written():
    """Law 13: words and variables reach the process unchanged; systemd's own parser reads them here."""
    environment = {f"V{number}": text for number, text in enumerate(HOSTILE)}
    read = understood(*units(planned(words=("/bin/true", *HOSTILE), environment=environment)))["wakelog-wake.service"]
    assert words_of(read) == ["/bin/true", *HOSTILE]
    assert environment_of(read) == environment
    # The dump shows the words before variables are expanded; the colon says that none are.
    assert "\nExecStart=:/bin/true " in units(planned(words=("/bin/true", "$HOME")))[0].text


@pytest.mark.parametrize("folder", [text for text in HOSTILE if text.startswith("/")])
def test_a_program_may_have_any_path(tmp_path, folder):
    """systemd starts no program with a quote in its path; a shell starts it instead."""
    program = tmp_path / folder[1:] / "program"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    program.chmod(0o755)
    service, timer = units(planned(words=(str(program), *HOSTILE)))
    read = understood(service, timer)["wakelog-wake.service"]
    assert ("Unit Load State", "loaded") in read
    said = subprocess.run(words_of(read), env={"HOME": "/"}, capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"<{word}>" for word in HOSTILE)
    (tmp_path / service.name).write_text(service.text)
    assert complaints(tmp_path / service.name, scope="user") == ""


def test_the_file_of_keys():
    """A file beside the unit, which may be missing; `%h` is the home, any other percent sign is itself."""
    service, _ = units(planned())
    assert "EnvironmentFile=-%h/.config/wakelog/environment\n" in service.text
    service, _ = units(planned(keys_file="/my config/100%h [x]/environment"))
    assert "EnvironmentFile=-/my config/100%%h \\[x]/environment\n" in service.text


def test_the_timer():
    """Soon after the start, then an interval after each end."""
    read = understood(*units(planned(every_s=900)))["wakelog-wake.timer"]
    wanted = {"Unit": "wakelog-wake.service", "OnStartupSec": "30s", "OnUnitInactiveSec": "15min"}
    assert wanted.items() <= dict(read).items()


@pytest.mark.parametrize("text", ["/a\nExecStart=/bin/sh", "/a\rb", "/a\tb", "/a\x00b", "/a\x1b[31m", "/a\udc80b"])
@pytest.mark.parametrize("make", [units, cron_lines])
def test_text_that_cannot_be_written_is_refused(make, text):
    """Law 13: no path or variable can add a line to a unit or a crontab."""
    places = ({"words": (text,)}, {"environment": {"A": text}}, {"keys_file": text}, {"user": text})
    for given in places[: 3 if make is cron_lines else 4]:
        with pytest.raises(UsageError, match="cannot be written into a unit"):
            make(planned(**given))


def test_an_edited_unit_is_not_recognised():
    service, timer = units(planned())
    assert is_unchanged(service.text)
    assert is_unchanged(timer.text)
    for theirs in (service.text + "\n", service.text.replace("oneshot", "simple"), service.text[1:], "", "# hello\n"):
        assert not is_unchanged(theirs)


# ── cron ─────────────────────────────────────────────────────────────────────────────────────────


def as_cron_reads(line, user=""):
    """Return the schedule, and what a shell gets: a percent sign with a backslash is a percent sign."""
    fields = 1 if line.startswith("@") else 5
    *when, command = line.split(" ", fields)
    if user:
        found, command = command.split(" ", 1)
        assert found == user
    assert "%" not in command.replace("\\%", "")
    return " ".join(when), command.replace("\\%", "%")


@pytest.fixture
def tools(tmp_path):
    """A folder with a `logger` that stores its input, and a program that prints its arguments."""
    folder = tmp_path / "my bin%"
    folder.mkdir()
    for name, script in (
        ("logger", f'cat > "{tmp_path}/logged"'),
        ("program", 'echo loud; env >&2; printf "<%s>" "$@" >&2'),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def test_a_shell_reads_what_was_written(tmp_path, tools):
    """Law 13, for cron: words, store and keys arrive; text of agents is dropped, the rest is logged."""
    hostile = [text for text in HOSTILE if "\\" not in text]
    keys = tmp_path / "my keys"
    keys.write_text("SOME_KEY='a b'\nA=overruled\n")
    plan = planned(
        words=(str(tools / "program"), *hostile),
        environment={"PATH": f"{tools}:/usr/bin:/bin", "WAKELOG_STORE": hostile[0], "A": "x"},
        keys_file=str(keys),
    )
    boot, tick = cron_lines(plan)
    (at_boot, command), (at_tick, again) = as_cron_reads(boot), as_cron_reads(tick)
    assert (at_boot, at_tick, command) == ("@reboot", "*/5 * * * *", again)
    done = subprocess.run(["/bin/sh", "-c", command], env={"HOME": str(tmp_path)}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    logged = (tmp_path / "logged").read_text()
    assert logged.endswith("".join(f"<{word}>" for word in hostile))
    assert {f"WAKELOG_STORE={hostile[0]}", "SOME_KEY=a b", "A=overruled"} <= set(logged.splitlines())
    assert "loud" not in logged


def test_a_missing_file_of_keys_in_the_home(tmp_path, tools):
    plan = planned(words=(str(tools / "program"), "x"), environment={"PATH": f"{tools}:/usr/bin:/bin"}, user="ann")
    _, command = as_cron_reads(cron_lines(plan)[1], user="ann")
    assert '"$HOME/.config/wakelog/environment"' in command
    subprocess.run(["/bin/sh", "-c", command], env={"HOME": str(tmp_path)}, check=True)
    assert (tmp_path / "logged").read_text().endswith("<x>")


@pytest.mark.parametrize(
    ("every_s", "when"), [(60, "*/1"), (900, "*/15"), (3600, "0 */1"), (43_200, "0 */12"), (86_400, "0 0")]
)
def test_intervals_that_cron_can_express(every_s, when):
    assert cron_lines(planned(every_s=every_s))[1].startswith(when)


@pytest.mark.parametrize("every_s", [90, 420, 5_400, 18_000, 172_800])
def test_intervals_that_cron_cannot_express(every_s):
    """Every seven minutes would leave a gap of four at the hour: refused, not rounded."""
    with pytest.raises(UsageError, match="cannot express this interval"):
        cron_lines(planned(every_s=every_s))


def test_text_that_crons_read_differently_is_refused():
    with pytest.raises(UsageError, match="backslash"):
        cron_lines(planned(words=("/a\\b",)))
    with pytest.raises(UsageError, match="too long"):
        cron_lines(planned(environment={"PATH": "/a" * 500}))


def test_an_unescaped_unit_is_read_differently():
    """The tests above can fail."""
    bare = Unit("wakelog-wake.service", '[Service]\nType=oneshot\nEnvironment=A=%%h\nExecStart=:/bin/true "%h"\n')
    read = understood(bare)["wakelog-wake.service"]
    assert words_of(read) != ["/bin/true", "%h"]
    assert environment_of(read) == {"A": "%h"}
