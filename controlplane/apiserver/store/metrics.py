"""The store's metrics. Kubernetes' names where it has them (component-base and apiserver docs, "Metrics Reference")."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

ETCD_SECONDS = Histogram(
    "etcd_request_duration_seconds", "Seconds of an etcd request, by operation", ["operation"], buckets=_SECONDS
)
ETCD_ERRORS = Counter(
    "etcd_request_errors_total", "etcd requests that failed, by operation and kind", ["operation", "kind"]
)
DB_SIZE = Gauge("apiserver_storage_size_bytes", "Size of etcd's database file, by endpoint", ["storage_cluster_id"])
COMPACTED = Gauge("wharfinger_store_compacted_revision", "The revision that this process last compacted etcd to")

GROUP_SIZE = Histogram(
    "wharfinger_store_group_members", "Writes in one etcd transaction", buckets=(1, 2, 4, 8, 16, 32, 64, 128)
)
WRITES = Counter("wharfinger_store_writes_total", "Writes by outcome", ["outcome"])
QUEUED = Gauge("wharfinger_store_queued_writes", "Writes that wait for their group")

CACHE_EVENTS = Counter(
    "apiserver_watch_cache_events_received_total", "Changes received from etcd, by resource", ["resource"]
)
CACHE_INIT = Counter(
    "apiserver_watch_cache_initializations_total", "Times that the cache listed etcd anew", ["resource"]
)
CACHE_REVISION = Gauge("apiserver_watch_cache_resource_version", "Revision up to which every event is applied")
CACHE_WINDOW = Gauge("apiserver_watch_cache_capacity", "Recent events kept for resuming watches", ["resource"])
CACHE_READ_WAIT = Histogram(
    "apiserver_watch_cache_read_wait_seconds", "Seconds that a read waited for the cache to be fresh", buckets=_SECONDS
)
WATCHERS = Gauge("apiserver_longrunning_requests", "Watches served from the cache", ["verb", "resource"])
WATCHERS_ENDED = Counter(
    "apiserver_terminated_watchers_total", "Watchers closed because they were too slow", ["resource"]
)
OBJECTS = Gauge("apiserver_storage_objects", "Objects stored, by resource", ["resource"])
STREAMS = Counter(
    "wharfinger_store_watch_streams_total", "Watch streams to etcd that were opened, by reason", ["reason"]
)
STREAM_LOST_SECONDS = Gauge("wharfinger_store_stale_seconds", "Seconds since the cache last proved itself current")
