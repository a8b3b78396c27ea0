"""The file of encryption at rest for a cluster: made, and its keys changed step by step.

Several apiservers share the values in etcd. So a key must be known to all of them before the first one writes with it,
and stay known until nothing is left that was written with it. Hence a change of keys is three changes of the file, each
of which must have reached every server before the next: :func:`add_key`, :func:`use_newest`, (everything is written
anew), :func:`drop_old`.

Keys are for NaCl's secretbox: authenticated, and without a bound on how much one key may write.
"""

from __future__ import annotations

import base64
import re
import secrets
from pathlib import Path
from typing import Any

from wharfinger import wholefile
from wharfinger.api import codec, encryption
from wharfinger.api.configfile import ConfigError
from wharfinger.api.errors import StatusError

RESOURCES = ("secrets",)
_SCHEME = "secretbox"
_IDENTITY: dict[str, Any] = {"identity": {}}


class EncryptionFileError(Exception):
    """Raised when a file cannot be made or changed; says why."""


def ensure(path: Path, *, plain: bool = False) -> str:
    """Make the file if there is none, and see to it that values are written encrypted, or `plain` as they are.

    Returns why it was written; empty when it was left alone. Raises EncryptionFileError, OSError.
    """
    if not path.exists():
        _write(path, [_key("key1")], plain=plain)
        return "new"
    keys, was_plain = _read(path)
    if was_plain == plain:
        return ""
    _write(path, keys, plain=plain)
    return "values are written as they are" if plain else "values are written encrypted"


def add_key(path: Path) -> str:
    """Add a key that nothing is written with yet; returns its name. Raises as :func:`ensure`."""
    keys, plain = _read(path)
    numbers = [int(match[1]) for key in keys if (match := re.fullmatch(r"key(\d+)", key["name"]))]
    name = f"key{max(numbers, default=0) + 1}"
    _write(path, [*keys, _key(name)], plain=plain)
    return name


def use_newest(path: Path) -> str:
    """Write with the key that was added last; returns its name, empty if that is so already."""
    keys, plain = _read(path)
    if len(keys) == 1:
        return ""
    _write(path, [keys[-1], *keys[:-1]], plain=plain)
    return str(keys[-1]["name"])


def drop_old(path: Path) -> list[str]:
    """Forget all keys but the one that is written with; returns their names."""
    keys, plain = _read(path)
    if len(keys) > 1:
        _write(path, keys[:1], plain=plain)
    return [key["name"] for key in keys[1:]]


def _key(name: str) -> dict[str, str]:
    return {"name": name, "secret": base64.b64encode(secrets.token_bytes(32)).decode()}


def _read(path: Path) -> tuple[list[dict[str, str]], bool]:
    """Return the keys of a file of ours, and whether identity comes first."""
    try:
        text = path.read_bytes()
        encryption.parse(text)  # says what is wrong with it
        (document,) = codec.load_manifests(text)
        (entry,) = document["resources"]
        first, second = entry["providers"]
        plain = first == _IDENTITY
        boxes, other = (second, first) if plain else (first, second)
        if set(boxes) != {_SCHEME} or other != _IDENTITY:
            raise ValueError
    except FileNotFoundError as error:
        raise EncryptionFileError(f"{path} does not exist; `wharf pki encryption init` makes it") from error
    except (ConfigError, StatusError) as error:
        raise EncryptionFileError(f"{path}: {error}") from error
    except ValueError as error:
        raise EncryptionFileError(
            f"{path}: resources: has not the form that `wharf pki encryption init` makes (one entry with {_SCHEME} and "
            "identity): change it by hand"
        ) from error
    return boxes[_SCHEME]["keys"], plain


def _write(path: Path, keys: list[dict[str, str]], *, plain: bool) -> None:
    providers = [{_SCHEME: {"keys": keys}}, _IDENTITY]
    document = {
        "apiVersion": encryption.API_VERSION,
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": list(RESOURCES), "providers": providers[::-1] if plain else providers}],
    }
    # A key that is lost is data that is lost: never a moment without a whole file.
    wholefile.write(path, codec.to_yaml(document).encode())
