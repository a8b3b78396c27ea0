"""What can be said with a call, once for every client: over gRPC, over HTTP, by the write stream, on messages or bytes.

Each set of options is a typed dictionary, so ``**options: Unpack[DeleteOptions]`` gives a method its keywords without
saying them again, and mypy knows them. The functions turn them into the messages of the API; a keyword that mypy has
not seen (from a dictionary of the command line, say) is refused by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Required, TypedDict, Unpack

import orjson

from wharfinger.api.types import meta
from wharfinger.proto.native import resources_v1_pb2 as native

PatchType = Literal["json", "merge", "strategic", "apply"]
PATCH_TYPES: dict[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
Patch = bytes | Mapping[str, Any] | Sequence[Any]
"""JSON text, or what becomes it."""


class WriteOptions(TypedDict, total=False):
    """What every write takes."""

    dry_run: bool
    field_manager: str
    field_validation: str
    """Ignore, Warn or Strict; empty: the server's default."""
    brief: bool
    """The answer needs no object (our own servers only)."""
    lazy: bool
    """It may wait for a tick of the store, with others (our own servers only)."""
    force: bool
    """Of a server-side apply: take over fields that others own."""


class PatchOptions(WriteOptions, total=False):
    """What a patch takes besides the object's name."""

    patch: Required[Patch]
    patch_type: PatchType
    """merge unless said."""
    namespace: str
    subresource: str


class CollectionDeleteOptions(WriteOptions, total=False):
    """How objects are deleted; what is None is left to the server."""

    grace_period_seconds: int | None
    propagation_policy: str | None
    """Background, Foreground or Orphan."""


class DeleteOptions(CollectionDeleteOptions, total=False):
    """How one object is deleted, and on what condition."""

    uid: str | None
    """Refused with ConflictError when the object has another one."""
    resource_version: str | None
    """Refused with ConflictError when the object has changed since."""


class SelectOptions(TypedDict, total=False):
    """Which objects of a collection are meant."""

    label_selector: str
    field_selector: str


class ListOptions(SelectOptions, total=False):
    """What a list takes."""

    limit: int
    continue_: str
    resource_version: str
    resource_version_match: str


class WatchOptions(SelectOptions, total=False):
    """What a watch takes."""

    resource_version: str
    timeout_seconds: int | None
    send_initial_events: bool


class PatchCall(NamedTuple):
    """A patch taken apart: what it is, where it belongs, and what every write takes."""

    body: bytes
    content_type: str
    namespace: str
    subresource: str
    options: WriteOptions


def patch_call(given: PatchOptions) -> PatchCall:
    """Take the keywords of a patch apart."""
    rest: dict[str, Any] = dict(given)
    patch, patch_type = rest.pop("patch"), rest.pop("patch_type", "merge")
    return PatchCall(
        body=patch if isinstance(patch, bytes) else orjson.dumps(patch),
        content_type=PATCH_TYPES[patch_type],
        namespace=rest.pop("namespace", ""),
        subresource=rest.pop("subresource", ""),
        options=_written(rest),
    )


def delete_call(given: DeleteOptions | CollectionDeleteOptions) -> tuple[meta.DeleteOptions, WriteOptions]:
    """Take the keywords of a delete apart: those of the API's DeleteOptions, and what every write takes."""
    rest: dict[str, Any] = dict(given)
    chosen = meta.DeleteOptions()
    if (seconds := rest.pop("grace_period_seconds", None)) is not None:
        chosen.gracePeriodSeconds = seconds
    if (policy := rest.pop("propagation_policy", None)) is not None:
        chosen.propagationPolicy = policy
    if (uid := rest.pop("uid", None)) is not None:
        chosen.preconditions.uid = uid
    if (version := rest.pop("resource_version", None)) is not None:
        chosen.preconditions.resourceVersion = version
    return chosen, _written(rest)


def _written(rest: dict[str, Any]) -> WriteOptions:
    options: WriteOptions = {}
    options.update(rest)  # type: ignore[typeddict-item]  # write_options refuses what it does not know
    return options


def write_options(fence: native.Fence | None = None, **options: Unpack[WriteOptions]) -> native.WriteOptions:
    """Build the options that every write takes. Raises ValueError for one that there is not."""
    made = native.WriteOptions(**options)
    if fence is not None:
        made.fence.CopyFrom(fence)
    return made


def list_options(**options: Unpack[ListOptions]) -> meta.ListOptions:
    """Build the options of a list. Raises TypeError for one that there is not."""
    if unknown := options.keys() - ListOptions.__optional_keys__:
        raise TypeError(f"{', '.join(sorted(unknown))}: no option of a list; there are {_LIST_NAMES}")
    made = meta.ListOptions(
        labelSelector=options.get("label_selector", ""),
        fieldSelector=options.get("field_selector", ""),
        limit=options.get("limit", 0),
        resourceVersion=options.get("resource_version", ""),
        resourceVersionMatch=options.get("resource_version_match", ""),
    )
    setattr(made, "continue", options.get("continue_", ""))
    return made


_LIST_NAMES = ", ".join(sorted(ListOptions.__optional_keys__))


def watch_options(**options: Unpack[WatchOptions]) -> meta.ListOptions:
    """Build the options of a watch, which asks for bookmarks. Raises TypeError for one that there is not."""
    if unknown := options.keys() - WatchOptions.__optional_keys__:
        raise TypeError(f"{', '.join(sorted(unknown))}: no option of a watch; there are {_WATCH_NAMES}")
    made = list_options(
        label_selector=options.get("label_selector", ""),
        field_selector=options.get("field_selector", ""),
        resource_version=options.get("resource_version", ""),
    )
    made.watch = made.allowWatchBookmarks = True
    if (seconds := options.get("timeout_seconds")) is not None:
        made.timeoutSeconds = seconds
    if options.get("send_initial_events"):
        made.sendInitialEvents = True
        made.resourceVersionMatch = "NotOlderThan"
    return made


_WATCH_NAMES = ", ".join(sorted(WatchOptions.__optional_keys__))
