"""What all verbs share: profiles, how much is printed, progress, completion; and every text as it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from putifabsent.cli import screen
from putifabsent.cli.app import app
from putifabsent.cli.arguments import PROFILE, command_line
from putifabsent.cli.screen import QUIET, VERBOSE, Screen
from tests.cli.texts import FILE, texts, verbs
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

PROFILES = """
[rack]
endpoint_url = http://127.0.0.1:9
key = 007
secret = s
arbiter = native
client_kwargs = {"region_name": "us-east-1"}
deadline = 1

[broken]
client_kwargs = {"region_name"
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    quiet, verbose, profile = QUIET.set(False), VERBOSE.set(False), PROFILE.set({})
    yield
    QUIET.reset(quiet)
    VERBOSE.reset(verbose)
    PROFILE.reset(profile)


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "putifabsent" / "profiles.ini"
    file.parent.mkdir()
    file.write_text(PROFILES)
    return file


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_profile_gives_the_options_of_a_mount(profiles: Path, file: str) -> None:
    with FaultStub() as stub:
        profiles.write_text(PROFILES.replace("http://127.0.0.1:9", stub.url("s3")))
        came = run("--profile", "rack", "put", file, "s3://bucket/name")
        assert came.exit_code == 0, came.stderr
        assert [each.op for each in stub.requests if each.op is Op.PUT] == [Op.PUT]
        assert "Credential=007/" in stub.requests[0].headers["authorization"]


def test_an_option_of_the_verb_itself_wins(profiles: Path, file: str) -> None:
    del profiles
    with FaultStub() as stub:
        came = run("--profile", "rack", "put", file, "s3://bucket/name", "--endpoint-url", stub.url("s3"))
    assert came.exit_code == 0, came.stderr


def test_a_profile_that_is_not_there_is_usage_and_says_which_are(profiles: Path) -> None:
    came = run("--profile", "shelf", "explain", "s3://bucket/name")
    assert came.exit_code == 2
    assert f"--profile shelf: {profiles} has no section [shelf]; it has rack, broken" in came.stderr


@pytest.mark.parametrize("text", ["key = value", "[rack\n", None])
def test_a_file_of_profiles_that_cant_be_read_is_usage(profiles: Path, text: str | None) -> None:
    if text is None:
        profiles.unlink()
    else:
        profiles.write_text(text)
    came = run("--profile", "rack", "explain", "s3://bucket/name")
    assert came.exit_code == 2
    assert f"--profile rack: {profiles} can't be read" in came.stderr


def test_a_value_that_begins_like_json_and_is_none_is_usage(profiles: Path) -> None:
    came = run("--profile", "broken", "explain", "s3://bucket/name")
    assert came.exit_code == 2
    assert f"{profiles}, client_kwargs: it begins like JSON, and is none" in came.stderr


def test_quiet_leaves_answers_and_errors(file: str) -> None:
    policy = ("policy", "s3://bucket/t", "--format", "delta")
    usual, quiet = run(*policy), run("-q", *policy)
    assert quiet.stdout == usual.stdout
    assert usual.stderr
    assert not quiet.stderr
    assert run("-q", "put", file, "nowhere://x").stderr.startswith("error: nowhere:// is not known here")


def test_verbose_says_what_has_led_to_an_error(file: str) -> None:
    def put(*before: str) -> Result:
        with FaultStub() as stub:
            stub.script(Op.PUT, Fault.FORBIDDEN_403)
            keys = ("-o", "key=k", "-o", "secret=s", "-o", "arbiter=native")
            return run(*before, "put", file, "s3://bucket/name", "--endpoint-url", stub.url("s3"), *keys)

    usual, verbose = put(), put("-v")
    assert usual.exit_code == verbose.exit_code == 4
    assert "caused by" not in usual.stderr
    assert "caused by" in verbose.stderr


def test_quiet_and_verbose_exclude_each_other() -> None:
    came = run("-q", "-v", "explain", "s3://bucket/name")
    assert came.exit_code == 2
    assert "--quiet and --verbose exclude each other" in came.stderr


def test_progress_in_a_pipe_is_a_line_now_and_then_with_an_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 1.0, 12.0, 13.0, 31.0, 44.0, 64.0, 84.0])
    monkeypatch.setattr(screen, "monotonic", lambda: next(now))
    with Screen(as_json=True).progress() as draw:
        draw(0, 100, "looking")  # at 1 s: too early for a line
        draw(50, 100, "looking")  # at 12 s
        draw(55, 100, "looking, at another name")  # too soon after it
        draw(60, 100, "looking, at another name")  # at 31 s, the same thing
        draw(0, 3, "judging")  # at 44 s, another thing
        draw(1, 3, "judging")
        draw(1, 80, "racing")  # of a first step no estimate is to be had
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.splitlines() == [
        "looking: 50 of 100, about 11 s left",
        "looking, at another name: 60 of 100, about 20 s left",
        "judging: 0 of 3",
        "judging: 1 of 3, about 40 s left",
        "racing: 1 of 80",
    ]


def test_quiet_draws_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(screen, "_SECONDS", 0)
    QUIET.set(True)
    with Screen(as_json=False).progress() as draw:
        draw(1, 3, "looking")
    assert not capsys.readouterr().err


def test_a_shell_completes_verbs() -> None:
    program = "import sys; sys.argv = ['putifabsent']; from putifabsent.cli import main; main()"
    variables = {"_PUTIFABSENT_COMPLETE": "complete_bash", "COMP_WORDS": "putifabsent ins", "COMP_CWORD": "1"}
    came = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert came.stdout.split() == ["inspect"]


def test_every_text_is_as_it_was_read() -> None:
    assert texts() == FILE.read_text()


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("secret=canary", "'secret=***'"),
        ("-osecret=canary", "'-osecret=***'"),
        ("--option=connection_string=AccountKey=canary", "'--option=connection_string=***'"),
        ('client_kwargs={"aws_secret_access_key": "canary"}', "'client_kwargs=***'"),
        ("redis://:can/ary@host/0", "'redis://***@host/0'"),
        ("arbiter=redis://user:canary@host/0", "'arbiter=redis://***@host/0'"),
        ("https://host/container?sig=canary", "'https://host/container?***'"),
        ("s3://bucket/table", "s3://bucket/table"),
        ("deadline=3", "deadline=3"),
    ],
)
def test_a_report_s_command_has_no_secret(monkeypatch: pytest.MonkeyPatch, word: str, shown: str) -> None:
    monkeypatch.setattr(sys, "argv", ["/venv/bin/putifabsent", "inspect", "s3://b/t", "-o", word])
    assert command_line() == f"putifabsent inspect s3://b/t -o {shown}"


def test_no_verb_is_left_out() -> None:
    shown = FILE.read_text()
    for verb in verbs():
        assert f"$ putifabsent {verb} --help" in shown
        assert shown.count(f"$ putifabsent {verb}") > 1 or verb in ("demo", "doctor")
