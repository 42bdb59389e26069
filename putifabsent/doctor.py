"""Whether this machine and a store are ready: one look at each thing that a mount rests on.

Nothing is written, neither here nor there. What is found shows no credential, only of which kind it is. What
a race alone can tell is for ``putifabsent probe`` to say.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import ssl
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from filecmp import cmp
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit

from fsspec.asyn import sync

from putifabsent import __version__
from putifabsent.backends.base import TOKEN_KEY, Listed, Refused, http_date
from putifabsent.backends.probe_cache import BESIDE, NEEDED, recall
from putifabsent.errors import ConfigError, sentence_of
from putifabsent.fsspec_plugin.protocols import guarded
from putifabsent.shim.arbiter_choice import needs_probe
from putifabsent.spark.settings import ADDRESS, HADOOP, SECRET, SESSION, jar

if TYPE_CHECKING:
    from email.message import Message

    from fsspec.spec import AbstractFileSystem

    from putifabsent.fsspec_plugin import GuardedFileSystem

_SECONDS = 5.0  # how long any one answer is waited for

_DRIFT = 5.0
_REFUSED_SKEW = 900.0
"""Seconds between two clocks: what is worth a look, and what stores refuse signed requests for."""

_OLDEST_JAVA = 11
_NO_XATTRS = (95, 38)  # EOPNOTSUPP, ENOSYS
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[.*?\])?>=([0-9.]+); extra == '([a-z0-9]+)'")
_BY_METHOD = {
    "container-role": "the container's role",
    "env": "environment variables",
    "explicit": "a key and its secret among the options",
    "iam-role": "this machine's role",
    "shared-credentials-file": "the shared credentials file",
}
_EXTRAS = {
    "adlfs": "azure", "azure": "azure",
    "gcsfs": "gcs", "google": "gcs",
    "s3fs": "s3", "aiobotocore": "s3", "botocore": "s3", "obstore": "s3",
    "aiohttp": "service", "pydantic": "service",
    "duckdb": "lab", "matplotlib": "lab", "numpy": "lab",
    "fastavro": "timeline",
    "localbucket": "demo", "pyarrow": "demo", "pypaimon": "demo",
}  # fmt: skip
_ADAPTER = "putifabsent-hadoop*.jar"


class Verdict(str, Enum):
    """Of one check: all is well, something may go wrong, something will."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    subject: str
    verdict: Verdict
    found: str  # what was seen; never a credential
    do: str = ""  # what to do about it; empty where nothing is to be done


class _Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


def examine(url: str | None = None, *, address: str | None = None, **options: Any) -> Iterator[Check]:
    """Look at this machine, and at a store; a check as soon as it is done.

    ``url`` is where a table is, or is going to be; None: no store is looked at. ``address`` is where the
    coordination service is, or several with commas between; by default as in Spark's defaults. The options
    are of the mount, and of the filesystem that it wraps; ``ConfigError``: one of them is wrong.
    """
    yield Check("putifabsent", Verdict.OK, f"{__version__}, Python {platform.python_version()}")
    yield from _packages()
    if url is not None:
        yield from _store(url, options)
    defaults = _spark_defaults()
    yield from _for_spark(defaults)
    for each in (address or defaults.get(HADOOP + ADDRESS, "")).split(","):
        if each.strip():
            yield from _service(each.strip())


# --- what is installed


def _packages() -> Iterator[Check]:
    needs: dict[str, dict[str, str]] = {}
    for line in requires("putifabsent") or ():
        if match := _REQUIREMENT.fullmatch(line):
            name, least, extra = match.groups()
            needs.setdefault(extra, {})[name] = least
    there = {name: _version(name) for name in sorted({name for each in needs.values() for name in each})}
    whole = [extra for extra, names in needs.items() if all(there[name] for name in names)]
    missing = ", ".join(extra for extra in needs if extra not in whole)
    found = f"{', '.join(whole) or 'none'} installed"
    yield Check("extras", Verdict.OK, f"{found}; {missing} not" if missing else found)
    installed = {name: number for name, number in there.items() if number}
    old = {
        extra: f"{name} {installed[name]} is older than {least}"
        for extra, names in needs.items()
        for name, least in names.items()
        if name in installed and _numbers(installed[name]) < _numbers(least)
    }
    listed = ", ".join(f"{name} {number}" for name, number in installed.items())
    if old:
        extras = ",".join(extra for extra in old if extra != "all")
        listed = f"{'; '.join(dict.fromkeys(old.values()))}. Installed: {listed}"
        yield Check("packages", Verdict.WRONG, listed, f"pip install 'putifabsent[{extras}]'")
    else:
        yield Check("packages", Verdict.OK, listed or "none of those that extras bring")


