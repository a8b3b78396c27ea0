"""The file of ``--encryption-provider-config``: an EncryptionConfiguration of ``apiserver.config.k8s.io/v1``.

For each resource a list of providers: the first one writes, and all can read. The rules are kube-apiserver's. A
resource is named ``secrets`` or ``deployments.apps``; ``*.apps`` is a group, ``*.`` the core group and ``*.*``
everything. The entry that names the resource is used, else the one of its group, else that of everything; who is named
twice has the providers of both, and an entry behind one that covers it already is an error. What no entry names is
stored as it is.

Read strictly, and no message ever shows a secret.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wharfinger.api import configfile
from wharfinger.api.encryption.ciphers import AesCbc, AesGcm, CipherError, SecretBox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wharfinger.api.configfile import Fields
    from wharfinger.api.encryption.ciphers import Cipher

API_VERSION = "apiserver.config.k8s.io/v1"
MARK = b"k8s:enc:"
"""What every encrypted value begins with."""
_AES_SIZES = (16, 24, 32)
_PROVIDERS: dict[str, tuple[tuple[int, ...], Callable[[bytes], Cipher]]] = {
    "aescbc": (_AES_SIZES, AesCbc),
    "aesgcm": (_AES_SIZES, AesGcm),
    "secretbox": ((32,), SecretBox),
}
_NOT_SERVED = frozenset({"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"})


class GroupResource(NamedTuple):
    """A resource and its group, or ``*`` for all."""

    group: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> GroupResource:
        """Read ``secrets``, ``deployments.apps`` or ``*.``."""
        resource, _, group = text.partition(".")
        return cls(group, resource)

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group or self.resource == "*" else self.resource


_EVERYTHING = GroupResource("*", "*")


class Opened(NamedTuple):
    """A value that could be read."""

    value: bytes
    stale: bool
    """Whether it would be written otherwise today."""


@dataclass(frozen=True, slots=True, repr=False)
class Provider:
    """One provider with its keys; without a scheme: identity."""

    scheme: str
    keys: tuple[tuple[str, Cipher], ...] = ()

    @property
    def prefix(self) -> bytes:
        """What its values begin with, before the key's name."""
        return MARK + f"{self.scheme}:v1:".encode() if self.scheme else b""

    @property
    def seal_prefix(self) -> bytes:
        """What the values begin with that it writes today."""
        return self.prefix + f"{self.keys[0][0]}:".encode() if self.scheme else b""

    def seal(self, value: bytes, context: bytes) -> bytes:
        """Return a value as it is to be stored."""
        return self.seal_prefix + self.keys[0][1].seal(value, context) if self.scheme else value

    def open(self, stored: bytes, context: bytes) -> Opened:
        """Read a value that begins with the provider's prefix. Raises CipherError."""
        if not self.scheme:
            if stored.startswith(MARK):
                raise CipherError("the value is encrypted")
            return Opened(stored, stale=False)
        rest = stored[len(self.prefix) :]
        tried: list[str] = []
        for number, (name, cipher) in enumerate(self.keys):
            label = f"{name}:".encode()
            if rest.startswith(label):
                try:
                    return Opened(cipher.open(rest[len(label) :], context), stale=number > 0)
                except CipherError as error:
                    tried.append(f"key {name!r} of {self.scheme}: {error}")
        if tried:
            raise CipherError("; ".join(tried))
        name = rest.partition(b":")[0][:63].decode(errors="replace")
        raise CipherError(f"it was written with the key {name!r} of {self.scheme}, which the configuration lacks")


IDENTITY = (Provider(""),)


class Encryption:
    """What a file says: the providers of each resource."""

    def __init__(self, providers: dict[GroupResource, tuple[Provider, ...]]) -> None:
        self._providers = providers

    def providers(self, resource: GroupResource) -> Sequence[Provider]:
        """Return the providers of a resource."""
        found = self._providers
        for one in (resource, GroupResource(resource.group, "*"), _EVERYTHING):
            if one in found:
                return found[one]
        return IDENTITY


def open_value(providers: Sequence[Provider], stored: bytes, context: bytes) -> Opened:
    """Read a stored value with the first provider that can. Raises CipherError."""
    tried: list[str] = []
    for number, provider in enumerate(providers):
        if stored.startswith(provider.prefix):
            try:
                opened = provider.open(stored, context)
            except CipherError as error:
                if provider.scheme:
                    tried.append(str(error))
                continue
            return Opened(opened.value, opened.stale or number > 0)
    if tried:
        raise CipherError("; ".join(tried))
    if stored.startswith(MARK):
        scheme = stored[len(MARK) :].partition(b":")[0][:20].decode(errors="replace")
        raise CipherError(f"it was written by the provider {scheme!r}, which the configuration does not have here")
    raise CipherError("it is not encrypted, and the configuration has no provider identity here")


