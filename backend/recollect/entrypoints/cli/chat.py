"""`recollect chat`: talk in the terminal.

The terminal stays with the main thread, where Ctrl-C arrives; the conversation runs on a loop in another.
"""

import asyncio
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer

from recollect.entrypoints.cli.options import Home, Json, Space, settings_for
from recollect.entrypoints.cli.render import print_json
from recollect.errors import RecollectError

if TYPE_CHECKING:
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
    with _conversation(settings_for(home), space, screen, wishes, named) as (loop, conversation):
        if said is None:
            _talk(loop, conversation, screen)
        else:
            _say_once(loop, conversation, said, json=json)


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


def _say_once(loop: "_Loop", conversation: "Conversation", text: str, *, json: bool) -> None:
    answer, stopped = _answered(loop, conversation, text, show=not json)
    if json:
        print_json(answer)
    if stopped:
        raise typer.Exit(130)
    if answer["assistant_turn"]["status"] != "complete":
        raise typer.Exit(1)


def _talk(loop: "_Loop", conversation: "Conversation", screen: "Screen") -> None:
    """Until somebody leaves. What goes wrong with one message is told, and the next one may go well."""
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
            _take(loop, conversation, screen, line)
        except RecollectError as error:
            screen.note(f"recollect: {error.message}")
        except KeyboardInterrupt:
            return


def _take(loop: "_Loop", conversation: "Conversation", screen: "Screen", line: str) -> None:
    if line == "/new":
        conversation.leave_thread()
        screen.note(_place(conversation))
    elif line == "/prompt":
        loop.run(conversation.show_prompt())
    elif line == "/memories":
        loop.run(conversation.show_memories())
    elif line.startswith("/") and not line.startswith("//"):
        screen.show(_HELP if line == "/help" else f"There is no {line.split(maxsplit=1)[0]}.\n{_HELP}")
    else:
        _answered(loop, conversation, line.removeprefix("/") if line.startswith("//") else line)


def _place(conversation: "Conversation") -> str:
    return f"thread {conversation.thread}" if conversation.thread else "a new thread"


def _answered(
    loop: "_Loop", conversation: "Conversation", text: str, *, show: bool = True
) -> tuple[dict[str, Any], bool]:
    """The answer, and whether Ctrl-C stopped it. A second Ctrl-C comes out as KeyboardInterrupt."""
    answer = loop.start(conversation.say(text, show=show))
    try:
        return _awaited(answer), False
    except KeyboardInterrupt:
        try:
            conversation.tell("stopping…")
            loop.run(conversation.stop())
            return _awaited(answer), True
        except KeyboardInterrupt:
            answer.cancel()
            raise


@contextmanager
def _conversation(
    settings: "Settings", space: str, screen: "Screen", wishes: "Wishes", thread: str | None
) -> Iterator[tuple["_Loop", "Conversation"]]:
    """Incognito threads are forgotten at the end, whatever it is."""
    from recollect.entrypoints.cli.client import home_client
    from recollect.entrypoints.cli.conversation import Conversation
    from recollect.infra.home_lock import current_holder

    if current_holder(settings.home) is None:
        screen.note(f"No server runs on {settings.home}: it is opened here until you leave.")
    with _Loop() as loop:
        stack = AsyncExitStack()
        try:
            client = loop.run(stack.enter_async_context(home_client(settings, space)))
            conversation = Conversation(client, screen, wishes, thread)
            try:
                yield loop, conversation
            finally:
                loop.run(conversation.forget_incognito())
        finally:
            loop.run(stack.aclose())


class _Loop:
    """An event loop in a thread of its own, for as long as the `with` block runs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="conversation")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(_end_all_tasks())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return _awaited(self.start(work))


def _awaited(work: Future[T]) -> T:
    """Its result. Python misses a Ctrl-C that arrives just before it begins to wait; the next wait sees it."""
    while not work.done():
        wait([work], _PIECE_SECONDS)
    return work.result()


async def _end_all_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
