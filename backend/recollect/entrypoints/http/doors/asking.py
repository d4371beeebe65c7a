"""Who asks at a door, and the routes of ours that its calls stand for."""

from dataclasses import dataclass

from fastapi import Request

from recollect.app import App
from recollect.domain.access import Caller
from recollect.domain.model import DEFAULT_USER
from recollect.entrypoints.http.access import act_as
from recollect.entrypoints.http.deps import note


@dataclass(frozen=True, slots=True)
class Asking:
    """A request, and whose memory it is about."""

    home: App
    caller: Caller
    user_id: str
    request: Request
    named: str | None = None
    """The user whom the request or its key names. None: nobody, so an id alone says whose it is."""

    def act_as(self, method: str, path: str, **ids: str) -> None:
        """What the native route asks of a key, counts and records holds here too. Raises Refused and OverQuota."""
        act_as(self.request.scope, self.user_id, method, path)
        note(self.request, **ids)


def asking_for(home: App, caller: Caller, request: Request, user_id: str | None) -> Asking:
    """For the user whom the request names, else the key's, else `me`. Raises Refused for a user's key and another user."""
    named = caller.acting_for(user_id)
    acting = named or DEFAULT_USER
    note(request, user=acting)
    return Asking(home, caller, acting, request, named)
