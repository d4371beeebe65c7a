"""Keeping and forgetting images: never gone while a turn shows them, never left when none does."""

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from recollect.domain.access import Caller
from recollect.domain.images import data_url, image_name, reference
from recollect.domain.model import Append, JsonObject, NewTurn, ThreadRef
from recollect.domain.paths import transcript_path
from recollect.errors import InvalidInput, StorageUnavailable, TooMuchQueued
from recollect.infra.addresses import Addresses
from recollect.infra.image_files import ImageFiles
from recollect.service.vault.images import Images, add_turn_with_images
from recollect.service.vault.reader import EditReports
from tests.contract.journals import Journal
from tests.eventually import eventually
from tests.fakes import START
from tests.persons_vault import PersonsVault

CAT = b"GIF89a a cat, as bytes and not as a picture"
NAME = image_name(CAT, "gif")
KEY = ("default", "ann", NAME)


@pytest.fixture
def store(vault: PersonsVault) -> ImageFiles:
    return ImageFiles(vault)


@pytest.fixture
def images(journal: Journal, store: ImageFiles, vault: PersonsVault) -> Images:
    return Images(store, journal.threads, journal.transcripts, vault, Addresses(), EditReports())


def picture(url: str) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": url}}


def showing(url: str) -> NewTurn:
    return NewTurn("user", "", START, "ann", parts=[picture(url)])


async def show(journal: Journal, images: Images, thread: str = "t1", user: str = "ann") -> None:
    turn = showing(data_url(NAME, CAT))
    await add_turn_with_images(journal.threads, images, Caller(), thread, user, turn)


async def test_a_turn_is_not_accepted_where_its_image_cannot_be_kept(
    journal: Journal, images: Images, vault: PersonsVault
) -> None:
    vault.take_away()
    with pytest.raises(StorageUnavailable):
        await show(journal, images)
    assert await journal.threads.get_thread("t1") is None


async def test_an_image_that_is_about_to_be_shown_again_is_not_forgotten(
    journal: Journal, images: Images, store: ImageFiles
) -> None:
    await show(journal, images)
    await journal.delete("t1")
    thread = ThreadRef("default", "ann", "t2")
    shown = await images.taken_out(thread, [showing(data_url(NAME, CAT))])
    async with images.kept(thread, shown):
        forgetting = asyncio.create_task(images.forget_unused("default", "ann"))
        await asyncio.sleep(0)  # It has begun, and waits.
        await journal.threads.append(Append("default", "t2", shown.turns, "ann"))
    await forgetting
    assert await store.read(*KEY) == CAT


async def test_an_image_that_only_a_transcript_still_shows_is_kept(
    journal: Journal, images: Images, store: ImageFiles, vault: PersonsVault
) -> None:
    await store.keep(*KEY, CAT)
    vault.files[transcript_path("default", "ann", "damaged", 1)] = f"half a transcript {reference(NAME)}"
    await images.forget_unused("default", "ann")
    assert await store.read(*KEY) == CAT
    vault.files.clear()
    await images.forget_unused("default", "ann")
    assert await store.names("default", "ann") == set()


async def test_a_short_image_is_not_taken_for_other_words_of_a_request(
    journal: Journal, images: Images, store: ImageFiles
) -> None:
    tiny = b"\xba\xc7\xab"  # As base64: user.
    name = image_name(tiny, "png")
    await store.keep("default", "ann", name, tiny)
    opened = await images.opened("default", "ann", [{"role": "user", "content": [picture(reference(name))]}])
    assert opened.referring({"messages": opened.messages}) == {
        "messages": [{"role": "user", "content": [picture(reference(name))]}]
    }


@pytest.mark.parametrize(
    ("addresses", "taken"),
    [
        (["93.184.215.14", "2606:2800:21f:cb07::1"], True),
        ([], True),
        (["127.0.0.1"], False),
        (["93.184.215.14", "10.0.0.7"], False),
        (["fe80::1%eth0"], False),
    ],
)
async def test_a_link_whose_host_is_inside_is_refused(
    journal: Journal, store: ImageFiles, vault: PersonsVault, addresses: list[str], taken: bool
) -> None:
    resolving = Addresses(resolve=lambda host: addresses)
    images = Images(store, journal.threads, journal.transcripts, vault, resolving, EditReports())
    thread = ThreadRef("default", "ann", "t1")
    shown = images.taken_out(thread, [showing("https://cats.example/1.png")])
    if taken:
        assert (await shown).images == {}
    else:
        with pytest.raises(InvalidInput, match="private network"):
            await shown


