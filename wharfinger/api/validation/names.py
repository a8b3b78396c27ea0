"""Whether a text may be a name, a label, a key, a port name: the small rules that every object passes many times.

Each function returns the complaints about its argument, none when it is right. Some texts break two rules at once
and Kubernetes then reports two causes for one field, hence a tuple instead of one text.

Most of what a cluster writes repeats (label keys, images, node names), so answers are cached. Texts longer than any
valid name are judged outside the caches, so that nobody can fill them with megabytes.

The rules are those of ``k8s.io/apimachinery/pkg/util/validation`` (RFC 1035, RFC 1123, and "Labels and Selectors" in
Kubernetes' documentation).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

Complaints = tuple[str, ...]
"""What is wrong with a text; empty when nothing is."""

NONE: Final[Complaints] = ()

_CACHED = 16384
_LONGEST_CACHED = 400

_DNS1123_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_DNS1123_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DNS1123_UNDERSCORE = re.compile(r"[a-z0-9_](?:[-_a-z0-9]*[a-z0-9_])?(?:\.[a-z0-9_](?:[-_a-z0-9]*[a-z0-9_])?)*")
_DNS1035_LABEL = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_WILDCARD = re.compile(r"\*\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_PORT_CHARACTERS = re.compile(r"[-a-z0-9]+")
_LETTER = re.compile(r"[a-z]")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")

_LABEL_TEXT = "must consist of lower case letters, digits and '-', and start and end with a letter or digit"
_SUBDOMAIN_TEXT = (
    "must be one or more labels joined by '.', each of lower case letters, digits and '-', starting and ending with "
    "a letter or digit (such as 'example.com')"
)
_QUALIFIED_TEXT = (
    "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit (such as 'MyName'), "
    "with an optional DNS subdomain and '/' before it (such as 'example.com/MyName')"
)
_VALUE_TEXT = (
    "a label value must be empty or consist of letters, digits, '-', '_' and '.', and start and end with a letter "
    "or digit"
)


def _cached(check: Callable[[str], Complaints]) -> Callable[[str], Complaints]:
    """Cache a check for texts of ordinary length; an endless one is judged again each time."""
    remembered = lru_cache(maxsize=_CACHED)(check)

    @wraps(check)
    def judge(text: str) -> Complaints:
        return remembered(text) if len(text) <= _LONGEST_CACHED else check(text)

    return judge


def _length(text: str, limit: int) -> Complaints:
    # Limits count bytes, but every text within the patterns is ASCII, so characters tell the same.
    return NONE if len(text) <= limit else (f"must be no more than {limit} bytes",)


@_cached
def dns1123_label(text: str) -> Complaints:
    """Judge one label of a DNS name (RFC 1123), at most 63 characters."""
    complaints = _length(text, 63)
    return complaints if _DNS1123_LABEL.fullmatch(text) else (*complaints, _LABEL_TEXT)


@_cached
def dns1123_subdomain(text: str) -> Complaints:
    """Judge a DNS name (RFC 1123), at most 253 characters."""
    complaints = _length(text, 253)
    return complaints if _DNS1123_SUBDOMAIN.fullmatch(text) else (*complaints, _SUBDOMAIN_TEXT)


@_cached
def dns1123_subdomain_with_underscore(text: str) -> Complaints:
    """Judge a DNS name in which labels may hold '_', as search domains do."""
    complaints = _length(text, 253)
    return complaints if _DNS1123_UNDERSCORE.fullmatch(text) else (*complaints, _SUBDOMAIN_TEXT)


@_cached
def dns1035_label(text: str) -> Complaints:
    """Judge a DNS label that starts with a letter (RFC 1035), at most 63 characters."""
    complaints = _length(text, 63)
    return complaints if _DNS1035_LABEL.fullmatch(text) else (*complaints, f"{_LABEL_TEXT}, the first one a letter")


@_cached
def wildcard_dns1123_subdomain(text: str) -> Complaints:
    """Judge a DNS name whose first label is '*'."""
    complaints = _length(text, 253)
    return complaints if _WILDCARD.fullmatch(text) else (*complaints, f"must start with '*.', then {_SUBDOMAIN_TEXT}")


@_cached
def fully_qualified(text: str) -> Complaints:
    """Judge a DNS name of at least three labels."""
    if not text:
        return ("must not be empty",)
    complaints = dns1123_subdomain(text)
    if complaints:
        return complaints
    return NONE if len(text.split(".")) >= 3 else ("should be a domain with at least three segments separated by dots",)


@_cached
def domain_prefixed_path(text: str) -> Complaints:
    """Judge ``domain/path``, as names of signers and managers are written."""
    if not text:
        return ("must not be empty",)
    domain, slash, path = text.partition("/")
    if not slash or not domain or not path:
        return ("must be a domain-prefixed path (such as 'acme.io/foo')",)
    complaints = dns1123_subdomain(domain)
    if complaints:
        return tuple(f"the part before '/' {complaint}" for complaint in complaints)
    return NONE if _HTTP_PATH.fullmatch(path) else ("the part after '/' must be a valid HTTP path",)


@_cached
def qualified_name(text: str) -> Complaints:
    """Judge a label key, annotation key, resource or finalizer name: ``[domain/]name``."""
    prefix, slash, name = text.rpartition("/")
    complaints: Complaints = NONE
    if slash:
        if "/" in prefix:
            return (_QUALIFIED_TEXT,)
        if not prefix:
            complaints = ("the part before '/' must not be empty",)
        else:
            complaints = tuple(f"the part before '/' {complaint}" for complaint in dns1123_subdomain(prefix))
    if not name:
        complaints = (*complaints, "the name must not be empty")
    elif len(name) > 63:
        complaints = (*complaints, "the name must be no more than 63 bytes")
    return complaints if _QUALIFIED.fullmatch(name) else (*complaints, _QUALIFIED_TEXT)


@_cached
def label_value(text: str) -> Complaints:
    """Judge the value of a label, at most 63 characters, perhaps empty."""
    complaints = _length(text, 63)
    return complaints if _LABEL_VALUE.fullmatch(text) else (*complaints, _VALUE_TEXT)


@_cached
def port_name(text: str) -> Complaints:
    """Judge the name of a port (an IANA service name, RFC 6335), at most 15 characters."""
    complaints = []
    if len(text) > 15:
        complaints.append("must be no more than 15 bytes")
    if not _PORT_CHARACTERS.fullmatch(text):
        complaints.append("must contain only lower case letters, digits and '-'")
    if not _LETTER.search(text):
        complaints.append("must contain at least one lower case letter")
    if "--" in text:
        complaints.append("must not contain two '-' in a row")
    if text and (text[0] == "-" or text[-1] == "-"):
        complaints.append("must not begin or end with '-'")
    return tuple(complaints)


@_cached
def environment_name(text: str) -> Complaints:
    """Judge the name of an environment variable: printable ASCII without '='."""
    if not text:
        return ("an environment variable must have a name",)
    if all(" " <= character <= "~" and character != "=" for character in text):
        return NONE
    return ("an environment variable's name must consist of printable ASCII characters other than '='",)


@_cached
def config_key(text: str) -> Complaints:
    """Judge a key of a ConfigMap or Secret, which becomes a file name."""
    complaints = _length(text, 253)
    if not _CONFIG_KEY.fullmatch(text):
        complaints = (*complaints, "a key must consist of letters, digits, '-', '_' and '.'")
    if text in (".", ".."):
        return (*complaints, f"must not be '{text}'")
    return (*complaints, "must not start with '..'") if text.startswith("..") else complaints


@_cached
def header_name(text: str) -> Complaints:
    """Judge the name of an HTTP header."""
    if _HEADER.fullmatch(text):
        return NONE
    return ("an HTTP header's name must consist of letters, digits and '-'",)


@_cached
def c_identifier(text: str) -> Complaints:
    """Judge an identifier as in C."""
    if _C_IDENTIFIER.fullmatch(text):
        return NONE
    return ("must consist of letters, digits and '_', and not start with a digit",)


@_cached
def path_segment(text: str) -> Complaints:
    """Judge a name that only has to fit into a URL's path, as the names of roles."""
    if text in (".", ".."):
        return (f"must not be '{text}'",)
    return tuple(f"must not contain '{sign}'" for sign in "/%" if sign in text)


def path_segment_prefix(text: str) -> Complaints:
    """Judge the beginning of a name that has to fit into a URL's path."""
    return tuple(f"must not contain '{sign}'" for sign in "/%" if sign in text)


def port_number(port: int) -> Complaints:
    """Judge a port: 1 to 65535."""
    return NONE if 1 <= port <= 65535 else ("must be between 1 and 65535, inclusive",)


def user_id(number: int) -> Complaints:
    """Judge the number of a user or group: 0 to 2147483647."""
    return NONE if 0 <= number <= 2147483647 else ("must be between 0 and 2147483647, inclusive",)


def generated(check: Callable[[str], Complaints], prefix: str) -> Complaints:
    """Judge a ``generateName``: what is appended to it takes the place of a '-' at its end."""
    if check is path_segment:
        return path_segment_prefix(prefix)
    return check(prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix)
