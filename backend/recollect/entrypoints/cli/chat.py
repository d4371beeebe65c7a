"""`recollect chat`: talk in the terminal.

The terminal stays with the main thread, where Ctrl-C arrives; the conversation runs on a loop in another.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from recollect.entrypoints.cli.options import Home, Json, Space, settings_for
from recollect.entrypoints.cli.render import print_json
from recollect.errors import RecollectError

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from recollect.entrypoints.cli.conversation import Conversation, Screen, Wishes
    from recollect.settings import Settings


T = TypeVar("T")
EPILOG = (
    "Examples: recollect chat  |  recollect chat t1 --user ann  |  recollect chat t1 'Who is Marta?'"
    "  |  recollect chat - --incognito 'Just between us: hello'  |  git diff | recollect chat review --json"
)
_HELP = """\
/new       go on in a new thread
/prompt    what was sent for the last turn
/memories  which memories were used for it
/quit      leave (so does an empty line, or Ctrl-D)
//…        say something that begins with a slash
Ctrl-C stops an answer and keeps what came; a second one leaves."""
_NEW = "-"
_PIECE_SECONDS = 0.2


def chat(
    thread: Annotated[
        str | None,
        typer.Argument(help="The thread; one that does not exist is opened. Default, or -: a new one."),
    ] = None,
    message: Annotated[
        list[str] | None,
        typer.Argument(
            help="Send this, print the answer and leave. Default: what is piped in, else a dialogue."
        ),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose thread; default: its owner, or me.")] = None,
    preset: Annotated[str | None, typer.Option(help="The thread's preset from now on.")] = None,
    model: Annotated[str | None, typer.Option(help="The model to ask.")] = None,
    backend: Annotated[str | None, typer.Option(help="The backend to ask.")] = None,
    no_memory: Annotated[
        bool, typer.Option("--no-memory", help="Use no memories, and make none of what is said.")
    ] = False,
    incognito: Annotated[
        bool, typer.Option("--incognito", help="A new thread that is forgotten when you leave.")
    ] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Talk with a model that remembers, in the terminal."""
    from recollect.entrypoints.cli.conversation import Screen, Wishes

    said = _said(message, json=json)
    wishes = Wishes(user, preset, model, backend, not no_memory, incognito)
    screen = Screen(is_dialogue=said is None)
    named = None if thread in (None, _NEW) else thread
    with _conversation(settings_for(home), space, screen, wishes, named) as (portal, conversation):
        if said is None:
            _talk(portal, conversation, screen)
        else:
            _say_once(portal, conversation, said, json=json)


def _said(message: list[str] | None, *, json: bool) -> str | None:
    """What is to be said; None for a conversation with somebody at the terminal."""
    if message:
        text = " ".join(message)
    elif sys.stdin.isatty() and not json:
        return None
    else:
        text = sys.stdin.read()
    if not text.strip():
        raise RecollectError("there is nothing to say: give a MESSAGE, or pipe one in")
    return text


def _say_once(portal: "BlockingPortal", conversation: "Conversation", text: str, *, json: bool) -> None:
    answer, stopped = _answered(portal, conversation, text, show=not json)
    if json:
        print_json(answer)
    if stopped:
        raise typer.Exit(130)
    if answer["assistant_turn"]["status"] != "complete":
        raise typer.Exit(1)


def _talk(portal: "BlockingPortal", conversation: "Conversation", screen: "Screen") -> None:
    """Chat until the user leaves. An error of one message is shown and does not end the dialogue."""
    with suppress(ImportError):
        import readline  # noqa: F401 - makes input() a line that can be edited
    screen.note(f"{_place(conversation)}. /help shows what else there is.")
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            screen.show("")
            return
        if line in ("", "/quit"):
            return
        try:
            _take(portal, conversation, screen, line)
        except RecollectError as error:
            screen.note(f"recollect: {error.message}")
        except KeyboardInterrupt:
            return


def _take(portal: "BlockingPortal", conversation: "Conversation", screen: "Screen", line: str) -> None:
    if line == "/new":
        conversation.leave_thread()
        screen.note(_place(conversation))
    elif line == "/prompt":
        _run(portal, conversation.show_prompt)
    elif line == "/memories":
        _run(portal, conversation.show_memories)
    elif line.startswith("/") and not line.startswith("//"):
        screen.show(_HELP if line == "/help" else f"There is no {line.split(maxsplit=1)[0]}.\n{_HELP}")
    else:
        _answered(portal, conversation, line.removeprefix("/") if line.startswith("//") else line)


def _place(conversation: "Conversation") -> str:
    return f"thread {conversation.thread}" if conversation.thread else "a new thread"


def _answered(
    portal: "BlockingPortal", conversation: "Conversation", text: str, *, show: bool = True
) -> tuple[dict[str, Any], bool]:
    """The answer, and whether Ctrl-C stopped it. A second Ctrl-C comes out as KeyboardInterrupt."""
    answer = portal.start_task_soon(partial(conversation.say, text, show=show))
    try:
        return _awaited(answer), False
    except KeyboardInterrupt:
        try:
            conversation.tell("stopping…")
            _run(portal, conversation.stop)
            return _awaited(answer), True
        except KeyboardInterrupt:
            answer.cancel()
            raise


@contextmanager
def _conversation(
    settings: "Settings", space: str, screen: "Screen", wishes: "Wishes", thread: str | None
) -> Iterator[tuple["BlockingPortal", "Conversation"]]:
    """Incognito threads are forgotten at the end, whatever it is."""
    from anyio.from_thread import start_blocking_portal

    from recollect.entrypoints.cli.client import home_client
    from recollect.entrypoints.cli.conversation import Conversation
    from recollect.infra.home_lock import current_holder

    if current_holder(settings.home) is None:
        screen.note(f"No server runs on {settings.home}: it is opened here until you leave.")
    with start_blocking_portal() as portal:
        try:
            with portal.wrap_async_context_manager(home_client(settings, space)) as client:
                conversation = Conversation(client, screen, wishes, thread)
                try:
                    yield portal, conversation
                finally:
                    _run(portal, conversation.forget_incognito)
        finally:
            portal.call(portal.stop, True)  # What a person did not wait for is cancelled.


def _run(portal: "BlockingPortal", work: Callable[[], Awaitable[T]]) -> T:
    return _awaited(portal.start_task_soon(work))


def _awaited(work: Future[T]) -> T:
    """Its result. Python misses a Ctrl-C that arrives just before it begins to wait; the next wait sees it."""
    while not work.done():
        wait([work], _PIECE_SECONDS)
    return work.result()
