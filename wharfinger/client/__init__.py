"""Access to the API for daemons and commands: clients, informers, work queues, leader election, events."""

from wharfinger.client.client import Client, Fence
from wharfinger.client.config import ClientConfig, ConfigError
from wharfinger.client.informer import Informer, object_key
from wharfinger.client.leaderelection import LeaderElector
from wharfinger.client.recorder import EventRecorder, NamedRecorder
from wharfinger.client.resources import Event, ObjectList, RawClient, RawObject, ResourceClient
from wharfinger.client.transport import CHANNEL_OPTIONS, SERVER_OPTIONS
from wharfinger.client.workqueue import WorkQueue
from wharfinger.client.writer import Writer

__all__ = [
    "CHANNEL_OPTIONS",
    "SERVER_OPTIONS",
    "Client",
    "ClientConfig",
    "ConfigError",
    "Event",
    "EventRecorder",
    "Fence",
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


def connect(config: ClientConfig) -> Client:
    """Return the client that a configuration calls for."""
    if config.http is not None:
        from wharfinger.client.http.client import HttpClient  # late: its HTTP library costs every daemon 10 MiB

        return HttpClient(config)
    return Client(config)
