"""What each route asks of a key, and which requests the audit log records: one table."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from starlette.types import Message, Scope, Send

from recollect.app import App
from recollect.domain.access import ADMIN, DELETE, READ, WRITE, Caller
from recollect.domain.entries.entry import owner_words
from recollect.service.access.keys import require_scopes

CALLER = "recollect.caller"
"""In a request's scope: who its key belongs to, before the request names a user."""
_RULE = "recollect.rule"
_AS_OPERATOR = "read"
"""Recorded of operators alone: everybody else reads only their own."""


class Rule(NamedTuple):
    """For requests whose method and path match; the first that does counts."""

    matches: str
    scopes: tuple[str, ...]
    audited: str | None = None
    """What the audit log says was done."""


RULES = (
    Rule("POST /api/v1/keys", (ADMIN,), "made a key"),
    Rule("POST /api/v1/keys/open", (ADMIN,), "opened the server"),
    Rule("POST /api/v1/keys/[^/]+/rotate", (ADMIN,), "rotated a key"),
    Rule("DELETE /api/v1/keys/[^/]+", (ADMIN,), "revoked a key"),
    Rule("POST /api/v1/backup", (ADMIN,), "backed up"),
    Rule("GET /api/v1/(?:keys|index)|GET /metrics|POST /api/v1/(?:verify|reindex)", (ADMIN,)),
    Rule("DELETE /api/v1/presets/.*", (ADMIN,), "deleted"),
    Rule("(?:PUT|PATCH) /api/v1/presets/.*", (ADMIN,)),
    Rule("GET /api/v1/whoami", ()),
    Rule("POST /v1/chat/completions|POST /api/v1/threads/[^/]+/messages", (READ, WRITE)),
    Rule("POST /api/v1/memory/search", (READ,), _AS_OPERATOR),
    Rule("(?:GET|HEAD) /api/v1/(?:memory|threads|users)(?:/.*)?", (READ,), _AS_OPERATOR),
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
    rule = scope[_RULE] = rule_for(scope["method"], scope["path"])
    if rule.audited is None:
        return send

    async def send_audited(message: Message) -> None:
        if message["type"] == "http.response.start" and _is_recorded(scope):
            app: App = scope["recollect.app"]
            route = getattr(scope.get("route"), "path", "unmatched")
            told = {"method": scope["method"], "route": route, "status": message["status"]}
            await app.audit.write(scope[CALLER], rule.audited or "", **scope["recollect"], **told)
        await send(message)

    return send_audited


async def admit(scope: Scope, caller: Caller, named: Mapping[str, str]) -> dict[str, str]:
    """Raises Refused where the key lacks a scope that the route needs.

    Tells whose thread or memory the path names, if the audit log is to hold that: it may be gone afterwards.
    """
    scope[CALLER] = caller
    require_scopes(caller, scope[_RULE].scopes)
    if caller.user_id is not None or not _is_recorded(scope):
        return {}
    app: App = scope["recollect.app"]
    if "thread_id" in named:
        thread = await app.THREADS.get_thread(named["thread_id"], space=caller.space)
        return {} if thread is None else {"user": thread.user_id}
    if "entry_id" in named:
        entry = await app.entry_store.get(caller.space, named["entry_id"])
        return {} if entry is None else {"owner": owner_words(entry.owner)}
    return {}


def _is_recorded(scope: Scope) -> bool:
    """Reading is recorded of the holders of an operator's key or token; without keys everybody is the operator."""
    rule: Rule = scope[_RULE]
    caller: Caller | None = scope.get(CALLER)
    if rule.audited is None or caller is None:
        return False
    is_operator = caller.user_id is None and (caller.local_operator or caller.key_id is not None)
    return is_operator or rule.audited != _AS_OPERATOR
