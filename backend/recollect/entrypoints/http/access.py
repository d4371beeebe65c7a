"""What each route asks of a key, which requests the audit log records, and what counts for quotas: one table."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from starlette.types import Message, Receive, Scope, Send

from recollect.app import App
from recollect.domain.access import ADMIN, DELETE, READ, WRITE, Caller
from recollect.domain.entries.entry import owner_words
from recollect.domain.identity import key_within_user
from recollect.errors import AmbiguousThread, OverQuota
from recollect.service.access.keys import require_scopes

CALLER = "recollect.caller"
"""In a request's scope: who its key belongs to, before the request names a user."""
_RULE = "recollect.rule"
_COUNT = "recollect.count"
_READ, _CHANGED, _CHATTED = _AS_OPERATOR = ("read", "changed", "chatted")
"""Recorded of operators alone: everybody else is told only of their own."""


class Rule(NamedTuple):
    """For requests whose method and path match; the first that does counts."""

    matches: str
    scopes: tuple[str, ...]
    audited: str | None = None
    """What the audit log says was done."""
    stores: bool = True
    """Whether what needs the scope `write` may store something."""

    @property
    def fills_disk(self) -> bool:
        """Refused where the user has no space left."""
        return self.stores and WRITE in self.scopes


RULES = (
    Rule("POST /api/v1/keys", (ADMIN,), "made a key"),
    Rule("POST /api/v1/keys/open", (ADMIN,), "opened the server"),
    Rule("POST /api/v1/keys/[^/]+/rotate", (ADMIN,), "rotated a key"),
    Rule("DELETE /api/v1/keys/[^/]+", (ADMIN,), "revoked a key"),
    Rule("POST /api/v1/backup", (ADMIN,), "backed up"),
    Rule("PUT /api/v1/model", (ADMIN,), "connected a model"),
    Rule("POST /api/v1/webhooks", (READ, WRITE), "made a webhook", stores=False),
    Rule("POST /api/v1/webhooks/[^/]+/test", (READ, WRITE), stores=False),
    Rule("DELETE /api/v1/webhooks/[^/]+", (READ, WRITE), "deleted a webhook", stores=False),
    Rule("GET /api/v1/(?:keys|index)|GET /metrics|POST /api/v1/(?:verify|reindex)", (ADMIN,)),
    Rule("DELETE /api/v1/presets/.*", (ADMIN,), "deleted"),
    Rule("(?:PUT|PATCH) /api/v1/presets/.*", (ADMIN,)),
    Rule("GET /api/v1/whoami", ()),
    Rule("POST /api/v1/threads/[^/]+/cancel|POST /api/v1/jobs/[^/]+/retry", (WRITE,), stores=False),
    # Of the protocols that these speak, what is done is known when their bodies are read: see `act_as`.
    Rule("POST /mcp|POST /api/v1/memory/tool", (), stores=False),
    Rule("POST /api/v2/memory/.*", (), stores=False),
    Rule(
        "[A-Z]+ /v[34]/(?:documents|search|settings|connections|profile|memories)(?:/.*)?", (), stores=False
    ),
    Rule("[A-Z]+ /(?:memories(?:/.*)?|search|reset|configure)", (), stores=False),
    Rule(
        "[A-Z]+ /v[123]/(?:ping|memories|event|entities|batch|exports|summary|feedback)/.*", (), stores=False
    ),
    Rule("POST /v1/(?:chat/completions|responses|messages)", (READ, WRITE)),
    Rule("POST /v1/responses/[^/]+/cancel", (WRITE,), stores=False),
    Rule("(?:GET|HEAD) /v1/(?:responses|conversations)/.*", (READ,), _READ),
    Rule("POST /v1/conversations/[^/]+", (READ, WRITE), _CHANGED),
    Rule(
        "POST /v1/(?:embeddings|completions|messages/count_tokens|responses/(?:input_tokens|compact))",
        (READ,),
    ),
    Rule("POST /api/v1/threads/[^/]+/messages", (READ, WRITE), _CHATTED),
    Rule("POST /api/v1/memory/search", (READ,), _READ),
    Rule("(?:GET|HEAD) /api/v1/(?:memory|threads|users)(?:/.*)?", (READ,), _READ),
    Rule("PATCH /api/v1/(?:memory|threads|users)/.*", (READ, WRITE), _CHANGED),
    Rule("POST /api/v1/memory/entries/[^/]+/undo", (READ, WRITE), _CHANGED),
    Rule("POST /api/v1/memory/(?:entries|notes|reprocess)", (WRITE,), _CHANGED),
    Rule("POST /api/v1/imports", (WRITE,), _CHANGED, stores=False),  # Counted bit by bit.
    Rule("(?:GET|HEAD|OPTIONS) .*", (READ,)),
    Rule("DELETE .*", (DELETE,), "deleted"),
    Rule(".*", (WRITE,)),
)
_matched = re.compile("|".join(f"({rule.matches})" for rule in RULES), re.DOTALL).fullmatch
"""Its last index is the number of the rule, because rules have no groups that capture."""


@lru_cache(maxsize=128)
def rule_for(method: str, path: str) -> Rule:
    found = _matched(f"{method} {path}")
    assert found is not None
    assert found.lastindex is not None
    return RULES[found.lastindex - 1]


