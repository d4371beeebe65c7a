"""The names that docs and other code rely on stay importable."""

from pathlib import Path

from recollect.app import open_app
from recollect.domain.prompt import build_contextual_messages, current_datetime_context_message
from recollect.service.chat import context_builder
from recollect.service.chat.answer import stream_llm
from recollect.service.chat.followups import run_post_response_tasks
from recollect.service.threads import add_turn, memorize
from recollect.settings import Settings


async def test_names_that_others_call_stay_where_they_are(tmp_path: Path) -> None:
    functions = add_turn, memorize, stream_llm, run_post_response_tasks
    prompts = build_contextual_messages, current_datetime_context_message, context_builder.PromptMaker
    assert all(map(callable, (*functions, *prompts)))
    async with open_app(Settings(home=tmp_path, embedding={"kind": "none"})) as app:
        assert all(map(callable, (app.THREADS.get_history, app.ingest.memorize, app.chat.handle_chat_turn)))
        tables = await app.database.read("SELECT name FROM sqlite_master WHERE type = 'table'")
    assert {"unprocessed_buffer", "memcell"} <= {row["name"] for row in tables}
