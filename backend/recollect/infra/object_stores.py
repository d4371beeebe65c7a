"""Chooses where objects are: in S3, or in a shared folder."""

from recollect.failpoints import FailPoints
from recollect.infra.folder_objects import FolderObjects
from recollect.infra.objects import Objects
from recollect.infra.s3_objects import S3Objects


def objects_at(url: str, below: str = "", fail_points: FailPoints | None = None) -> Objects:
    """As `RECOLLECT_FILES_URL` names them; with `below`, those in one of their folders."""
    return FolderObjects(url, below, fail_points) if url.startswith("file:") else S3Objects(url, below)
