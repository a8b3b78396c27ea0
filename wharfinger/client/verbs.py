"""The verbs of the API on message objects, whatever carries them: what informers, controllers and commands work with.

:class:`ResourceClient` and :class:`Writer` are what callers see. Over gRPC they are
:class:`~wharfinger.client.resources.GrpcResourceClient` and :class:`~wharfinger.client.writer.StreamWriter`; over
HTTP, for other Kubernetes clusters, those of :mod:`wharfinger.client.http`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Self, TypeVar, Unpack

from google.protobuf.message import Message

from wharfinger.api.kinds import Kind
from wharfinger.client.options import (
    CollectionDeleteOptions,
    DeleteOptions,
    ListOptions,
    PatchOptions,
    WatchOptions,
    WriteOptions,
)

M = TypeVar("M", bound=Message)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(slots=True)
class Event(Generic[M]):
    """One change of one object; BOOKMARK events have no object."""

    type: EventType
    object: M
    resource_version: str
    initial_events_end: bool = False


@dataclass(slots=True)
class ObjectList(Generic[M]):
    """What a list answered, all under one resourceVersion."""

    items: list[M]
    resource_version: str
    continue_: str = ""
    remaining: int = 0


class ResourceClient(ABC, Generic[M]):
    """All verbs on one kind, with message objects.

    Every method raises the StatusError that the server answered with, and ServiceUnavailableError when the connection
    is lost: a write may then have happened.
    """

    progress_deadline: float
    """Seconds after which a watch without event or bookmark must be taken for dead."""

    def __init__(self, kind: Kind, message: type[M]) -> None:
        self.kind = kind
        self.message = message

    @abstractmethod
    async def get(self, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = "") -> M:
        """Return one object. Raises NotFoundError."""

    @abstractmethod
    async def list(self, *, namespace: str = "", **options: Unpack[ListOptions]) -> ObjectList[M]:
        """Return the objects of a namespace (empty: of all)."""

    @abstractmethod
    def watch(
        self, *, namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[Sequence[Event[M]], None]:
        """Yield changes after `resource_version` in batches, BOOKMARKs included.

        Ends when the server ends it. Raises ExpiredError when the version is too old, ServiceUnavailableError when
        the connection is lost.
        """

    @abstractmethod
    async def create(self, obj: M, *, namespace: str = "", subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """Store a new object and return it as stored."""

    @abstractmethod
    async def update(self, obj: M, *, subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """Replace an object; with a resourceVersion in it, only if it has not changed since (ConflictError)."""

    async def update_status(self, obj: M, **options: Unpack[WriteOptions]) -> M:
        """Replace an object's status."""
        return await self.update(obj, subresource="status", **options)

    @abstractmethod
    async def patch(self, name: str, **options: Unpack[PatchOptions]) -> M:
        """Change an object by a patch and return the result."""

    @abstractmethod
    async def delete(self, name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]) -> None:
        """Delete an object, or begin to (grace period, finalizers)."""

    @abstractmethod
    async def delete_collection(
        self,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        **options: Unpack[CollectionDeleteOptions],
    ) -> None:
        """Delete every object of a namespace that the selectors choose."""


class Writer(ABC):
    """Many writes at once, of any kind; every method awaits that write's own outcome.

    Must be closed (or used as ``async with``). Safe for many tasks of one event loop.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def create(self, obj: M, **options: Unpack[WriteOptions]) -> M:
        """Store a new object; see ResourceClient.create."""

    @abstractmethod
    async def update(self, obj: M, *, subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """Replace an object; see ResourceClient.update."""

    @abstractmethod
    async def patch(self, message: type[M], name: str, **options: Unpack[PatchOptions]) -> M:
        """Change an object by a patch; see ResourceClient.patch."""

    @abstractmethod
    async def delete(
        self, message: type[Message], name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> None:
        """Delete an object; see ResourceClient.delete."""

    @abstractmethod
    async def displace(
        self, pod: str, *, namespace: str, reason: str, message: str, uid: str | None = None, brief: bool = False
    ) -> None:
        """Delete a pod that makes way for something, with the condition DisruptionTarget that says why.

        Raises NotFoundError, and ConflictError when the pod has another `uid`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Take no more writes; those without an answer may fail."""
