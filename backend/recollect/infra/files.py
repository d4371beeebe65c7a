"""Chooses where the files of a home are: in its folder."""

from dataclasses import dataclass

from recollect.failpoints import FailPoints
from recollect.infra.image_files import ImageFiles
from recollect.infra.vault import Images, Vault, Watcher
from recollect.infra.vault_folder import FolderVault
from recollect.infra.watcher import VaultWatcher
from recollect.settings import Settings


@dataclass(frozen=True, slots=True)
class Files:
    """The vault of a home, its images, and what watches it."""

    vault: Vault
    images: Images
    watcher: Watcher


def files_of(settings: Settings, fail_points: FailPoints) -> Files:
    """The files of a home, where its settings say."""
    vault = FolderVault(settings.vault_path, fail_points=fail_points)
    return Files(vault, ImageFiles(vault, fail_points=fail_points), VaultWatcher(settings.vault_path))