def load(path: Path) -> Encryption:
    """Read a file. Raises ConfigError that names the file and the field."""
    return configfile.load(path, parse)


def parse(text: bytes) -> Encryption:
    """Read the text of a file. Raises ConfigError that names the field."""
    return _read(configfile.parse(text, api_version=API_VERSION, kind="EncryptionConfiguration"))


def _read(top: Fields) -> Encryption:
    found: dict[GroupResource, tuple[Provider, ...]] = {}
    entries = top.items("resources")
    top.end()
    if not entries:
        raise top.error("resources", "must hold at least one entry")
    for entry in entries:
        resources = _resources(entry)
        providers = tuple(map(_provider, entry.items("providers")))
        if not providers:
            raise entry.error("providers", "must hold at least one; identity stores values as they are")
        entry.end()
        for number, resource in enumerate(resources):
            for cover in (GroupResource(resource.group, "*"), _EVERYTHING):
                if cover in found:
                    why = f"{str(resource)!r} is masked: an earlier entry is about {str(cover)!r}"
                    raise entry.error(f"resources[{number}]", why)
        for resource in resources:
            found[resource] = found.get(resource, ()) + providers
    return Encryption(found)


def _resources(entry: Fields) -> list[GroupResource]:
    names = entry.texts("resources")
    if not names:
        raise entry.error("resources", "must hold at least one resource")
    found: list[GroupResource] = []
    for number, name in enumerate(names):
        resource = GroupResource.parse(name)
        why = _objection(name, resource)
        if resource in found:
            why = "stands here twice"
        elif any(
            _EVERYTHING in (resource, one) or (one.group == resource.group and "*" in (one.resource, resource.resource))
            for one in found
        ):
            why = "overlaps with another one of the list, which would mask it"
        if why:
            raise entry.error(f"resources[{number}]", f"{name!r}: {why}")
        found.append(resource)
    return found


def _objection(name: str, resource: GroupResource) -> str:
    if name.lower() != name:
        return "must not have capital letters"
    if name == "*":
        return "say '*.' for all of the core group, or '*.*' for everything"
    if not resource.resource:
        return "must be the name of a resource, such as secrets or deployments.apps"
    if name in _NOT_SERVED:
        return "is nothing that the API serves, so it cannot be encrypted"
    if resource.group == "events.k8s.io":
        return "events of both groups are stored as those of the core group: say 'events'"
    if resource.group == "extensions":
        return "there is no such group any more"
    if resource.group == "*" and resource.resource != "*":
        return "one resource of every group cannot be named: say '*.*', or each with its group"
    if "*" in resource.group[1:] or ("*" in resource.resource and resource.resource != "*"):
        return "'*' may only stand for a whole name"
    return ""


def _provider(fields: Fields) -> Provider:
    given = [name for name in ("identity", *_PROVIDERS, "kms") if fields.has(name)]
    if len(given) != 1:
        raise fields.error(
            given[1] if given else "identity",
            "one provider an element"
            if given
            else "is missing, and so are aescbc, aesgcm and secretbox: one is wanted",
        )
    (name,) = given
    if name == "kms":
        raise fields.error("kms", "is not built; use aescbc, aesgcm or secretbox with keys in this file")
    inner = fields.sub(name)
    fields.end()
    if name == "identity":
        inner.end()
        return Provider("")
    sizes, make = _PROVIDERS[name]
    keys = tuple(_key(key, sizes, make) for key in inner.items("keys"))
    if not keys:
        raise inner.error("keys", "must hold at least one key")
    inner.end()
    return Provider(name, keys)


def _key(fields: Fields, sizes: Sequence[int], make: Callable[[bytes], Cipher]) -> tuple[str, Cipher]:
    name, secret = fields.text("name"), fields.text("secret")
    if not name:
        raise fields.error("name", "is required")
    if not secret:
        raise fields.error("secret", "is required")
    fields.end()
    try:
        key = base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        raise fields.error("secret", "must be base64") from None  # what it was is nobody's business
    if len(key) not in sizes:
        wanted = " or ".join(map(str, sizes))
        raise fields.error("secret", f"holds {len(key)} bytes: must be {wanted}")
    return name, make(key)
