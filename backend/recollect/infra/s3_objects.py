"""Objects below one prefix of an S3 bucket, through the library obstore: read, replaced if unchanged, listed, deleted.

Calls block: they are for threads. Endpoint, region and keys come from the variables of AWS's own tools (`AWS_…`).
"""

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from recollect.domain.vault_file import FileDigests
from recollect.errors import HomeUnusable, StorageUnavailable

if TYPE_CHECKING:
    from obstore.store import S3Store

_REQUEST_SECONDS = 10
_CONNECT_SECONDS = 3
_RETRY_SECONDS = 15
"""No request is repeated for longer than this: a job that waits is tried again later."""
_RETRIES = 6
_AT_ONCE = 1_000_000
_PROBE = ".recollect-probe-"
LEDGER_FOLDER = ".ledger"
INDEX = ".index"
_AFTER_INDEX = f"{INDEX}0"
"""The character after the slash: names are listed by their bytes."""
_NO_FILES = (_PROBE, f"{LEDGER_FOLDER}/", f"{INDEX}/")
REMOVED = b"Recollect removed this file, and was interrupted. It goes at the next look at the bucket.\n"
"""What an object holds between the two requests of its removal. One that is left is no file, and goes later."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REMOVED_DIGEST = hashlib.sha256(REMOVED).hexdigest()
_code = re.compile(r"<Code>(\w+)</Code>").search
_status = re.compile(r"status code: (\d+)").search
_log = logging.getLogger("recollect.vault")


class Changed(Exception):
    """An object is not what it was when it was looked at: nothing was written."""


class S3Refused(StorageUnavailable):
    """S3 answers, and refuses what only a person can put right: keys, permissions, the bucket's name."""


class Found(NamedTuple):
    """An object as it was read. The digests are of all of it, as `VaultFile` has them, whatever the limit."""

    content: bytes
    digest: str
    lf_digest: str
    is_whole: bool
    etag: str
    size: int
    modified_ms: int


class Listed(NamedTuple):
    """An object as it is listed."""

    path: str
    etag: str
    size: int


class S3Objects:
    """Paths are relative to the prefix. Raises StorageUnavailable where S3 does not answer, S3Refused where it refuses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keeps_versions = False
        """Whether the bucket kept a version of anything that was written."""
        parts = urlsplit(url)
        self.bucket, self.prefix = parts.netloc, parts.path.strip("/")
        self._store = _store(self.bucket, self.prefix)

    def get(self, path: str, limit: int | None = None) -> Found | None:
        """None where there is none, or one that is being removed. With `limit`, at most that many bytes of it."""
        found = self._get(path, limit)
        return None if found is not None and found.digest == _REMOVED_DIGEST else found

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

    def put(self, path: str, content: bytes, etag: str | None) -> str:
        """Replace the object that has this ETag; with None, create it. Returns the new ETag; raises Changed.

        An answer that was lost is asked for again: then Changed may mean that this very content is there.
        """
        try:
            return self._put(path, content, etag)
        except Changed:
            left = self._get(path) if etag is None else None
            if left is None or left.digest != _REMOVED_DIGEST:
                raise
            return self._put(path, content, left.etag)

    def _put(self, path: str, content: bytes, etag: str | None) -> str:
        import obstore

        with self._told():
            try:
                mode: Any = "create" if etag is None else {"e_tag": f'"{etag}"'}
                return self._written(obstore.put(self._store, path, content, mode=mode))
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError) as error:
                raise Changed(path) from error

    def replace(self, path: str, content: bytes) -> None:
        """Put an object in place, whatever is there."""
        import obstore

        with self._told():
            self._written(obstore.put(self._store, path, content, use_multipart=False))

    def _written(self, result: Mapping[str, Any]) -> str:
        self.keeps_versions |= result["version"] not in (None, "null")
        return _bare(result["e_tag"])

    def remove(self, path: str, etag: str, emptied: Callable[[], None] = lambda: None) -> None:
        """Remove the object that has this ETag; raises Changed. What is saved there meanwhile stays.

        S3 deletes without asking: so the object is emptied under a condition, and looked at once more. What is saved
        between that look and the delete is lost.
        """
        try:
            self._put(path, REMOVED, etag)
        except Changed:
            if not self.finish_removal(path):  # It was emptied, and the answer was lost.
                raise
            return
        emptied()
        self.finish_removal(path)

    def finish_removal(self, path: str) -> bool:
        """Delete an object if it is one that is being removed. Returns whether it was."""
        left = self._get(path)
        if left is None or left.digest != _REMOVED_DIGEST:
            return False
        self.delete([path])
        return True

    def delete(self, paths: Sequence[str]) -> None:
        """Gone when this returns; those that are gone already are fine."""
        import obstore

        with self._told():
            try:
                if paths:
                    obstore.delete(self._store, list(paths))
            except FileNotFoundError as error:
                if _code_of(error) == "NoSuchBucket":
                    raise

    def folders(self, folder: str = "") -> list[str]:
        """The names of those right below a folder."""
        import obstore

        with self._told():
            found = obstore.list_with_delimiter(self._store, folder or None)["common_prefixes"]
        return sorted(path.rpartition("/")[2] for path in found)

    def list(self, folder: str = "") -> Iterator[Listed]:
        """Every object below a folder, page by page. Of all, without ledger, index and what a killed probe left."""
        after = None
        for each in self._list(folder):
            if not folder and each.path.startswith(f"{INDEX}/"):
                after = (
                    _AFTER_INDEX  # It may have more objects than all the rest: its pages are not asked for.
                )
                break
            if folder or not each.path.startswith(_NO_FILES):
                yield each
        if after is not None:
            rest = self._list(folder, after)
            yield from (each for each in rest if not each.path.startswith(_NO_FILES))

    def _list(self, folder: str, after: str | None = None) -> Iterator[Listed]:
        import obstore

        with self._told():
            for page in obstore.list(self._store, folder or None, offset=after):
                for each in page:
                    yield Listed(each["path"], _bare(each["e_tag"]), each["size"])

    def probe(self) -> None:
        """Raises HomeUnusable where this bucket can't be used: missing, no permission, or conditions are ignored."""
        path = _PROBE + secrets.token_hex(4)
        try:
            with suppress(Changed):  # Nobody else knows its name: an answer was lost, and it was put again.
                self._put(path, b"1", None)
            try:
                honoured = self._refuses(path, None) and self._refuses(path, "0123456789abcdef" * 2)
            finally:
                self.delete([path])
        except S3Refused as error:
            raise HomeUnusable(f"the files cannot be kept in {self.url}: {error.message}") from error
        if not honoured:
            raise HomeUnusable(
                f"the files cannot be kept in {self.url}: this S3 server ignores conditions (If-Match, If-None-Match), so"
                " what a person saves there could be overwritten. Use one that honours them"
            )

    def _refuses(self, path: str, etag: str | None) -> bool:
        try:
            self._put(path, b"2", etag)
        except Changed:
            return True
        return False

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
        return S3Refused(f"there is no bucket {bucket!r}")
    if isinstance(error, PermissionError) or status in (401, 403):
        why = code or "permission is denied"
        return S3Refused(
            f"S3 refuses ({why}): check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy"
        )
    if "redential" in text or "metadata endpoint" in text:
        return S3Refused("there are no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
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


def s3_options() -> dict[str, str]:
    """The same for LanceDB, which finds keys and region in the same variables."""
    endpoint, plain = _endpoint()
    # Spelt as the library does: another name would be overruled by the environment, now and then.
    return {"aws_allow_http": str(plain).lower()} | ({} if endpoint is None else {"aws_endpoint": endpoint})


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
