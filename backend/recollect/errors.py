"""Every error Recollect raises on purpose. What HTTP makes of them is decided at the door.

RecollectError
├── InvalidInput            the caller sent something that is not allowed; `field` names it
│   └── TooLarge            more than a limit allows
├── NotFound                it does not exist, or not for this caller
├── AlreadyExists           the id is taken
├── KeyRequired             no API key, or one that is unknown or revoked
├── Refused                 the caller may not do this at all (host, origin, operator's work)
├── Unavailable             something Recollect depends on is down; trying again later makes sense
│   ├── StorageUnavailable  the disk is full, read-only or failing
│   ├── ModelUnavailable    the model does not answer, or not sensibly
│   ├── EmbedderUnavailable  the embedding model is missing, does not answer, or not sensibly
│   ├── IndexUnavailable    the index cannot be read or written, or is being made anew
│   └── ServerUnreachable   the command line found no server where one should run
├── HomeInUse               another process owns this home
├── HomeUnusable            the home, its settings or an archive cannot be used as they are
└── SchemaTooNew            a newer Recollect wrote this journal
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


class NotFound(RecollectError):
    """There is no such thing."""

    code = "not_found"


class AlreadyExists(RecollectError):
    """That id is taken."""

    code = "already_exists"


class KeyRequired(RecollectError):
    """A valid API key is required: send it as 'Authorization: Bearer <key>'."""

    code = "key_required"


class Refused(RecollectError):
    """This request is not allowed here."""

    code = "refused"


class Unavailable(RecollectError):
    """Something this needs is not available right now."""

    code = "unavailable"


class StorageUnavailable(Unavailable):
    """The disk is full, read-only or failing."""

    code = "storage_unavailable"


class ModelUnavailable(Unavailable):
    """The model does not answer, or not sensibly."""

    code = "model_unavailable"


class EmbedderUnavailable(Unavailable):
    """The embedding model is missing, does not answer, or not sensibly."""

    code = "embedder_unavailable"


class IndexUnavailable(Unavailable):
    """The index cannot be read or written, or is being made anew."""

    code = "index_unavailable"


class ServerUnreachable(Unavailable):
    """The server does not answer."""

    code = "server_unreachable"


class HomeInUse(RecollectError):
    """Another Recollect process owns this home."""

    code = "home_in_use"


class HomeUnusable(RecollectError):
    """The home cannot be used as it is."""

    code = "home_unusable"


class SchemaTooNew(RecollectError):
    """A newer Recollect wrote this journal."""

    code = "schema_too_new"
