"""Access to the API for daemons and commands: clients, informers, work queues, leader election, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.client.client import Client, Fence
from wharfinger.client.config import ClientConfig, ConfigError
from wharfinger.client.informer import Informer, object_key
from wharfinger.client.leaderelection import LeaderElector
from wharfinger.client.raw import RawClient, RawObject
from wharfinger.client.recorder import EventRecorder, NamedRecorder
from wharfinger.client.transport import CHANNEL_OPTIONS, SERVER_OPTIONS
from wharfinger.client.verbs import Event, ObjectList, ResourceClient, Writer
from wharfinger.client.workqueue import WorkQueue

if TYPE_CHECKING:
    from wharfinger.client.http.client import HttpClient

__all__ = [
    "CHANNEL_OPTIONS",
    "SERVER_OPTIONS",
    "Client",
    "ClientConfig",
    "ConfigError",
    "Event",
    "EventRecorder",
    "Fence",
    "HttpClient",
    "Informer",
    "LeaderElector",
    "NamedRecorder",
    "ObjectList",
    "RawClient",
    "RawObject",
    "ResourceClient",
    "WorkQueue",
    "Writer",
    "connect",
    "object_key",
]


def __getattr__(name: str) -> Any:
    """Load what few need only when somebody does: the HTTP client's library costs every daemon 10 MiB."""
    if name == "HttpClient":
        from wharfinger.client.http.client import HttpClient

        return HttpClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def connect(config: ClientConfig) -> Client:
    """Return the client that a configuration calls for."""
    if config.http is not None:
        from wharfinger.client.http.client import HttpClient

        return HttpClient(config)
    return Client(config)
