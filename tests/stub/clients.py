"""The clients of three clouds, pointed at the stub. What each is told is all it takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from tests.stub.server import Cloud, FaultStub

__all__ = ["azure_client", "boto3_client", "filesystem", "google_client", "obstore_bucket"]


def filesystem(stub: FaultStub, cloud: Cloud, **options: Any) -> Any:
    """s3fs, gcsfs or adlfs, with caches off."""
    options = {"skip_instance_cache": True, "use_listings_cache": False, **options}
    options |= stub.storage_options(cloud)
    if cloud == "s3":
        from s3fs import S3FileSystem

        return S3FileSystem(**options)
    if cloud == "gcs":
        # Not the package's own name for it: that one asks for a bucket's layout by gRPC first.
        from gcsfs.core import GCSFileSystem

        return GCSFileSystem(**options)
    from adlfs import AzureBlobFileSystem

    return AzureBlobFileSystem(**options)


def boto3_client(stub: FaultStub, **config: Any) -> Any:
    """boto3's S3 client; ``config`` goes to ``botocore.config.Config``."""
    import boto3
    from botocore.config import Config

    options = stub.storage_options("s3")
    return boto3.session.Session().client(
        "s3",
        endpoint_url=options["endpoint_url"],
        aws_access_key_id=options["key"],
        aws_secret_access_key=options["secret"],
        region_name="us-east-1",
        config=Config(**config),
    )


def obstore_bucket(stub: FaultStub, cloud: Cloud, bucket: str = "bucket", **options: Any) -> ObjectStore:
    """Obstore's store for one bucket; ``options`` are ``retry_config`` and ``client_options``."""
    from obstore.store import AzureStore, GCSStore, S3Store

    options["client_options"] = {"allow_http": True, **options.get("client_options", {})}
    if cloud == "s3":
        return S3Store(
            bucket,
            endpoint=stub.url("s3"),
            access_key_id="key",
            secret_access_key="secret",
            region="us-east-1",
            **options,
        )
    if cloud == "gcs":
        # `skip_signature` is not enough: it would still ask Google's metadata server for a token.
        account = {"gcs_base_url": stub.url("gcs"), "disable_oauth": True, "client_email": ""}
        account |= {"private_key": "", "private_key_id": ""}
        return GCSStore(bucket, service_account_key=json.dumps(account), **options)
    told = dict(part.split("=", 1) for part in connection_string(stub).strip(";").split(";"))
    return AzureStore(
        bucket,
        account_name=told["AccountName"],
        account_key=told["AccountKey"],
        endpoint=told["BlobEndpoint"],
        **options,
    )


def google_client(stub: FaultStub) -> Any:
    """google-cloud-storage's client."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    return storage.Client(
        project="test",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": stub.url("gcs")},
    )


def azure_client(stub: FaultStub, **options: Any) -> Any:
    """azure-storage-blob's client."""
    from azure.storage.blob import BlobServiceClient

    return BlobServiceClient.from_connection_string(connection_string(stub), **options)


def connection_string(stub: FaultStub) -> str:
    """What Azure's own tools want to hear."""
    told: str = stub.storage_options("azure")["connection_string"]
    return told