class SlowNames:
    """A resolver that answers for names with `slow` in them only when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if "slow" in host:
            self.answer.wait(60)
        return ["93.184.215.14"]


@pytest.fixture
def names() -> Iterator[SlowNames]:
    names = SlowNames()
    yield names
    names.answer.set()


async def test_slow_names_in_links_of_one_user_keep_no_other_waiting(
    journal: Journal, store: ImageFiles, vault: PersonsVault, names: SlowNames
) -> None:
    resolving = Addresses(resolve=names, seconds=60)
    images = Images(store, journal.threads, journal.transcripts, vault, resolving, EditReports())
    anns = [
        asyncio.create_task(
            images.taken_out(ThreadRef("default", "ann", f"t{n}"), [showing(f"https://slow{n}.example/")])
        )
        for n in range(20)
    ]
    await eventually(lambda: names.asked)
    await images.taken_out(ThreadRef("default", "bob", "t"), [showing("https://cats.example/1.png")])
    assert names.asked == ["slow0.example", "cats.example"]
    names.answer.set()
    await asyncio.gather(*anns)


async def test_all_links_of_a_request_have_one_time_limit(
    journal: Journal, store: ImageFiles, vault: PersonsVault, names: SlowNames
) -> None:
    resolving = Addresses(resolve=names, seconds=0.05)
    images = Images(store, journal.threads, journal.transcripts, vault, resolving, EditReports())
    turns = [showing(f"https://slow{n}.example/") for n in range(100)]
    for _ in range(2):
        with pytest.raises(InvalidInput, match="could not be looked up in time"):
            await images.taken_out(ThreadRef("default", "ann", "t"), turns)
    await eventually(lambda: names.asked)
    assert names.asked == ["slow0.example"]


async def test_hanging_names_of_many_users_at_once_keep_no_other_waiting(names: SlowNames) -> None:
    resolving = Addresses(resolve=names, seconds=60)
    hanging = [
        asyncio.create_task(resolving.check([("parts[0]", f"https://slow{n}.example/")], f"user {n}"))
        for n in range(64)
    ]
    await eventually(lambda: len(names.asked) == 64)
    await resolving.check([("parts[0]", "https://cats.example/")], "bob")
    names.answer.set()
    await asyncio.gather(*hanging)


async def test_when_all_threads_look_up_a_link_waits_its_time_and_is_refused_as_too_much(
    names: SlowNames,
) -> None:
    resolving = Addresses(resolve=names, seconds=1, threads=1)
    anns = asyncio.create_task(resolving.check([("parts[0]", "https://slow.example/")], "ann"))
    await eventually(lambda: names.asked)
    with pytest.raises(TooMuchQueued, match=r"parts\[0\]: .*try again"):
        await resolving.check([("parts[0]", "https://cats.example/")], "bob")
    with pytest.raises(InvalidInput, match="could not be looked up in time"):
        await anns
    names.answer.set()

    async def is_looked_up() -> bool:
        try:
            await resolving.check([("parts[0]", "https://dogs.example/")], "bob")
        except (InvalidInput, TooMuchQueued):  # On a busy machine.
            return False
        return True

    await eventually(is_looked_up)
    assert "cats.example" not in names.asked, "nobody waits for it any longer"


async def test_a_lookup_that_fails_after_its_request_gave_up_is_no_error_of_the_loop() -> None:
    ends, failed = threading.Event(), threading.Event()
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))

    def failing(host: str) -> list[str]:
        failed.set()
        ends.wait(60)
        raise RuntimeError("no resolver")

    resolving = Addresses(resolve=failing, seconds=1)
    asked = asyncio.create_task(resolving.check([("parts[0]", "https://slow.example/")], "ann"))
    await asyncio.to_thread(failed.wait, 60)
    with pytest.raises(InvalidInput, match="in time"):
        await asked
    ends.set()
    await eventually(lambda: not resolving._under_way)
    del asked
    gc.collect()
    assert told == []
