"""The public verbs of a filesystem, each as a call on one name; others are named, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Fill = Mapping[str, str]
    Act = Callable[[Any, Fill], Any]

BODY = b"mine"
LARGE = b"m" * 2000


class Call:
    """A call in both colours; ``{name}``, its ``{folder}`` and others are filled in where they stand."""

    def __init__(self, method: str, *args: Any, colours: str = "sync async", **kwargs: Any) -> None:
        self.method = method
        self.colours = colours.split()
        self._args = args
        self._kwargs = kwargs

    def sync(self, fs: Any, fill: Fill) -> Any:
        return self._call(fs, self.method, fill)

    async def asynchronous(self, fs: Any, fill: Fill) -> Any:
        method = "open_async" if self.method == "open" else f"_{self.method}"
        return await self._call(fs, method, fill)

    def _call(self, fs: Any, method: str, fill: Fill) -> Any:
        return getattr(fs, method)(*filled(self._args, fill), **filled(self._kwargs, fill))


def filled(value: Any, fill: Fill) -> Any:
    if isinstance(value, str):
        return value.format_map(fill)
    if isinstance(value, (list, tuple)):
        return type(value)(filled(each, fill) for each in value)
    if isinstance(value, dict):
        return {filled(key, fill): filled(each, fill) for key, each in value.items()}
    return value


class Does:
    """What takes more than one call; in one colour, or with a twin in both."""

    def __init__(self, act: Act, twin: Act | None = None) -> None:
        self.sync = act
        self.asynchronous: Any = twin
        self.colours = ["sync"] if twin is None else ["sync", "async"]


def written(fs: Any, fill: Fill, mode: str, **options: Any) -> None:
    with fs.open(fill["name"], mode, **options) as file:
        file.write("mine" if "t" in mode else BODY)


def broken(fs: Any, fill: Fill) -> None:
    with fs.open(fill["name"], "wb") as file:
        file.write(BODY)
        raise RuntimeError("on the way")


def opened(fs: Any, fill: Fill) -> bytes:
    with fs.open(fill["name"], "rb") as file:
        found: bytes = file.read()
        return found


async def opened_async(fs: Any, fill: Fill) -> bytes:
    file = await fs.open_async(fill["name"], "rb")
    found: bytes = await file.read()
    await file.close()
    return found


def in_a_transaction(fs: Any, fill: Fill) -> None:
    with fs.transaction:
        written(fs, fill, "wb")


def walked(fs: Any, fill: Fill) -> Any:
    return [(root, sorted(folders), sorted(files)) for root, folders, files in fs.walk(fill["folder"])]


async def walked_async(fs: Any, fill: Fill) -> Any:
    walk = fs._walk(fill["folder"])
    return [(root, sorted(folders), sorted(files)) async for root, folders, files in walk]


Verb = Call | Does

CREATING: dict[str, Verb] = {
    "pipe_file": Call("pipe_file", "{name}", BODY),
    "pipe_file create": Call("pipe_file", "{name}", BODY, mode="create"),
    "pipe_file large": Call("pipe_file", "{name}", LARGE),
    "pipe": Call("pipe", "{name}", BODY),
    "write_bytes": Call("write_bytes", "{name}", BODY, colours="sync"),
    "write_text": Call("write_text", "{name}", "mine", colours="sync"),
    "put_file": Call("put_file", "{disk}/file", "{name}"),
    "put_file create": Call("put_file", "{disk}/file", "{name}", mode="create"),
    "put": Call("put", "{disk}/file", "{name}"),
    "cp_file": Call("cp_file", "{source}", "{name}"),
    "cp_file large": Call("cp_file", "{large}", "{name}"),
    "copy": Call("copy", "{source}", "{name}"),
    "mv": Call("mv", "{source}", "{name}", colours="sync"),
    "mv_file": Call("mv_file", "{source}", "{name}", colours="async"),
    "touch": Call("touch", "{name}"),
    "touch, not truncating": Call("touch", "{name}", truncate=False),
    "open wb": Does(lambda fs, fill: written(fs, fill, "wb")),
    "open xb": Does(lambda fs, fill: written(fs, fill, "xb")),
    "open wt": Does(lambda fs, fill: written(fs, fill, "wt")),
    "open wb, compressed": Does(lambda fs, fill: written(fs, fill, "wb", compression="gzip")),
    "open wb that breaks": Does(broken),
    "open wb in a transaction": Does(in_a_transaction),
    "open ab": Does(lambda fs, fill: written(fs, fill, "ab")),
    "open_async wb": Call("open", "{name}", "wb", colours="async"),
}
_TWO = ["{folder}/00000000000000000001.json", "{folder}/00000000000000000000.json"]
MANY: dict[str, Verb] = {
    "pipe, higher number first": Call("pipe", dict.fromkeys(_TWO, BODY)),
    "put of lists": Call("put", ["{disk}/file"] * 2, _TWO),
    "put of a folder": Call("put", "{disk}/log/", "{folder}/", recursive=True),
    "copy of lists": Call("copy", ["{source}", "{source}"], _TWO),
    "copy of a folder": Call("copy", "{log}/", "{folder}/", recursive=True),
    "mv of a folder": Call("mv", "{log}/", "{folder}/", recursive=True, colours="sync"),
}
REMOVING: dict[str, Verb] = {
    "rm": Call("rm", "{name}"),
    "rm of a list": Call("rm", ["{name}"]),
    "rm of a pattern": Call("rm", "{folder}/*"),
    "rm of a folder": Call("rm", "{folder}", recursive=True),
    "rm_file": Call("rm_file", "{name}"),
    "mv away": Call("mv", "{name}", "{away}", colours="sync"),
    "mv_file away": Call("mv_file", "{name}", "{away}", colours="async"),
}
READING: dict[str, Verb] = {
    "open rb": Does(opened, opened_async),
    "cat": Call("cat", "{name}"),
    "cat of a list": Call("cat", ["{name}", "{source}"]),
    "cat_file": Call("cat_file", "{name}"),
    "cat_file of a range": Call("cat_file", "{name}", start=1, end=3),
    "cat_ranges": Call("cat_ranges", ["{name}", "{name}"], [0, 2], [2, 4]),
    "head": Call("head", "{name}", 2, colours="sync"),
    "tail": Call("tail", "{name}", 2, colours="sync"),
    "read_block": Call("read_block", "{name}", 0, 2, colours="sync"),
    "read_bytes": Call("read_bytes", "{name}", colours="sync"),
    "read_text": Call("read_text", "{name}", colours="sync"),
    "get_file": Call("get_file", "{name}", "{disk}/got"),
    "get": Call("get", "{name}", "{disk}/got"),
    "get of a folder": Call("get", "{folder}", "{disk}/got", recursive=True),
    "cp_file away": Call("cp_file", "{name}", "{away}"),
    "info": Call("info", "{name}"),
    "exists": Call("exists", "{name}"),
    "lexists": Call("lexists", "{name}", colours="sync"),
    "isfile": Call("isfile", "{name}"),
    "isdir": Call("isdir", "{name}"),
    "size": Call("size", "{name}"),
    "sizes": Call("sizes", ["{name}"]),
    "created": Call("created", "{name}", colours="sync"),
    "modified": Call("modified", "{name}", colours="sync"),
    "ls": Call("ls", "{folder}", detail=False),
    "ls in detail": Call("ls", "{folder}", detail=True),
    "ls of a file": Call("ls", "{name}", detail=False),
    "find": Call("find", "{folder}"),
    "glob": Call("glob", "{folder}/*"),
    "walk": Does(walked, walked_async),
    "tree": Call("tree", "{folder}", colours="sync"),
    "du": Call("du", "{folder}"),
    "expand_path": Call("expand_path", "{folder}", recursive=True),
}
FOLDERS: dict[str, Verb] = {
    "mkdir": Call("mkdir", "{folder}/new"),
    "makedirs": Call("makedirs", "{folder}/new/er", exist_ok=True),
    "rmdir": Call("rmdir", "{folder}"),
}
LEFT_OUT = {
    "checksum ukey sign": "the wrapped filesystem's own, by the same way as created and modified",
    "get_mapper": "fsspec's own, of pipe, cat, find and rm_file",
    "cp move rename delete upload download stat listdir disk_usage makedir mkdirs": "fsspec's aliases",
    "start_transaction end_transaction transaction_type": "what a transaction is begun and ended by",
    "clear_instance_cache current from_dict from_json to_dict to_json": "fsspec's own, of instances",
    "invalidate_cache unstrip_protocol": "ask nobody",
}
