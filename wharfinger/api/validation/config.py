"""Config maps, secrets and service accounts.

Rules: the API references of ``ConfigMap``, ``Secret`` and ``ServiceAccount``, and "Types of Secret" in Kubernetes'
documentation.
"""

from __future__ import annotations

import orjson

from wharfinger.api import accounttokens
from wharfinger.api.types import core
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules, only_metadata

MAX_BYTES = 1024 * 1024
"""Of all values of a ConfigMap or Secret together."""
_FROZEN = "field is immutable when `immutable` is set"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def _create_map(config: core.ConfigMap, errors: Errors) -> None:
    metadata.validate_kind(config.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    total = 0
    for key, value in config.data.items():
        errors.complaints(f"data[{key}]", key, names.config_key(key))
        if key in config.binaryData:
            errors.invalid(f"data[{key}]", key, "the key is also in binaryData")
        total += len(value) if value.isascii() else len(value.encode())
    for key, content in config.binaryData.items():
        errors.complaints(f"binaryData[{key}]", key, names.config_key(key))
        total += len(content)
    if total > MAX_BYTES:
        # Brackets without a key stand for the object as a whole.
        errors.too_long("[]", MAX_BYTES)


def _update_map(config: core.ConfigMap, old: core.ConfigMap, errors: Errors) -> None:
    metadata.validate_kind_update(config.metadata, old.metadata, errors)
    if old.immutable:
        if not config.immutable:
            errors.forbidden("immutable", _FROZEN)
        if dict(config.data) != dict(old.data):
            errors.forbidden("data", _FROZEN)
        if dict(config.binaryData) != dict(old.binaryData):
            errors.forbidden("binaryData", _FROZEN)
    _create_map(config, errors)


def _create_secret(secret: core.Secret, errors: Errors) -> None:
    metadata.validate_kind(secret.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    data = secret.data
    total = 0
    for key, value in data.items():
        errors.complaints(f"data[{key}]", key, names.config_key(key))
        total += len(value)
    if total > MAX_BYTES:
        errors.too_long("data", MAX_BYTES)
    kind = secret.type
    if kind == accounttokens.TYPE:
        if not secret.metadata.annotations.get(accounttokens.ACCOUNT):
            errors.required(f"metadata.annotations[{accounttokens.ACCOUNT}]")
    elif kind in _JSON_KEYS:
        key = _JSON_KEYS[kind]
        if key not in data:
            errors.required(f"data[{key}]")
        elif not _is_json_object(data[key]):
            errors.invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors.required("data[username]")
            errors.required("data[password]")
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            errors.required("data[ssh-privatekey]")
    elif kind == "kubernetes.io/tls":
        for key in ("tls.crt", "tls.key"):
            if key not in data:
                errors.required(f"data[{key}]")


def _is_json_object(text: bytes) -> bool:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return found is None or isinstance(found, dict)


def _update_secret(secret: core.Secret, old: core.Secret, errors: Errors) -> None:
    metadata.validate_kind_update(secret.metadata, old.metadata, errors)
    metadata.immutable(errors, "type", secret.type, old.type)
    if old.immutable:
        if not secret.immutable:
            errors.forbidden("immutable", _FROZEN)
        if dict(secret.data) != dict(old.data):
            errors.forbidden("data", _FROZEN)
    _create_secret(secret, errors)


RULES = {
    core.ConfigMap: Rules(create=_create_map, update=_update_map),
    core.Secret: Rules(create=_create_secret, update=_update_secret),
    core.ServiceAccount: only_metadata(namespaced=True),
}
