"""Anthropic's memory tool over Recollect's notes: `client.beta.messages.tool_runner(tools=[RecollectMemory()], …)`."""

import os

import httpx2
from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError


class RecollectMemory(BetaAbstractMemoryTool):
    """Runs each of the six commands at a Recollect server, on the notes of the key's user."""

    def __init__(self, address: str = "http://127.0.0.1:8600", *, user_id: str | None = None) -> None:
        super().__init__()
        key = os.environ.get("RECOLLECT_API_KEY")
        self._user = {} if user_id is None else {"user_id": user_id}
        self.client = httpx2.Client(
            base_url=address, headers={"Authorization": f"Bearer {key}"} if key else {}, trust_env=False
        )

    def execute(self, command) -> str:  # type: ignore[no-untyped-def]
        body = {**command.model_dump(exclude_none=True), **self._user}
        answer = self.client.post("/api/v1/memory/tool", json=body).raise_for_status().json()
        if answer["is_error"]:
            raise ToolError(answer["content"])
        return str(answer["content"])

    view = create = str_replace = insert = delete = rename = execute
