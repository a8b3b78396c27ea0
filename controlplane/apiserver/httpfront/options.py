"""Query parameters to options. What cannot be read is a 400, what is wrong a 422, and what is unknown is ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.request import WriteOptions
from wharfinger.api import codec, errors
from wharfinger.api.errors import BadRequestError, FieldError
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.httpfront.routing import Address
    from controlplane.apiserver.request import Body

_VALIDATIONS = ("Ignore", "Strict", "Warn")
_MANAGER_LENGTH = 128
_SHOWN = 64
"""Characters of a wrong value that an error repeats."""
_TEXTS = ("labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "continue")
_FLAGS = ("allowWatchBookmarks", "sendInitialEvents")
_NUMBERS = ("limit", "timeoutSeconds")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


def flag(value: str) -> bool:
    """Read a truth value as Kubernetes does: everything but ``false`` and ``0`` is true."""
    return value.lower() not in ("false", "0")


def verb_of(method: str, address: Address, query: Mapping[str, str]) -> str:
    """Return the verb that a request asks for by its path alone; empty for a method that no resource knows."""
    verb = _VERBS.get(method, "")
    if address.name:
        return verb
    if verb == "get":
        return "watch" if address.watching or flag(query.get("watch", "false")) else "list"
    return "deletecollection" if verb == "delete" else verb


def number(name: str, value: str) -> int:
    """Read a whole number. Raises BadRequestError that names the parameter."""
    try:
        read = int(value)
    except ValueError:
        read = None
    plain = value.isascii() and value.strip("+-").isdigit()
    if read is None or not plain or not -(2**63) <= read < 2**63:
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        raise BadRequestError(f"{name}: {shown!r} is no whole number of 64 bits")
    return read


def list_options(query: Mapping[str, str]) -> meta.ListOptions:
    """Read the options of a list, watch or deletecollection. Raises BadRequestError."""
    options: Any = meta.ListOptions()
    for name in _TEXTS:
        if query.get(name):
            setattr(options, name, query[name])
    for name in _FLAGS:
        if name in query:
            setattr(options, name, flag(query[name]))
    for name in _NUMBERS:
        if name in query:
            setattr(options, name, number(name, query[name]))
    made: meta.ListOptions = options
    return made


def write_options(query: Mapping[str, str], kind: str, *, apply: bool = False) -> WriteOptions:
    """Read the options of a write; `kind` (``CreateOptions`` and so on) is named in errors. Raises InvalidError."""
    causes: list[FieldError] = []
    dry_run = query.get("dryRun")
    if dry_run is not None and dry_run != "All":
        causes.append(FieldError.not_supported("dryRun", [dry_run], ["All"]))
    manager = query.get("fieldManager", "")
    if kind == "PatchOptions" and not apply and "force" in query:
        causes.append(FieldError.forbidden("force", "only apply patches may be forced"))
    if apply and not manager:
        causes.append(FieldError.required("fieldManager", "an apply patch must say who applies"))
    if len(manager) > _MANAGER_LENGTH:
        causes.append(FieldError.too_long("fieldManager", _MANAGER_LENGTH))
    elif not manager.isprintable():
        causes.append(FieldError.invalid("fieldManager", manager, "it must consist of printable characters"))
    validation = query.get("fieldValidation", "")
    if validation and validation not in _VALIDATIONS:
        causes.append(FieldError.not_supported("fieldValidation", validation, _VALIDATIONS))
    if causes:
        raise errors.invalid(kind, "meta.k8s.io", "", causes)
    force = apply and flag(query.get("force", "false"))
    return WriteOptions(dry_run == "All", manager, validation or "Warn", force=force)


def delete_options(query: Mapping[str, str], body: Body | None) -> meta.DeleteOptions:
    """Read delete options from the body, or without one from the query. Raises BadRequestError."""
    if body is not None:
        return _from_body(body)
    options = meta.DeleteOptions()
    if "gracePeriodSeconds" in query:
        options.gracePeriodSeconds = number("gracePeriodSeconds", query["gracePeriodSeconds"])
    if "orphanDependents" in query:
        options.orphanDependents = flag(query["orphanDependents"])
    if "propagationPolicy" in query:
        options.propagationPolicy = query["propagationPolicy"]
    if "dryRun" in query:
        options.dryRun.append(query["dryRun"])
    return options


def _from_body(body: Body) -> meta.DeleteOptions:
    if body.kind and body.kind != "DeleteOptions":
        raise BadRequestError(f"the body of a delete is a {body.kind}, but must be DeleteOptions")
    if body.content_type.endswith("protobuf"):
        return codec.from_protobuf(body.data, meta.DeleteOptions)
    found = codec.load_documents(body.data)
    document = found[0] if found else {}
    if not isinstance(document, dict):
        raise BadRequestError("the body of a delete must be one object, DeleteOptions")
    kind = document.get("kind", "DeleteOptions")
    if kind != "DeleteOptions":
        raise BadRequestError(f"the body of a delete is a {kind}, but must be DeleteOptions")
    # Every group version knows these options under its own name.
    document = {**document, "kind": "DeleteOptions", "apiVersion": "v1"}
    return codec.from_json(document, meta.DeleteOptions, validation="Ignore").message
