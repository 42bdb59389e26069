"""What the tests have done in child processes. It imports little: each spawned child does so, too."""

from __future__ import annotations

import multiprocessing
from functools import cache
from typing import TYPE_CHECKING, Any

import fsspec

from putifabsent import NameTaken

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60
BODY = b"mine"


def in_a_child(context: str, act: Callable[..., Any], *arguments: Any) -> Any:
    """Return what ``act`` returns in a child process, which is ended if it hangs."""
    (outcome,) = in_children(context, act, [arguments])
    return outcome


def in_children(context: str, act: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """Run a child process for each call, all at the same time."""
    processes = multiprocessing.get_context(context)
    pipes, children = [], []
    for arguments in calls:
        here, there = processes.Pipe(duplex=False)
        child = processes.Process(target=_report, args=(there, act, *arguments), daemon=True)  # type: ignore[attr-defined]
        child.start()
        there.close()
        pipes.append(here)
        children.append(child)
    try:
        outcomes = []
        for pipe in pipes:
            assert pipe.poll(SECONDS), "the child hangs"
            outcomes.append(pipe.recv())
        return outcomes
    finally:
        for child in children:
            child.kill()
            child.join()
            child.close()


def _report(pipe: Any, act: Callable[..., Any], *arguments: Any) -> None:
    try:
        pipe.send(act(*arguments))
    except BaseException as error:  # noqa: BLE001 - the parent judges it
        pipe.send(error)


def pipe_file(fs: Any, name: str, body: bytes, extra: dict[str, Any]) -> str | NameTaken:
    """Create, and say how that ended; in the parent and in children."""
    try:
        fs.pipe_file(name, body, **extra)
    except NameTaken as error:
        return error
    return "won"


def use_of_the_parents(file: Any, act: str) -> None:
    """Use a file that the parent has open."""
    if act == "write":
        file.write(b"the child's")
    elif act == "close":
        file.close()
    elif act == "seek":
        file.seek(0)
    else:
        with file:
            pass


def use(fs: Any, free: str, taken: str, extra: dict[str, Any]) -> dict[str, Any]:
    """Do a little of everything."""
    with fs.open(free, "wb") as file:
        file.write(BODY)
    again = pipe_file(fs, free, BODY, extra)
    assert isinstance(again, NameTaken)
    assert again.holder is not None
    outcomes = {
        "taken": pipe_file(fs, taken, BODY, extra),
        "read": fs.cat_file(free),
        "writer": fs.writer,
        "holder": again.holder,
        "resolved": fs.resolve(free, again.holder.token),
    }
    fs.rm(free)
    outcomes["removed"] = pipe_file(fs, free, b"once more", extra)
    return outcomes


def resolve(fs: Any, name: str, *tokens: str) -> list[Any]:
    """Ask for creations of a name, and collect the answers."""
    answers: list[Any] = []
    for token in tokens:
        try:
            answers.append(fs.resolve(name, token))
        except NameTaken as error:
            answers.append(error)
    return answers


def look_and_fork(options: dict[str, Any], protocol: str, name: str, extra: dict[str, Any]) -> Any:
    """Look only, then create in a forked child: by a process that has created nothing."""
    fs = fsspec.filesystem(protocol, arbiter="native", **options)
    assert fs.resolve(name, "a token") is None
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    return in_a_child("fork", pipe_file, fs, name, BODY, extra)


def nothing() -> None:
    """Begin, and end."""


def commit_at_once(options: dict[str, Any], root: str, sessions: list[str]) -> list[str]:
    """Commit one and the same instant in threads, each in a session of its own; return what failed."""
    from concurrent.futures import ThreadPoolExecutor

    import botocore.session

    from tests.fsspec_plugin.hudi_tables import Writer

    # As in the tests' own process: each session would read megabytes of JSON.
    botocore.session.create_loader = cache(botocore.session.create_loader)

    def commit(session: str) -> str:
        try:
            fs = fsspec.filesystem("pias3", writer_session=session, salt="keep-both", **options)
            Writer(fs, root).commits("100", session.encode())
        except Exception as error:  # noqa: BLE001 - the parent judges it
            return f"{session}: {error!r}"
        return ""

    with ThreadPoolExecutor(len(sessions)) as threads:
        return [failure for failure in threads.map(commit, sessions) if failure]


def enter(turn: Any) -> bool:
    """Take a turn, and give it back; say whether it was held."""
    with turn:
        return turn.number is not None
