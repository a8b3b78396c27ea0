"""Small objects without a file: ``wharf create namespace x``, ``configmap``, ``secret generic``, ``deployment`` …

Each is a function from the command line to a document, with one line in the table. What follows the name is a
deployment's command (kubectl demands a ``--`` before it; click does not tell whether there was one).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wharfinger.cli import imperative_rights as rights
from wharfinger.cli.failures import CommandError
from wharfinger.cli.reporting import needs

Flags = Mapping[str, Any]


def _namespace(name: str, _: Flags) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _service_account(name: str, _: Flags) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def _config_map(name: str, flags: Flags) -> dict[str, Any]:
    text: dict[str, str] = {}
    binary: dict[str, str] = {}
    for key, content in entries(flags).items():
        try:
            text[key] = content.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(content).decode()
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    if text:
        document["data"] = text
    if binary:
        document["binaryData"] = binary
    return document


def _secret(name: str, flags: Flags) -> dict[str, Any]:
    data = {key: base64.b64encode(content).decode() for key, content in entries(flags).items()}
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    if flags["type"]:
        document["type"] = flags["type"]
    return document


def _deployment(name: str, flags: Flags) -> dict[str, Any]:
    images: Sequence[str] = flags["images"]
    needs(bool(images), 'required flag(s) "image" not set')
    command = list(flags["command"])
    needs(not command or len(images) == 1, "cannot specify multiple --image options and command")
    labels = {"app": name}
    containers: list[dict[str, Any]] = []
    for image in images:
        short = image.rpartition("/")[2].partition("@")[0].partition(":")[0].replace(".", "-").replace("_", "-")
        containers.append({"name": short.lower(), "image": image, **({"command": command} if command else {})})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": flags["replicas"] if flags["replicas"] is not None else 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


_MAKERS: dict[str, Callable[[str, Flags], dict[str, Any]]] = {
    "namespace": _namespace,
    "ns": _namespace,
    "serviceaccount": _service_account,
    "sa": _service_account,
    "configmap": _config_map,
    "cm": _config_map,
    "secret": _secret,
    "deployment": _deployment,
    "deploy": _deployment,
    "role": rights.role,
    "clusterrole": rights.cluster_role,
    "rolebinding": rights.role_binding,
    "clusterrolebinding": rights.cluster_role_binding,
    "quota": rights.quota,
    "resourcequota": rights.quota,
}
_SHORT = frozenset({"ns", "sa", "cm", "deploy", "resourcequota"})


def build(arguments: Sequence[str], flags: Flags) -> dict[str, Any]:
    """Return the document that ``TYPE NAME`` and the flags stand for. CommandError for what cannot be made so."""
    words = list(arguments)
    maker = _MAKERS.get(words[0].lower())
    if maker is None:
        known = ", ".join([*(name for name in _MAKERS if name not in _SHORT), "token"])
        raise CommandError(f"{words[0]} cannot be created without a file; give -f FILE ({known} can)")
    if maker is _secret:
        needs(len(words) > 1 and words[1] == "generic", "say which secret: wharf create secret generic NAME")
        words.pop(1)
    takes_command = maker is _deployment and len(words) > 2
    needs(len(words) == 2 or takes_command, f"exactly one NAME is required, received {len(words) - 1}")
    return maker(words[1], {**flags, "command": words[2:]})


def entries(flags: Flags) -> dict[str, bytes]:
    """Read ``--from-literal key=value`` and ``--from-file [key=]path`` (a folder: its files)."""
    found: dict[str, bytes] = {}

    def add(key: str, content: bytes) -> None:
        if key in found:
            raise CommandError(f'cannot add key "{key}", another key by that name already exists')
        found[key] = content

    for literal in flags["literals"]:
        key, equals, value = literal.partition("=")
        needs(bool(equals and key), f"invalid literal source {literal}, expected key=value")
        add(key, value.encode())
    for source in flags["from_files"]:
        key, equals, name = source.partition("=")
        path = Path(name if equals else source)
        try:
            if path.is_dir():
                needs(not equals, "cannot give a key name for a directory path")
                for file in sorted(path.iterdir()):
                    if file.is_file():
                        add(file.name, file.read_bytes())
            else:
                add(key if equals else path.name, path.read_bytes())
        except OSError as error:
            raise CommandError(f"error reading {path}: {error.strerror}") from error
    return found
