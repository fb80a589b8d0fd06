"""What went wrong with a request to a remote store, and what to do about it, in words.

Libraries say the same thing by many exceptions; they are distinguished by HTTP status, by the code
that S3 gives, and by the names of their classes, so that none of those libraries has to be
imported. Sources: RFC 9110, section 15; Amazon S3 API reference, "Error responses".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyperslab.errors import (
    AGAIN,
    FormatError,
    HyperslabError,
    SourceChanged,
    Unavailable,
    UsageError,
)
from hyperslab.storage.location import Remote

_ALWAYS_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 509})
"HTTP statuses after which the same request may succeed."
_SLOW = frozenset({429, 503, 509})
_SLOW_CODES = frozenset(
    {"SlowDown", "RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequests"}
)
_DENIED_CODES = frozenset(
    {"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"}
)
_ELSEWHERE = frozenset(
    {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_NO_CREDENTIALS = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError"}
)
_UNTRUSTED = frozenset({"ClientSSLError", "ClientConnectorCertificateError", "SSLError"})
_UNREACHED = frozenset(
    {"ClientConnectorError", "EndpointConnectionError", "gaierror", "ConnectionRefusedError"}
)
_SILENT = frozenset(
    {"TimeoutError", "timeout", "ConnectTimeoutError", "ReadTimeoutError", "FSTimeoutError"}
)
_CUT = frozenset(
    {
        "ClientConnectionError",
        "ConnectionError",
        "ClientPayloadError",
        "HTTPClientError",
        "IncompleteRead",
    }
)
_SENSELESS = frozenset(
    {"TypeError", "ValueError", "KeyError", "AttributeError", "ParamValidationError"}
)

_CREDENTIALS = "check the credentials (storage options key and secret; anon=true for public data)"
_WORDS: dict[str, tuple[type[HyperslabError], str]] = {
    "missing": (FormatError, "there is no such object ({said}); check its name and its bucket"),
    "gone": (SourceChanged, "is no longer there: restore it"),
    "changed": (SourceChanged, "{said}: restore it"),
    "denied": (FormatError, f"access is denied ({{said}}); {_CREDENTIALS}"),
    "hidden": (
        FormatError,
        "access is denied ({said}), which S3 also says of what is not there, where the bucket may"
        " not be listed; " + _CREDENTIALS + ", and that they allow s3:ListBucket",
    ),
    "anonymous": (UsageError, f"there are no credentials ({{said}}); {_CREDENTIALS}"),
    "elsewhere": (
        UsageError,
        "it lies in another region ({said}); give client_kwargs with region_name, or endpoint_url",
    ),
    "untrusted": (
        UsageError,
        "the certificate of the server is not trusted ({said}); check the URL or the endpoint",
    ),
    "unreached": (
        Unavailable,
        "the server cannot be reached ({said}){after}; check host and endpoint_url",
    ),
    "silent": (
        Unavailable,
        "no answer within {limit}{after}; check host and endpoint_url, or try again later",
    ),
    "slow": (
        Unavailable,
        "the store asks to slow down ({said}){after}; use fewer workers, or try again later",
    ),
    "failing": (Unavailable, "the store fails ({said}){after}; try again later"),
    "cut": (Unavailable, "the connection breaks off ({said}){after}; try again later"),
    "senseless": (
        UsageError,
        "cannot be asked for ({said}); check the URL and the storage options",
    ),
    "refused": (
        FormatError,
        "the store refuses the request ({said}); check the URL and the storage options",
    ),
    "rangeless": (
        FormatError,
        (
            "the server ignores range requests, so that parts cannot be read; copy the file to this"
            " machine"
        ),
    ),
    "wrong": (
        FormatError,
        "the server sends other bytes than those asked for ({said}); copy the file to this machine",
    ),
    "there": (UsageError, "exists; choose another name, or say that it may be overwritten"),
}
"Kind of fault -> exception, and a sentence about the object that stands before it."
_PASSING = frozenset({"unreached", "silent", "slow", "failing", "cut"})


class Refused(Exception):
    """An answer that is not the one asked for, before it has become a sentence."""

    def __init__(self, kind: str, said: str = "", status: int = 0, retry_after: str = "") -> None:
        super().__init__(said)
        self.kind, self.said, self.status, self.retry_after = kind, said, status, retry_after


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong with one attempt."""

    kind: str
    said: str
    status: int = 0
    "Status of HTTP; 0 where there was no answer."
    pause_s: float | None = None
    "How long the server asks to wait."

    @property
    def is_passing(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in _PASSING

    @property
    def is_absence(self) -> bool:
        """Whether the store says that there is no such object, in a place where there could be
        one.
        """
        return (
            self.kind == "missing"
            and self.status in (0, 404)
            and not self.said.endswith("NoSuchBucket")
        )

    @property
    def may_be_absence(self) -> bool:
        """Whether S3 says so of an object that is not there, too, to who may not list its
        bucket.
        """
        return self.status == 403 and self.said in ("403", "403 403", "403 AccessDenied")

    def error(self, remote: Remote, attempts: int, limit_s: float) -> HyperslabError:
        """The exception for the user, free of secrets."""
        kind, words = _WORDS[self.kind]
        after = ""
        if attempts > 1:
            after = f", at each of {attempts} attempts"
        said = remote.hide(self.said)
        sentence = words.format(said=said, after=after, limit=f"{limit_s:g} s")
        resuming = ""
        if kind is SourceChanged:
            resuming = AGAIN
        return kind(f"{remote}: {sentence}", resuming)


def understand(error: BaseException) -> Fault:
    """What an exception of an attempt means."""
    if isinstance(error, Refused) and not error.status:
        return Fault(error.kind, error.said)
    status, code = _answered(error)
    if status:
        kind = _kind_of_status(status, code)
        said = f"{status} {code}".strip()
        return Fault(kind, said, status, _asked_pause_s(error))
    names = {cls.__name__ for cls in type(error).__mro__}
    said = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    kinds = (
        ("anonymous", _NO_CREDENTIALS),
        ("missing", {"FileNotFoundError"}),
        ("denied", {"PermissionError"}),
        ("there", {"FileExistsError"}),
        ("untrusted", _UNTRUSTED),
        ("silent", _SILENT),
        ("unreached", _UNREACHED),
        ("cut", _CUT),
        ("senseless", _SENSELESS),
    )
    kind = next((kind for kind, known in kinds if names & known), "failing")
    return Fault(kind, said)


def _asked_pause_s(error: BaseException) -> float | None:
    """The pause that a store asks for before the next attempt; None where it says none."""
    pause = str(getattr(error, "retry_after", ""))
    if not pause.isdecimal():
        return None
    return float(pause)


def _answered(error: BaseException) -> tuple[int, str]:
    """HTTP status and the store's own code, or (0, '') if there was no answer."""
    for found in (error, error.__cause__):
        if found is None:
            continue
        response: Any = getattr(found, "response", None)
        if isinstance(response, dict):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return int(status), str(response.get("Error", {}).get("Code", ""))
        for name in ("status", "status_code", "code"):  # aiohttp and ours, azure, google
            status = vars(found).get(name)
            if isinstance(status, int) and 300 <= status < 600:
                return status, str(getattr(found, "said", ""))
    return 0, ""


def _kind_of_status(status: int, code: str) -> str:
    if code in _SLOW_CODES or status in _SLOW:
        return "slow"
    if status in _ALWAYS_PASSING or code in ("RequestTimeout", "InternalError"):
        return "failing"
    if code in _ELSEWHERE or status in (301, 307):
        return "elsewhere"
    if code in _DENIED_CODES:
        return "denied"
    if status == 412:
        return "there"
    return {401: "denied", 403: "denied", 404: "missing", 410: "missing"}.get(status, "refused")