def install_of(error: ImportError) -> str:
    """Return what installs the package that is missing."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0], "all")
    return f"pip install 'putifabsent[{extra}]'"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"[0-9]+", text)[:3]))


# --- the store


def _store(url: str, options: Mapping[str, Any]) -> Iterator[Check]:
    try:
        # The mount's own deadline is for creations, this one for a look. A filesystem that was made before
        # may have credentials that are there no more.
        fs, path = guarded(url, **{"deadline": _SECONDS, "skip_instance_cache": True, **options})
        kind, endpoint = fs.backend.kind, fs.backend.endpoint()
    except ImportError as error:
        yield Check("store", Verdict.WRONG, f"{error.name or error} is not installed", install_of(error))
        return
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - clients look for credentials as they are made, and say what they like
        do = "Correct the credentials or the options (-o)."
        yield Check("store", Verdict.WRONG, sentence_of(error), do)
        return
    others: Check | None = None
    if endpoint is None:
        others = _others(fs, path)
        yield _disk(path) if kind == "local" else Check("store", Verdict.OK, f"{kind}: this process's own")
    else:
        yield (credentials := _credentials(kind, fs.fs))
        bucket = path.strip("/").partition("/")[0]
        answer = yield from _endpoint(endpoint, bucket)
        if answer is None:
            return
        # Without credentials there is no client to ask.
        if credentials.verdict is not Verdict.WRONG:
            if kind == "s3":
                yield _region(fs.fs, bucket, answer)
            yield _bucket(fs, path, bucket)
            others = _others(fs, path)
    yield others or _who_decides(fs, url, path, kind, endpoint)


def _disk(path: str) -> Check:
    folder = next(each for each in (Path(path).absolute(), *Path(path).absolute().parents) if each.exists())
    if not folder.is_dir():
        return Check("store", Verdict.WRONG, f"{folder} is no folder", "Name a folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check("store", Verdict.WRONG, f"{folder}: this user may not write there", "Give it the right.")
    try:
        os.getxattr(folder, f"user.{TOKEN_KEY}")
    except OSError as error:
        if error.errno in _NO_XATTRS:
            found = f"{folder} has no user extended attributes, which hold tokens"
            return Check("store", Verdict.WRONG, found, "Use a filesystem that has them.")
    found = f"{folder}: writable, with user extended attributes"
    return Check("store", Verdict.OK, found if folder == Path(path) else f"{path} is not there yet; {found}")


def _credentials(kind: str, fs: AbstractFileSystem) -> Check:
    try:
        found = {"s3": _of_s3, "gcs": _of_gcs, "azure": _of_azure}[kind](fs)
    except Exception as error:  # noqa: BLE001 - each client says in its own way that it has none
        do = "Correct the profile, the file or the option that it names."
        return Check("credentials", Verdict.WRONG, sentence_of(error), do)
    if found is None:
        do = "Set them in the environment or by -o, or say -o anon=true for a public bucket."
        return Check("credentials", Verdict.WRONG, "none were found", do)
    if found == "anonymous":
        do = "Nothing, if the store lets strangers write; else give it credentials."
        return Check("credentials", Verdict.WARNING, "none: requests go out unsigned", do)
    return Check("credentials", Verdict.OK, found)


def _of_s3(fs: Any) -> str | None:
    if fs.anon:
        return "anonymous"
    credentials = _client(fs)._request_signer._credentials  # noqa: SLF001 - there is no other way to ask
    return credentials and _BY_METHOD.get(credentials.method, str(credentials.method))


def _client(fs: Any) -> Any:
    return sync(fs.loop, fs.set_session)


def _of_gcs(fs: Any) -> str:
    made = fs.credentials.credentials
    return "anonymous" if made is None else f"{fs.credentials.method}: {type(made).__module__}"


def _of_azure(fs: Any) -> str:
    kinds = ("connection_string", "account_key", "sas_token", "credential")
    kind = next((each for each in kinds if getattr(fs, each, None)), "anonymous")
    return type(fs.credential).__name__ if kind == "credential" else kind


def _endpoint(endpoint: str, bucket: str) -> Generator[Check, None, _Answer | None]:
    """Ask for nothing, and without credentials: whoever answers says what time it is."""
    shown = _without_password(endpoint)
    began = time.time()
    try:
        answer = _ask("HEAD", f"{shown.rstrip('/')}/{quote(bucket)}")
    except OSError as error:
        do = "See to the address (--endpoint-url), the network, and the proxy."
        yield Check("endpoint", Verdict.WRONG, f"{shown}: {_why(error)}", do)
        return None
    ended = time.time()
    yield Check("endpoint", Verdict.OK, f"{shown} answers in {1000 * (ended - began):.0f} ms")
    yield _clock(answer, began, ended)
    return answer


def _clock(answer: _Answer, began: float, ended: float) -> Check:
    date = http_date(answer.headers.get("Date"))
    if date is None:
        return Check("clock", Verdict.WARNING, "the store does not say its time", "")
    # It says the second that had begun, at a moment between the two.
    earliest, latest = began - date.timestamp() - 1, ended - date.timestamp()
    apart = max(earliest, 0.0) or min(latest, 0.0)
    found = f"this machine is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} the store"
    if abs(apart) <= _DRIFT:
        return Check("clock", Verdict.OK, f"within {_DRIFT:.0f} s of the store's")
    if abs(apart) < _REFUSED_SKEW:
        do = "Set it by NTP: Hudi's writers take their instants from it."
        return Check("clock", Verdict.WARNING, found, do)
    return Check("clock", Verdict.WRONG, found, "Set it by NTP: stores refuse signed requests from so far.")


def _region(fs: Any, bucket: str, answer: _Answer) -> Check:
    theirs = answer.headers.get("x-amz-bucket-region")
    ours = _client(fs).meta.region_name
    if theirs is None:
        return Check("region", Verdict.OK, f"{ours or 'none'}; the store does not say which is {bucket}'s")
    if theirs == ours:
        return Check("region", Verdict.OK, ours)
    do = f"AWS_DEFAULT_REGION={theirs}: else requests are redirected, or refused."
    return Check("region", Verdict.WARNING, f"{bucket} is in {theirs}, and this client in {ours}", do)


def _bucket(fs: GuardedFileSystem, path: str, bucket: str) -> Check:
    """Look for the bucket, and into a folder that hardly anybody has, for the right to list."""
    try:
        # A listing alone would not tell: of a bucket that is not there it has no entries.
        if fs.backend.kind == "s3":
            sync(fs.fs.loop, _client(fs.fs).head_bucket, Bucket=bucket)
        elif not fs.fs.exists(bucket):
            return Check("bucket", Verdict.WRONG, f"{bucket} is not there", "Make it, or correct its name.")
        outcome = fs.backend.list(f"{path.rstrip('/')}/.putifabsent/doctor")
    except Exception as error:  # noqa: BLE001 - each client says in its own way what is wrong
        do = "See to the bucket's name, the endpoint and the credentials."
        return Check("bucket", Verdict.WRONG, f"{bucket}: {sentence_of(error)}", do)
    if isinstance(outcome, Listed):
        return Check("bucket", Verdict.OK, f"{bucket} is there, and may be listed")
    why = sentence_of(outcome.error if isinstance(outcome, Refused) else outcome.cause)
    do = "Grant the right to list it (s3:ListBucket): without, a lost answer can't be settled."
    return Check("bucket", Verdict.WRONG, f"{bucket} can't be listed: {why}", do)


def _others(fs: GuardedFileSystem, path: str) -> Check | None:
    """Say that other mounts of the table let another arbiter decide, if they do."""
    try:
        fs.refuse_other_arbiters(path.rstrip("/"))
    except ConfigError as error:
        return Check("arbiter", Verdict.WRONG, str(error))
    except Exception:  # noqa: BLE001, S110 - a server that does not answer as a store has checks of its own
        pass
    return None


def _who_decides(fs: GuardedFileSystem, url: str, path: str, kind: str, endpoint: str | None) -> Check:
    arbiter, by_the_store = fs.mount.options.arbiter, fs.mount.by_the_store
    who = "the store itself" if by_the_store else arbiter.partition(":")[0]
    if not needs_probe(arbiter, kind, endpoint):
        how = f", without a probe ({arbiter})" if by_the_store else "; `putifabsent init` checks a registry's"
        return Check("arbiter", Verdict.OK, f"{who}{how}")
    known, wanted = recall(kind, endpoint, path), NEEDED if by_the_store else BESIDE
    if unsafe := [word for word in wanted if word in known and not known[word].safe]:
        do = "Keep the table on another store: all arbiters beside a store rest on that."
        if by_the_store:
            do = "Name an arbiter beside the store (-o arbiter=ballot), the same in all mounts."
        return Check("arbiter", Verdict.WRONG, f"a probe found the store unsafe: {', '.join(unsafe)}", do)
    if all(word in known for word in wanted):
        return Check("arbiter", Verdict.OK, f"{who}: a probe found no fault in the store")
    more = "" if by_the_store else "".join(f" --operation {word}" for word in wanted)
    do = f"putifabsent probe {url}{more}, with the same options, says now what the first mount would."
    return Check("arbiter", Verdict.WARNING, f"{who}, and nobody has probed the store lately", do)


# --- Spark


def _spark_defaults() -> dict[str, str]:
    """Return what spark-defaults.conf says; nothing where there is none."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    if folder is None:
        return {}
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in lines)
    return {key: value for key, *rest in pairs if key[:1] not in ("#", "") for value in rest}


