"""Every error Recollect raises on purpose. What HTTP makes of them is decided at the door.

RecollectError
├── InvalidInput            the caller sent something that is not allowed; `field` names it
│   ├── TooLarge            more than a limit allows
│   ├── UnsupportedMediaType  a body that is no JSON
│   └── UnknownModel        the backend has no model of that name; says which it has
├── NotFound                it does not exist, or not for this caller
├── AlreadyExists           the id is taken
├── Conflict                it was changed meanwhile, or is not what the request says it is
│   └── AmbiguousThread     several users have a thread of that id
├── TooMuchQueued           so much work of this user waits that no more is taken for now
├── OverQuota               a quota of this user or key is used up; `retry_after` says for how long
│   └── DiskQuotaUsed       the user's files take up what they may; waiting alone does not help
├── KeyRequired             no API key, or one that is unknown or revoked
├── Refused                 the caller may not do this at all (host, origin, operator's work)
├── Unavailable             something Recollect depends on is down; trying again later makes sense
│   ├── StorageUnavailable  the disk is full, read-only or failing
│   ├── ModelUnavailable    the model does not answer, or not sensibly
│   │   ├── BackendDown     nobody answers at its address
│   │   ├── RateLimited     it wants fewer requests; `retry_after` says when
│   │   ├── ModelTooSlow    it went silent, or took longer than it may
│   │   ├── StreamBroken    its answer broke off, or was none
│   │   └── ModelRefused    it refused the request, and said why
│   ├── EmbedderUnavailable  the embedding model is missing, does not answer, or not sensibly
│   │   └── TextRefused     it answers, and will not take this text
│   ├── IndexUnavailable    the index cannot be read or written, or is being rebuilt
│   │   └── IndexUnreachable  what holds it does not answer: nothing is known to be damaged
│   └── ServerUnreachable   the command line found no server where one should run
├── DeliveryFailed          a webhook's receiver can't be reached, or did not accept a delivery
├── HomeInUse               another process owns this home
├── HomeUnusable            the home, its settings or an archive cannot be used as they are
├── SchemaTooNew            a newer Recollect wrote this journal
└── SchemaTooOld            an older Recollect wrote this journal, and this one cannot upgrade it
"""


class RecollectError(Exception):
    """Something Recollect could not do."""

    code = "error"

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())
        self.field = field

    @property
    def message(self) -> str:
        return str(self.args[0])


class InvalidInput(RecollectError):
    """The request holds something that is not allowed."""

    code = "invalid"


class TooLarge(InvalidInput):
    """The request is larger than the limit."""

    code = "too_large"


class UnsupportedMediaType(InvalidInput):
    """The body is not JSON."""

    code = "unsupported_media_type"


class UnknownModel(InvalidInput):
    """The backend has no model of that name."""

    code = "unknown_model"


class NotFound(RecollectError):
    """There is no such thing."""

    code = "not_found"


class AlreadyExists(RecollectError):
    """That id is taken."""

    code = "already_exists"


class Conflict(RecollectError):
    """It was changed meanwhile: read it again."""

    code = "conflict"


class AmbiguousThread(Conflict):
    """Several users have a thread of that id: name one as `user_id`."""

    code = "ambiguous_thread"


class TooMuchQueued(RecollectError):
    """Too much work of this user waits."""

    code = "too_much_queued"
    retry_after = 10.0
    """Seconds."""


class OverQuota(RecollectError):
    """A quota of this user or key is used up."""

    code = "over_quota"

    def __init__(self, message: str | None = None, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds."""


class DiskQuotaUsed(OverQuota):
    """This user's files take up as much as they may."""

    code = "disk_quota_used"


class KeyRequired(RecollectError):
    """A valid API key is required: send it as 'Authorization: Bearer <key>'."""

    code = "key_required"


class Refused(RecollectError):
    """This request is not allowed here."""

    code = "refused"


class Unavailable(RecollectError):
    """Something this needs is not available right now."""

    code = "unavailable"

    def __init__(
        self, message: str | None = None, *, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, field=field)
        self.retry_after = retry_after
        """Seconds after which trying again makes sense, where that is known."""


class StorageUnavailable(Unavailable):
    """The disk is full, read-only or failing."""

    code = "storage_unavailable"


class ModelUnavailable(Unavailable):
    """The model does not answer, or not sensibly."""

    code = "model_unavailable"

    def __init__(
        self,
        message: str | None = None,
        *,
        details: str = "",
        field: str | None = None,
        retry_after: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(f"{message}{details}" if message else None, field=field, retry_after=retry_after)
        self.code = code or self.code
        self.details = details
        """The status that the server answered with, and what may be wrong; nothing that it said."""


class BackendDown(ModelUnavailable):
    """Nobody answers at the model's address."""

    code = "backend_down"


class RateLimited(ModelUnavailable):
    """The model's server wants fewer requests."""

    code = "rate_limited"


class ModelTooSlow(ModelUnavailable):
    """The model went silent, or took longer than it may."""

    code = "model_too_slow"


class StreamBroken(ModelUnavailable):
    """The model's answer broke off, or was none."""

    code = "stream_broken"


class ModelRefused(ModelUnavailable):
    """The model's server refused the request."""

    code = "model_refused"
    """Or one of CODES_OF_REFUSALS, where the server tells that much."""


CODES_OF_REFUSALS = frozenset(
    {"context_length_exceeded", "content_filter", "content_policy_violation", "model_not_found"}
    | {"invalid_request", "invalid_prompt", "invalid_type", "invalid_value", "missing_required_parameter"}
    | {"unsupported_parameter", "unsupported_value"}
)
"""OpenAI's, for what is wrong with a request: a server's own code among them is kept, all others are `invalid_request`."""


class EmbedderUnavailable(Unavailable):
    """The embedding model is missing, does not answer, or not sensibly."""

    code = "embedder_unavailable"


class TextRefused(EmbedderUnavailable):
    """The embedding model refuses this text."""

    code = "text_refused"


class IndexUnavailable(Unavailable):
    """The index cannot be read or written, or is being rebuilt."""

    code = "index_unavailable"


class IndexUnreachable(IndexUnavailable):
    """What holds the index, as S3 or a shared folder, does not answer: it is as it was."""

    code = "index_unreachable"


class ServerUnreachable(Unavailable):
    """The server does not answer."""

    code = "server_unreachable"


class DeliveryFailed(RecollectError):
    """A webhook's receiver cannot be reached, or did not accept a delivery."""

    code = "delivery_failed"


class HomeInUse(RecollectError):
    """Another Recollect process owns this home."""

    code = "home_in_use"


class HomeUnusable(RecollectError):
    """The home cannot be used as it is."""

    code = "home_unusable"


class SchemaTooNew(RecollectError):
    """A newer Recollect wrote this journal."""

    code = "schema_too_new"


class SchemaTooOld(RecollectError):
    """An older Recollect wrote this journal, and this version cannot upgrade it."""

    code = "schema_too_old"
