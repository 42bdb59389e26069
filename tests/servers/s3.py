"""The S3 servers. What each really guarantees was read off by racing it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.lab.servers import LocalBucket
from tests.servers.base import BucketServer, Kind
from tests.servers.installed import installed
from tests.servers.process import Process, free_port, http_answers

if TYPE_CHECKING:
    from contextlib import ExitStack

KEY = "testkey"
SECRET = "testsecret"
REGION = "us-east-1"


def s3a_settings(server: BucketServer) -> dict[str, str]:
    """Return Hadoop's settings by which S3A finds a server."""
    options = server.storage_options
    return {
        "fs.s3a.endpoint": options["client_kwargs"]["endpoint_url"],
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": options["key"],
        "fs.s3a.secret.key": options["secret"],
        "fs.s3a.path.style.access": "true",
        # On versitygw S3A's removal of markers takes a minute, guarded or not.
        "fs.s3a.directory.marker.retention": "keep",
    }


class S3Server(BucketServer):
    """Any S3 server."""

    kind: ClassVar[Kind] = "s3"
    scheme: ClassVar[str] = "s3"
    protocol: ClassVar[str] = "pias3"

    @property
    def storage_options(self) -> dict[str, Any]:
        return {
            "key": KEY,
            "secret": SECRET,
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": REGION},
        }

    def client(self, *, connections: int = 10, attempts: int = 1) -> Any:
        """A boto3 client that repeats nothing, unless told to: a way round the code under test."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(
                retries={"total_max_attempts": attempts, "mode": "standard"},
                max_pool_connections=connections,
                s3={"addressing_style": "path"},
            ),
        )

    def reader(self, bucket: str) -> dict[str, str] | None:
        """The storage options of an account that may only read a bucket; None where there are no accounts."""
        del bucket
        return None

    def _make(self, bucket: str) -> None:
        # MinIO calls itself ready a moment before it takes a bucket.
        self.client(attempts=8).create_bucket(Bucket=bucket)

    def _serves(self, process: Process) -> None:
        self.endpoint = f"http://127.0.0.1:{process.port}"
        self.pids = process.pids


class LocalBucketServer(S3Server):
    """localbucket: PUT, Complete and Copy all decide."""

    name: ClassVar[str] = "localbucket"
    built: ClassVar[bool] = False

    def _start(self, running: ExitStack) -> None:
        lab = running.enter_context(LocalBucket())
        self.endpoint = lab.endpoint
        self.pids = (lab.pid,)


class PublishedLocalBucketServer(S3Server):
    """localbucket as it is published: it keeps no metadata."""

    name: ClassVar[str] = "localbucket-published"
    built: ClassVar[bool] = False

    def _start(self, running: ExitStack) -> None:
        process = Process(self.name, running)
        data = process.folder / "data"
        data.mkdir()
        process.start(
            lambda port: [sys.executable, "-m", "tests.servers.published_localbucket", str(port), str(data)]
        )
        self._serves(process)


class Moto(S3Server):
    """moto: a liar. Its PUT looks first and writes then, with nothing in between."""

    name: ClassVar[str] = "moto"
    built: ClassVar[bool] = False

    def _start(self, running: ExitStack) -> None:
        process = Process(self.name, running)
        process.start(
            lambda port: [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        )
        self._serves(process)


class VersityGW(S3Server):
    """versitygw on a folder: PUT and Complete decide, Copy ignores the condition.

    Its metadata are extended attributes, so the temporary folder must have them.
    """

    name: ClassVar[str] = "versitygw"
    built: ClassVar[bool] = True

    def _start(self, running: ExitStack) -> None:
        program = installed(self.name) / "bin" / "versitygw"
        process = Process(self.name, running)
        data, accounts = process.folder / "data", process.folder / "accounts"
        data.mkdir()
        accounts.mkdir()
        process.start(
            lambda port: [
                str(program),
                *("--iam-dir", str(accounts)),
                *("--port", f"127.0.0.1:{port}", "--access", KEY, "--secret", SECRET, "--region", REGION),
                *("--keep-alive", "--quiet", "posix", str(data)),
            ],
        )
        self._serves(process)

    def reader(self, bucket: str) -> dict[str, str]:
        account = {"access": f"reader-{bucket}", "secret": "readersecret"}
        admin = [str(installed(self.name) / "bin" / "versitygw"), "admin", "--endpoint-url", self.endpoint]
        given = [word for option, value in account.items() for word in (f"--{option}", value)]
        command = [*admin, "--access", KEY, "--secret", SECRET, "create-user", *given, "--role", "user"]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        may_read = {
            "Effect": "Allow",
            "Principal": {"AWS": [account["access"]]},
            "Action": ["s3:GetObject", "s3:ListBucket"],
            "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        }
        self.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [may_read]}))
        return {"key": account["access"], "secret": account["secret"]}


class MinIO(S3Server):
    """MinIO on one drive: PUT and Complete decide, Copy ignores the condition."""

    name: ClassVar[str] = "minio"
    built: ClassVar[bool] = True

    def _start(self, running: ExitStack) -> None:
        program = installed(self.name) / "bin" / "minio"
        process = Process(self.name, running)
        process.start(
            lambda port: [
                str(program),
                *("server", str(process.folder / "data"), "--address", f"127.0.0.1:{port}"),
                *("--console-address", f"127.0.0.1:{free_port()}"),
            ],
            answers=_minio_is_ready,
            environment={
                "MINIO_ROOT_USER": KEY,
                "MINIO_ROOT_PASSWORD": SECRET,
                "MINIO_REGION": REGION,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",
                "MINIO_CI_CD": "1",  # else it refuses a folder on the root disk
            },
        )
        self._serves(process)


def _minio_is_ready(port: int) -> bool:
    # It answers before it has read its drives, with 503.
    return http_answers(port, "/minio/health/ready", http.client.OK)


class GoFakeS3(S3Server):
    """gofakes3 in memory: PUT decides; Complete and Copy ignore the condition."""

    name: ClassVar[str] = "gofakes3"
    built: ClassVar[bool] = True

    def _start(self, running: ExitStack) -> None:
        program = installed(self.name) / "bin" / "gofakes3"
        process = Process(self.name, running)
        process.start(
            lambda port: [str(program), "-host", f"127.0.0.1:{port}", "-backend", "memory", "-quiet"]
        )
        self._serves(process)


class S3sFS(S3Server):
    """s3s-fs: a liar. Its PUT and Complete are right one at a time, and wrong in a race."""

    name: ClassVar[str] = "s3s-fs"
    built: ClassVar[bool] = True

    def _start(self, running: ExitStack) -> None:
        program = installed(self.name) / "bin" / "s3s-fs"
        process = Process(self.name, running)
        data = process.folder / "data"
        data.mkdir()
        process.start(
            lambda port: [
                str(program),
                *("--host", "127.0.0.1", "--port", str(port), "--access-key", KEY, "--secret-key", SECRET),
                str(data),
            ],
        )
        self._serves(process)
