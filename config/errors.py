"""The one error tree: every error has a stable code, says whether it is retryable, and what the person is told."""

from __future__ import annotations


class YizhanError(Exception):
    """Base of all errors of the product.

    ``code`` is stable and safe for logs and metrics; ``retryable`` says whether the same call may succeed later;
    ``user_text`` is the Chinese sentence a person may be shown. The message must hold no secret and no message body.
    """

    code = "internal"
    retryable = False
    user_text = "刚才没能完成，请稍后再试。"

    def __init__(self, message: str = "", *, code: str | None = None, user_text: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])
        if code is not None:
            self.code = code
        if user_text is not None:
            self.user_text = user_text


class SettingsError(YizhanError):
    """The settings are not usable; the message names account, field, form and source, never a value."""

    code = "settings"


class DatabaseBusy(YizhanError):
    """The database did not take the write in time."""

    code = "database_busy"
    retryable = True


class DatabaseNewer(YizhanError):
    """The database was written by a newer version of the code."""

    code = "database_newer"


class DatabaseBroken(YizhanError):
    """The database file is damaged, or is no database; waiting does not mend it."""

    code = "database_broken"


class FenceLost(YizhanError):
    """The claim this write was made under belongs to somebody else now; nothing was written."""

    code = "fence_lost"


class NotFound(YizhanError):
    """There is no such thing for this tenant and person."""

    code = "not_found"
    user_text = "没有找到。"


class Refused(YizhanError):
    """The request is understood and refused."""

    code = "refused"