def audited(scope: Scope, send: Send) -> Send:
    """Writes the request's line of the audit log, if it gets one, before its answer begins."""
    scope[_RULE] = rule_for(scope["method"], scope["path"])

    async def send_audited(message: Message) -> None:
        if message["type"] == "http.response.start" and _is_recorded(scope):
            app: App = scope["recollect.app"]
            route = getattr(scope.get("route"), "path", "unmatched")
            told = {"method": scope["method"], "route": route, "status": message["status"]}
            ids = _without_words(scope["recollect"], scope[CALLER].space)
            await app.audit.write(scope[CALLER], scope[_RULE].audited, **ids, **told)
        await send(message)

    return send_audited


class _Count:
    """Counts one request for its user. Holds no scope: that holds the caller, and a cycle would wait for the collector."""

    __slots__ = ("_app", "_caller", "_is_done", "_rule", "size")

    def __init__(self, app: App, caller: Caller, rule: Rule, size: int) -> None:
        self._app, self._caller, self._rule = app, caller, rule
        self._is_done = False
        self.size = size

    def __call__(self, user_id: str) -> None:
        """Raises OverQuota. What a user's quota refuses is no request of the key's."""
        if self._is_done:
            return
        self._is_done = True
        quotas, caller = self._app.quotas, self._caller
        try:
            if self._rule.fills_disk:
                quotas.count_disk(caller.space, user_id, self.size)
            if not caller.local_operator:
                quotas.count("user", (caller.space, user_id), self.size)
        except OverQuota:
            if not caller.local_operator:
                quotas.take_back(caller.key_id or "")
            raise


def counted(scope: Scope, caller: Caller, size: int | None) -> Caller:
    """Count a request for its key now, and for its user as soon as that is known. Raises OverQuota.

    `size` is that of its body, None where that is not told; then `count_arriving` counts it. Of what the command line
    on this machine does only the space is limited.
    """
    app: App = scope["recollect.app"]
    if not caller.local_operator:
        app.quotas.count("key", caller.key_id or "", 1 if size is None else size)
    rule = scope.get(_RULE) or rule_for(scope["method"], scope["path"])
    count = scope[_COUNT] = _Count(app, caller, rule, size or 0)
    if caller.user_id is not None and size is not None:
        count(caller.user_id)
    return Caller(
        caller.space,
        caller.user_id,
        caller.local_operator,
        caller.key_id,
        caller.scopes,
        caller.is_hint,
        count,
    )


def body_bytes(scope: Scope) -> int:
    """Length of the request's body, as far as it is known yet."""
    count: _Count = scope[_COUNT]
    return count.size


def count_arriving(scope: Scope, receive: Receive) -> Receive:
    """Counts the bytes of a body whose length is not told, for its key."""

    async def counting() -> Message:
        message = await receive()
        caller: Caller | None = scope.get(CALLER)
        size = len(message.get("body", b""))
        if size and caller is not None and not caller.local_operator:
            scope[_COUNT].size += size
            scope["recollect.app"].quotas.count_bytes(caller.key_id or "", size)
        return message

    return counting


def _without_words(ids: Mapping[str, str], space: str) -> dict[str, str]:
    """Names the thread by its key: its id may be a person's words, which forgetting could not take out of the log."""
    return {name: key_within_user(space, value) if name == "thread" else value for name, value in ids.items()}


def admit(scope: Scope, caller: Caller) -> None:
    """Raises Refused where the key lacks a scope that the route needs."""
    scope[CALLER] = caller
    require_scopes(caller, scope[_RULE].scopes)


def act_as(scope: Scope, user_id: str, method: str, path: str) -> None:
    """Hold a request of another protocol to the rule of the native route that does the same for the user.

    Raises Refused where the key lacks a scope, OverQuota where what is stored has no space left.
    """
    rule = scope[_RULE] = rule_for(method, path)
    require_scopes(scope[CALLER], rule.scopes)
    if rule.fills_disk:
        app: App = scope["recollect.app"]
        app.quotas.count_disk(scope[CALLER].space, user_id, body_bytes(scope))


async def owner_named(scope: Scope, named: Mapping[str, str], acting: Caller) -> dict[str, str]:
    """Whose thread or memory an operator's path names, if a quota or the audit log is about that: it may be gone
    afterwards.

    `acting` is the caller with the user whom the request names, whose threads alone can be meant.
    """
    caller: Caller = scope[CALLER]
    rule: Rule = scope[_RULE]
    app: App = scope["recollect.app"]
    fills_disk = bool(app.quotas.disk_mb) and rule.fills_disk
    if caller.user_id is not None or not (fills_disk or _is_recorded(scope)):
        return {}
    if "thread_id" in named and acting.user_id is None:
        try:
            thread = await app.THREADS.get_thread(named["thread_id"], space=caller.space)
        except AmbiguousThread:
            return {}  # Only the request can tell whose it means.
        if thread is not None and fills_disk:
            app.quotas.count_disk(caller.space, thread.user_id, body_bytes(scope))
        return {} if thread is None else {"user": thread.user_id}
    if "entry_id" in named:
        entry = await app.entry_store.get(caller.space, named["entry_id"])
        return {} if entry is None else {"owner": owner_words(entry.owner)}
    return {}


def _is_recorded(scope: Scope) -> bool:
    """Reads and the like are recorded of who holds an operator's key or token; without keys everybody is the operator."""
    rule: Rule = scope[_RULE]
    caller: Caller | None = scope.get(CALLER)
    if rule.audited is None or caller is None:
        return False
    is_operator = caller.user_id is None and (caller.local_operator or caller.key_id is not None)
    return is_operator or rule.audited not in _AS_OPERATOR