def _for_spark(defaults: Mapping[str, str]) -> Iterator[Check]:
    home = os.environ.get("SPARK_HOME") or None
    ours = None
    try:
        ours = Path(jar())
        yield _adapter(ours)
    except ConfigError as error:
        yield Check("adapter", Verdict.WRONG if home else Verdict.WARNING, str(error), "")
    yield _java(is_needed=home is not None)
    if f"{HADOOP}{SESSION}" in defaults:
        found = f"spark-defaults.conf sets {SESSION}, by which all applications are one"
        yield Check("Spark's session", Verdict.WRONG, found, "Give it to each application by --conf.")
    if home is not None:
        yield from _class_path(Path(home, "jars"), defaults, ours)


def _adapter(file: Path) -> Check:
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = archive.read("META-INF/MANIFEST.MF").decode()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        do = "Install putifabsent again, or `make jar` in a checkout."
        return Check("adapter", Verdict.WRONG, f"{file} is no jar: {error}", do)
    match = re.search(r"^Implementation-Version: (\S+)", manifest, re.MULTILINE)
    if match is None or match[1] != __version__:
        found = f"{file} is of version {match[1] if match else 'unknown'}, and this is {__version__}"
        return Check("adapter", Verdict.WARNING, found, "Install putifabsent again, or `make jar`.")
    return Check("adapter", Verdict.OK, f"{match[1]}, {file}")


