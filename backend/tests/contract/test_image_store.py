"""What the stores of images promise, in a folder on disk and in a real journal."""

from pathlib import Path

import pytest

from recollect.domain.images import image_name, reference
from recollect.domain.model import Append, NewTurn
from recollect.errors import StorageUnavailable
from recollect.infra.image_files import ImageFiles
from tests.contract.journals import Journal
from tests.fakes import START
from tests.persons_vault import PersonsVault

CAT, DOG = b"\x89PNG\r\n\x1a\n a cat \x00\xff", b"GIF89a a dog"
CAT_NAME, DOG_NAME = image_name(CAT, "png"), image_name(DOG, "gif")
ANN, BOB = ("default", "ann"), ("default", "bob")


@pytest.fixture
def images(vault: PersonsVault) -> ImageFiles:
    return ImageFiles(vault)


@pytest.fixture
def folder(vault: PersonsVault) -> Path:
    """Ann's images on the disk."""
    return vault.root / "default/users/ann/images"


async def test_an_image_that_is_a_link_to_elsewhere_is_none(
    images: ImageFiles, folder: Path, tmp_path: Path
) -> None:
    secret, file = tmp_path / "secret", folder / CAT_NAME
    secret.write_bytes(CAT)
    folder.mkdir(parents=True)
    file.symlink_to(secret)
    assert await images.read(*ANN, CAT_NAME) is None
    await images.keep(*ANN, CAT_NAME, CAT)
    assert (file.is_symlink(), await images.read(*ANN, CAT_NAME)) == (False, CAT)
    assert secret.read_bytes() == CAT


async def test_a_folder_of_images_that_is_a_link_to_elsewhere_is_left_alone(
    images: ImageFiles, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / CAT_NAME).write_bytes(CAT)
    folder.parent.mkdir(parents=True)
    folder.symlink_to(elsewhere)
    assert (await images.names(*ANN), await images.read(*ANN, CAT_NAME)) == (set(), None)
    for attempt in (images.keep(*ANN, DOG_NAME, DOG), images.remove(*ANN, {CAT_NAME})):
        with pytest.raises(StorageUnavailable):
            await attempt
    assert [path.name for path in elsewhere.iterdir()] == [CAT_NAME]


@pytest.mark.parametrize("name", ["../../bob/images/x.png", "cat.png", "", CAT_NAME.upper()])
async def test_a_name_that_is_none_of_ours_is_refused(images: ImageFiles, name: str) -> None:
    for attempt in (images.keep(*ANN, name, CAT), images.read(*ANN, name), images.remove(*ANN, {name})):
        with pytest.raises(ValueError, match="no name of an image"):
            await attempt


async def test_nothing_is_written_or_forgotten_while_the_vault_is_missing(
    vault: PersonsVault, images: ImageFiles
) -> None:
    vault.take_away()
    for attempt in (
        images.keep(*ANN, CAT_NAME, CAT),
        images.names(*ANN),
        images.remove(*ANN, {CAT_NAME}),
    ):
        with pytest.raises(StorageUnavailable):
            await attempt


async def show(
    journal: Journal, thread_id: str, *names: str, user_id: str = "ann", space: str = "default"
) -> None:
    parts = [{"type": "image_url", "image_url": {"url": reference(name)}} for name in names]
    turn = NewTurn("user", "", START, user_id, parts=parts)
    await journal.threads.append(Append(space, thread_id, [turn], user_id))


async def test_what_any_thread_of_a_user_shows_is_referred_to_until_it_is_forgotten(journal: Journal) -> None:
    await show(journal, "t1", CAT_NAME, user_id="bob")
    await show(journal, "t2", CAT_NAME, space="work")
    assert await journal.threads.images_shown(*ANN) == set()
    await show(journal, "t3", CAT_NAME)
    await show(journal, "t4", CAT_NAME, DOG_NAME)
    await show(journal, "t5", DOG_NAME)
    assert await journal.threads.images_shown(*ANN) == {CAT_NAME, DOG_NAME}
    await journal.delete("t3")
    await journal.delete("t4")
    assert await journal.threads.images_shown(*ANN) == {DOG_NAME}
