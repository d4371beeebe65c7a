"""A server with its page, and somebody who visits it."""

import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from recollect.domain.identity import thread_key
from recollect.domain.job import vault_lane
from recollect.domain.model import ThreadRef
from tests.http_client import QUICK, Json
from tests.processes import Server, StandInModel, wait_until

MAY_8 = 1_778_227_200_000
"""2026-05-08T08:00:00Z"""
MINUTE = 60_000
BATCH = 500
SOON = {"RECOLLECT_STRATEGIES__PROFILE__IDLE_SECONDS": "0.05", "RECOLLECT_CHAT__RECALL_SECONDS": "30"}
"""A profile waits for facts to come to rest: not here. Recall is waited for, however busy the machine is."""
REFUSED = "Failed to load resource"
"""The browser's own remark on an answer that is an error: pages show those in words."""


class Site(Server):
    """A server whose model is the stand-in, and ways to put something into its home."""

    def __init__(self, home: Path, model: StandInModel, settings: Mapping[str, str] | None = None) -> None:
        self.model = model
        talking = {"RECOLLECT_LLM__BASE_URL": model.base_url, "RECOLLECT_LLM__MODEL": "stand-in"}
        super().__init__(home, {**QUICK, **SOON, **talking, **(settings or {})})

    def run_instead(self, program: str) -> None:
        """Start this module in place of the command line."""
        self._program = [program]

    def restart(self) -> None:
        """After a kill, at the same address."""
        super().__exit__()
        self._program[self._program.index("--port") + 1] = str(urlsplit(self.address).port)
        self.__enter__()

    def post(self, path: str, **body: Any) -> Json:
        answer: Json = self.client.post(f"/api/v1/{path}", json=body).raise_for_status().json()
        return answer

    def get(self, path: str, **query: Any) -> Json:
        answer: Json = self.client.get(f"/api/v1/{path}", params=query).raise_for_status().json()
        return answer

    def remember(self, user: str, thread: str, *said: str, at: int = MAY_8) -> None:
        """The user said these things, and all memories are made of them; the index holds them, too."""
        messages = [
            {"sender_id": user, "role": "user", "timestamp": at + n * MINUTE, "content": text}
            for n, text in enumerate(said)
        ]
        self.post("memory/add", session_id=thread, user_id=user, messages=messages)
        flushed = self.post("memory/flush", session_id=thread, user_id=user, timeout=60)
        assert flushed["status"] == "done", flushed
        wait_until(lambda: self._is_settled(user), "every message indexed, every job done")

    def talk(self, user: str, thread: str, number: int) -> None:
        """`turn number 1.` and so on, by the user and the assistant in turn, as of a conversation had elsewhere."""
        messages = [
            {
                "sender_id": user,
                "role": "user" if place % 2 else "assistant",
                "timestamp": MAY_8 + place * MINUTE,
                "content": f"turn number {place}.",
            }
            for place in range(1, number + 1)
        ]
        for first in range(0, number, BATCH):
            batch = messages[first : first + BATCH]
            self.post("memory/add", session_id=thread, user_id=user, messages=batch)

    def _is_settled(self, user: str) -> bool:
        counts = self.get("coverage", user_id=user)
        if counts["indexed"] != counts["messages"] or self.get("jobs")["jobs"]:
            return False
        # What was made of the messages is indexed from its files, which `counts` do not follow.
        found = self.post("memory/search", user_id=user, query="anything", mode="keyword")
        return not any("not indexed yet" in told for told in found["degraded"])

    def facts(self, user: str) -> dict[str, str]:
        """The ids of a user's facts by their texts."""
        listed = self.get("memory/entries", user_id=user, kind="facts")
        return {entry["text"]: entry["id"] for entry in listed["entries"]}

    def give_up_a_job(self, thread: str, error: str = "OSError: told to fail") -> None:
        """As if writing the thread's transcript had failed for good."""
        with closing(sqlite3.connect(self.home / "journal.db", timeout=10)) as journal, journal:
            journal.execute(
                "INSERT INTO jobs (kind, lane, space, user_id, thread_id, state, attempts, run_at, created, error)"
                " VALUES ('transcribe', ?, 'default', 'ann', ?, 'dead', 8, 0, 0, ?)",
                (vault_lane(thread_key(ThreadRef("default", "ann", thread))), thread, error),
            )

    def key_for(self, user: str | None = None) -> str:
        """A new API key; from then on every request needs one."""
        token = re.findall(r'"token": ?"([^"]+)"', (self.home / "recollect.lock").read_text())[0]
        headers = {"Authorization": f"Bearer {token}"}
        made = self.client.post("/api/v1/keys", json={"user_id": user}, headers=headers).raise_for_status()
        return str(made.json()["secret"])


class Visit:
    """One browser window on a site. Leaving it asserts that nothing happened that must never happen.

    That is: a script's error, a violation of the content security policy, a request to another host.
    """

    def __init__(
        self, browser: Browser, site: Site, user: str | None, patience_ms: int, options: dict[str, Any]
    ) -> None:
        self.site = site
        self._browser = browser
        self.user = user
        self._patience_ms = patience_ms
        self._options = {
            "viewport": {"width": 1280, "height": 800},
            "locale": "en-GB",
            "timezone_id": "UTC",
            "reduced_motion": "reduce",
            **options,
        }
        self.mishaps: list[str] = []

    def __enter__(self) -> Self:
        self.context: BrowserContext = self._browser.new_context(base_url=self.site.address, **self._options)
        self.context.set_default_timeout(self._patience_ms)
        expect.set_options(timeout=self._patience_ms)
        if self.user is not None:
            self.keep("user", self.user)
        self.page = self.new_page()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.context.close()
        if kind is None:
            assert not self.mishaps, self.mishaps

    def keep(self, name: str, value: str) -> None:
        """Kept by the browser from the first page on."""
        stored = f"localStorage.setItem('recollect.{name}', {json.dumps(value)})"
        self.context.add_init_script(f"if (location.protocol === 'http:') {stored}")

    def new_page(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.mishaps.append(f"script error: {error}"))
        page.on("console", self._heard)
        page.on("request", self._asked)
        return page

    def open(self, *parts: str, page: Page | None = None) -> Page:
        """Go to a page, such as `open("memory", "profile")`."""
        page = page or self.page
        page.goto(f"{self.site.address}/#/{'/'.join(parts)}")
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(REFUSED):
            self.mishaps.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if request.url.startswith(("data:", "blob:")):
            return
        if urlsplit(request.url).netloc != urlsplit(self.site.address).netloc:
            self.mishaps.append(f"a request to {request.url}")


Visits = Callable[..., Visit]
"""What the fixture `visit` gives: `visit(site, "ann")` opens a window."""
