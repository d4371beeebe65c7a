"""Objects below one prefix of an S3 bucket, through the library obstore.

Endpoint, region and keys come from the variables of AWS's own tools (`AWS_…`).
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from recollect.domain.vault_file import FileDigests
from recollect.errors import HomeUnusable, StorageUnavailable
from recollect.infra.objects import Changed, Found, Listed, Objects, Refused

if TYPE_CHECKING:
    from obstore.store import S3Store

_REQUEST_SECONDS = 10
_CONNECT_SECONDS = 3
_RETRY_SECONDS = 15
"""No request is repeated for longer than this: a job that waits is tried again later."""
_RETRIES = 6
_LANCE_OPTIONS = {
    "timeout": "10s",
    "connect_timeout": "3s",
    # What fails at once is tried again, what took the timeout is not: three layers would multiply that by 48.
    "client_max_retries": "3",
    "client_retry_timeout": "5",
    "lance_aimd_max_retries": "0",
    "download_retry_count": "0",
}
_AT_ONCE = 1_000_000
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_code = re.compile(r"<Code>(\w+)</Code>").search
_status = re.compile(r"status code: (\d+)").search
_is_of_s3 = re.compile(r'S3 error|store: "S3"|necessary privileges|HTTP error|status code: [345]').search
"""What the libraries below LanceDB say if S3 did not answer, or refused."""
_log = logging.getLogger("recollect.vault")


class S3Objects(Objects):
    """Paths are relative to the prefix."""

    def __init__(self, url: str, below: str = "") -> None:
        """Of the objects below one folder of the prefix, where one is named."""
        super().__init__(f"{url.rstrip('/')}/{below}" if below else url)
        parts = urlsplit(self.url)
        self.bucket, self.prefix = parts.netloc, parts.path.strip("/")
        self._store = _store(self.bucket, self.prefix)

    def _get(self, path: str, limit: int | None = None) -> Found | None:
        import obstore

        with self._told():
            try:
                found = obstore.get(self._store, path)
                content, digests, size = bytearray(), None, 0
                for piece in found.stream(min_chunk_size=_AT_ONCE):
                    part = bytes(piece)
                    size += len(part)
                    if digests is None:
                        digests = FileDigests(part)
                    else:
                        digests.update(part)
                    content += part if limit is None else part[: max(0, limit - len(content))]
            except FileNotFoundError as error:
                if _code_of(error) == "NoSuchBucket":
                    raise
                return None
            except obstore.exceptions.InvalidPathError:
                return None  # No object of ours has such a name.
            raw, lf = (digests or FileDigests(b"")).ended()
            modified = int(found.meta["last_modified"].timestamp() * 1000)
            etag = _bare(found.meta["e_tag"])
            return Found(bytes(content), raw, lf, len(content) == size, etag, size, modified)

    def _put(self, path: str, content: bytes, etag: str | None) -> str:
        import obstore

        with self._told():
            try:
                mode: Any = "create" if etag is None else {"e_tag": f'"{etag}"'}
                return self._written(obstore.put(self._store, path, content, mode=mode))
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError) as error:
                raise Changed(path) from error

    def replace(self, path: str, content: bytes) -> None:
        import obstore

        with self._told():
            self._written(obstore.put(self._store, path, content, use_multipart=False))

    def _written(self, result: Mapping[str, Any]) -> str:
        self.keeps_versions |= result["version"] not in (None, "null")
        return _bare(result["e_tag"])

    def delete(self, paths: Sequence[str]) -> None:
        import obstore

        with self._told():
            try:
                if paths:
                    obstore.delete(self._store, list(paths))
            except FileNotFoundError as error:
                if _code_of(error) == "NoSuchBucket":
                    raise

    def folders(self, folder: str = "") -> list[str]:
        import obstore

        with self._told():
            found = obstore.list_with_delimiter(self._store, folder or None)["common_prefixes"]
        return sorted(path.rpartition("/")[2] for path in found)

    def _list(self, folder: str, without: str | None = None) -> Iterator[Listed]:
        """Names are listed by their bytes, page by page. The pages of what is left out are not asked for."""
        for each in self._pages(folder):
            if without is not None and each.path.startswith(f"{without}/"):
                yield from self._pages(folder, f"{without}0")  # The character after the slash.
                return
            yield each

    def _pages(self, folder: str, after: str | None = None) -> Iterator[Listed]:
        import obstore

        with self._told():
            for page in obstore.list(self._store, folder or None, offset=after):
                for each in page:
                    yield Listed(each["path"], _bare(each["e_tag"]), each["size"])

    def is_made(self) -> bool:
        return True

    def make(self) -> None:
        """A bucket is its owner's to make."""

    def is_blocked(self, path: str) -> bool:
        """To S3 folders are nothing but names."""
        return False

    def remove_leftovers(self, folder: str = "") -> None:
        """There are none."""

    def sync(self, paths: Iterable[str]) -> None:
        """What S3 has is durable."""

    def for_lance(self) -> tuple[str, dict[str, str]]:
        """LanceDB finds keys and region in the same variables."""
        endpoint, plain = _endpoint()
        # Spelt as the library does: another name would be overruled by the environment, now and then.
        options = _LANCE_OPTIONS | {"aws_allow_http": str(plain).lower()}
        return self.url, options | ({} if endpoint is None else {"aws_endpoint": endpoint})

    def is_down(self, told: str) -> bool:
        """An object that is missing reads otherwise."""
        return _is_of_s3(told) is not None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the library in our words, which name no object: those are names of users and threads."""
        import obstore

        try:
            yield
        except (obstore.exceptions.BaseError, OSError) as error:
            _log.warning("S3: %s", str(error).partition("\n")[0])
            raise _problem(error, self.bucket) from error


def _problem(error: Exception, bucket: str) -> StorageUnavailable:
    from obstore.exceptions import InvalidPathError

    text, code, status = str(error), _code_of(error), _status_of(str(error))
    if code == "NoSuchBucket":
        return Refused(f"there is no bucket {bucket!r}")
    if isinstance(error, PermissionError) or status in (401, 403):
        why = code or "permission is denied"
        return Refused(
            f"S3 refuses ({why}): check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy"
        )
    if "redential" in text or "metadata endpoint" in text:
        return Refused("there are no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if isinstance(error, InvalidPathError):
        return StorageUnavailable(
            "an object's name holds '..', '//' or a control character, so files cannot be listed: the log names it;"
            " remove or rename it"
        )
    if status is not None:
        return StorageUnavailable(f"S3 answers with error {status}{f' ({code})' if code else ''}")
    return StorageUnavailable("S3 does not answer")


def _bare(etag: str | None) -> str:
    """Some servers quote it in one answer, and not in another."""
    return (etag or "").strip('"')


def _code_of(error: Exception) -> str | None:
    found = _code(str(error))
    return found[1] if found else None


def _status_of(text: str) -> int | None:
    found = _status(text)
    return int(found[1]) if found else None


def _endpoint() -> tuple[str | None, bool]:
    """None is Amazon's own; and whether it may be one without TLS."""
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    if endpoint is not None and "@" in urlsplit(endpoint).netloc:
        raise HomeUnusable(
            "the address of S3 holds keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("true", "1", "yes")
    if endpoint is not None and endpoint.startswith("http://") and not plain:
        raise HomeUnusable(f"{endpoint} is not encrypted: use https://, or set AWS_ALLOW_HTTP=true")
    return endpoint, plain


def _store(bucket: str, prefix: str) -> "S3Store":
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise HomeUnusable(
            "files in S3 need the library obstore: install it with 'pip install \"recollect[s3]\"'"
        ) from error
    endpoint, plain = _endpoint()
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=None if endpoint is None else {"endpoint": endpoint},
        client_options={
            "timeout": timedelta(seconds=_REQUEST_SECONDS),
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "allow_http": plain,
        },
        retry_config={
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    )
