"""Chooses where the files of a home are, and its ledger: in its folder, in S3, or in a shared folder."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from recollect.failpoints import FailPoints
from recollect.infra.image_files import ImageFiles
from recollect.infra.ledger import LEDGER, FileLedger, Ledger
from recollect.infra.vault import Images, Vault, Watcher
from recollect.infra.vault_folder import FolderVault
from recollect.infra.watcher import VaultWatcher
from recollect.settings import Settings


@dataclass(frozen=True, slots=True)
class Files:
    """The vault of a home, its images, what watches it, and the ledger."""

    vault: Vault
    images: Images
    watcher: Watcher
    ledger: Ledger


def files_of(
    settings: Settings,
    fail_points: FailPoints,
    home_id: Callable[[], Awaitable[str]],
    *,
    takes_over: bool = False,
) -> Files:
    """The files of a home, where its settings say. `home_id` names the home once its journal is open."""
    path = settings.home / LEDGER
    if settings.files_url is not None:
        # Only here: it takes a while to import, and is there only where it was asked for.
        from recollect.infra.image_objects import ObjectImages
        from recollect.infra.ledger_objects import ObjectLedger
        from recollect.infra.object_stores import objects_at
        from recollect.infra.object_watcher import ObjectWatcher
        from recollect.infra.vault_objects import ObjectVault

        objects = objects_at(settings.files_url, fail_points=fail_points)
        bucket = ObjectVault(objects, home_id, takes_over=takes_over, fail_points=fail_points)
        return Files(bucket, ObjectImages(bucket), ObjectWatcher(bucket), ObjectLedger(bucket, path))
    vault = FolderVault(settings.vault_path, fail_points=fail_points)
    return Files(
        vault, ImageFiles(vault, fail_points=fail_points), VaultWatcher(settings.vault_path), FileLedger(path)
    )