def _java(*, is_needed: bool) -> Check:
    bad, do = Verdict.WARNING, "Only Spark wants one."
    if is_needed:
        bad, do = Verdict.WRONG, "Spark wants one: 11 or later, 17 for PySpark 4. Set JAVA_HOME."
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else shutil.which("java")
    if command is None:
        return Check("Java", bad, "none in JAVA_HOME or on the PATH", do)
    try:
        ended = subprocess.run(  # noqa: S603 - the user's own Java, as Spark would start it
            [command, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("Java", bad, f"{command} does not run: {_why(error)}", do)
    match = re.search(r'version "((?:1\.)?([0-9]+)[^"]*)"', ended.stderr)
    if match is None:
        return Check("Java", bad, f"{command} does not say its version", do)
    found, is_well = f"{match[1]}, {command}", int(match[2]) >= _OLDEST_JAVA
    return Check("Java", Verdict.OK, found) if is_well else Check("Java", bad, found, do)


def _class_path(folder: Path, defaults: Mapping[str, str], ours: Path | None) -> Iterator[Check]:
    if not folder.is_dir():
        yield Check("Spark's jars", Verdict.WRONG, f"{folder} is no folder", "Correct SPARK_HOME.")
        return
    copies = sorted(folder.glob(_ADAPTER))
    named = ",".join(defaults.get(key, "") for key in ("spark.jars", "spark.driver.extraClassPath"))
    elsewhere = (Path(each.strip()) for each in re.split(r"[,:]", named))
    all_copies = [*copies, *(each for each in elsewhere if each.match(_ADAPTER))]
    others = [each for each in all_copies if ours and each.is_file() and not cmp(each, ours, shallow=False)]
    if others:
        found = f"another adapter than this package's: {', '.join(map(str, others))}"
        yield Check("Spark's jars", Verdict.WRONG, found, f"Replace it by {ours}.")
    elif len(copies) > 1:
        found = f"the adapter is there twice: {', '.join(map(str, copies))}"
        yield Check("Spark's jars", Verdict.WARNING, found, "Remove one.")
    else:
        there = "the adapter is there" if copies else "no adapter there, which mount() brings along"
        yield Check("Spark's jars", Verdict.OK, f"{folder}: {there}")
    if (hudi := next(folder.glob("hudi-*bundle*.jar"), None)) and not copies:
        do = f"Put the adapter there, too, or give spark-submit --driver-class-path {ours or 'ADAPTER'}."
        found = f"{hudi.name} is in {folder}, from where it sees no lock provider of spark.jars"
        yield Check("Hudi's bundle", Verdict.WARNING, found, do)


# --- the coordination service


def _service(address: str) -> Iterator[Check]:
    at = _without_password(address).rstrip("/")
    try:
        answer = _ask("GET", f"{at}/v1/health", direct=True)
        health = json.loads(answer.body)
        theirs, status = str(health["version"]), str(health["status"])
    except OSError as error:
        do = "Start it (putifabsent serve), or correct the address."
        yield Check("service", Verdict.WRONG, f"{at}: {_why(error)}", do)
        return
    except (KeyError, TypeError, ValueError):
        found = f"{at} answers, and is no coordination service"
        yield Check("service", Verdict.WRONG, found, "Correct the address.")
        return
    if status != "ok":
        yield Check("service", Verdict.WARNING, f"{at} is about to end ({status})", "Look again in a minute.")
    elif theirs != __version__:
        found = f"{at} is of version {theirs}, and this is {__version__}"
        yield Check("service", Verdict.WARNING, found, "Run one version of both.")
    else:
        yield Check("service", Verdict.OK, f"{at} answers, version {theirs}")
    yield _secret(at)


def _secret(at: str) -> Check:
    secret = os.environ.get(SECRET)
    if not secret:
        return Check("secret", Verdict.WARNING, f"{SECRET} is not set here", "Set it, to have it tried.")
    try:
        answer = _ask("GET", f"{at}/v1/metrics", direct=True, Authorization=f"Bearer {secret}")
    except (OSError, ValueError) as error:
        return Check("secret", Verdict.WRONG, _why(error).replace(secret, "..."), "Look again.")
    if answer.status == 401:  # noqa: PLR2004 - HTTP's
        return Check("secret", Verdict.WRONG, "the service refuses it", f"Correct {SECRET}.")
    return Check("secret", Verdict.OK, "the service accepts it")


# --- asking


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: a request from here, with its secret, goes to one host alone."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _ask(method: str, url: str, *, direct: bool = False, **headers: str) -> _Answer:
    """Send one request, past all proxies if it is ``direct``; any status is an answer, none ``OSError``."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise OSError(f"{url} is no address of HTTP")
    handlers: list[Any] = [_NoRedirect, *([urllib.request.ProxyHandler({})] if direct else [])]
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - checked above
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_SECONDS) as answer:
            return _Answer(answer.status, answer.headers, answer.read())
    except HTTPError as error:
        return _Answer(error.code, error.headers, error.read())
    except HTTPException as error:
        raise OSError(f"what answers speaks no HTTP: {type(error).__name__}") from error


def _without_password(address: str) -> str:
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here: {reason.verify_message}"
    if isinstance(reason, TimeoutError):
        return f"no answer in {_SECONDS:.0f} s"
    return sentence_of(reason) if isinstance(reason, Exception) else str(reason)
