"""Texts without what only its owner should know: passwords and signatures in URLs, values of
options named for secrets.

`redact` is applied where records are written and where errors are shown; `hide` knows the very
values of the storage options that a request was made with, and is applied to what libraries say of
it (`tests/storage/remote/test_secrets.py`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

OPTION = "--storage-option"
"The flag of the command line whose values are hidden, but for those named below."
HARMLESS = frozenset(
    {
        *("anon", "endpoint_url", "region_name", "use_ssl", "requester_pays", "version_aware"),
        *("hyperslab_timeout_s", "hyperslab_attempts"),
    }
)
"Storage options whose values are no secret; all others may be."
_WORDS = (
    r"passw|passphrase|secret|token|credential|api[-_]?key|access[-_]?key|signature|authorization"
)
_NAME = rf"[\w-]*(?:{_WORDS})[\w-]*"
_BEGIN = r"(?<![\w-])"
"Where a name begins: looking for one from each of its letters on would take long."
_SIGNED = r"sig|key|auth|jwt|code|pwd|pass|session|policy|hmac|hdnea|hdnts"
"Short names that mean a secret in the query of a URL."
_PUBLIC = (
    r"versionId|version|generation|format|download|sv"
    r"|X-Amz-(?:Algorithm|Date|Expires|SignedHeaders)"
)
"Names in the query of a web address whose values are no secret; all others may be."
_VALUE = r"""(?: '[^']*' | "[^"]*" | [^\s&\#'"]+ )"""
_PRIVATE = rf"""(?ix) (://) (?: [^/\s]+ | [^/\s:@\[]*:(?!\d*/)[^\s@'"]+ ) (?=@)
    | ( {_BEGIN}{_NAME}= | {_BEGIN}--{_NAME}\s | [?&](?:{_SIGNED})= ) {_VALUE}
    | ( (["']){_NAME}\4 \s* : \s* ["'] ) [^"']+"""
_QUERY = rf"(?ix) ( [?&] (?!(?:{_PUBLIC})=) [^=&\#\s?'\"]+ = ) {_VALUE}"
_LEAST_LENGTH = 4
"A shorter text is no secret worth the name, and may be part of any word."


def redact(text: str) -> str:
    """The text without user:password@ in URLs, values of queries, and values of names that mean a
    secret.
    """
    text = re.sub(_PRIVATE, lambda match: f"{match[1] or match[2] or match[3]}***", text)
    return re.sub(
        _QUERY,
        lambda match: f"{match[1]}***" if _is_on_the_web(text[: match.start()]) else match[0],
        text,
    )


def _is_on_the_web(before: str) -> bool:
    """Whether what follows a text is in a web address, as far as can be seen.

    Other addresses have no query, but may have names that look like one.
    """
    above, _, _ = before.rpartition("://")
    return above.lower().endswith(("http", "https"))


def redact_command(arguments: Sequence[str]) -> str:
    """A command as one line, without the values of storage options and without all that `redact`
    leaves out.
    """
    return shlex.join(
        _argument(before, argument) for before, argument in pairwise(["", *arguments])
    )


def is_private(name: str) -> bool:
    """Whether a name means a secret."""
    return re.fullmatch(f"(?i:{_NAME})", name) is not None


def hide(text: str, options: Mapping[str, Any]) -> str:
    """The text without any value of these storage options that may be a secret."""
    for value in sorted(set(_values(options)), key=len, reverse=True):
        text = text.replace(value, "***")
    return redact(text)


def _values(options: Any) -> Iterator[str]:
    """The texts among options that may be secret, however deep they lie."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            if name not in HARMLESS:
                yield from _values(value)
    elif isinstance(options, str):
        if len(options) >= _LEAST_LENGTH:
            yield options
    elif isinstance(options, list | tuple):
        for value in options:
            yield from _values(value)


def _argument(before: str, argument: str) -> str:
    """What is shown of an argument, which may be the value of the one before it."""
    if before == OPTION:
        return _without_value(argument)
    if argument.startswith(f"{OPTION}="):
        return f"{OPTION}={_without_value(argument.removeprefix(f'{OPTION}='))}"
    if re.fullmatch(f"(?i)--{_NAME}", before):
        return "***"
    named = re.match(f"(?i)-*{_NAME}=", argument)
    if named:
        return f"{named[0]}***"
    return redact(argument)


def _without_value(option: str) -> str:
    name, equals, _ = option.partition("=")
    if name in HARMLESS:
        return redact(option)
    if not equals:
        return "***"
    return f"{name}=***"
