"""Reads and writes of keys: what the rest of the apiserver sees of etcd, beside the cache."""

from __future__ import annotations

from dataclasses import replace

from controlplane.apiserver.store.client import EtcdClient, EtcdConfig, from_pb, prefix_end, to_bytes
from controlplane.apiserver.store.commit import Committer
from controlplane.apiserver.store.failures import EtcdFailure, LeaseGone
from controlplane.apiserver.store.leases import Leases
from controlplane.apiserver.store.transform import PLAIN, Transformer
from controlplane.apiserver.store.types import Committed, CompareFailed, KeyValue, RangeResult, Write
from wharfinger.proto.etcd import rpc_pb2


class Store:
    """Reads and writes of keys; see the package for an example.

    `group_commit_max` is how many writes may share a transaction (1: none), `lazy_tick` how many seconds a lazy write
    waits for others. `transformer` encrypts what is stored; callers see and give plain values.
    """

    def __init__(
        self,
        config: EtcdConfig,
        *,
        group_commit_max: int = 100,
        lazy_tick: float = 0.05,
        transformer: Transformer = PLAIN,
    ) -> None:
        self.config = config
        self.transformer = transformer
        self.client = EtcdClient(config)
        self._group_commit_max = group_commit_max
        self._lazy_tick = lazy_tick
        self._leases = Leases(self.client)
        self._committer: Committer | None = None

    async def start(self) -> None:
        """Open the channel; does not wait for etcd. Raises OSError when a TLS file cannot be read."""
        await self.client.start()
        self._committer = Committer(self.client, group_max=self._group_commit_max, lazy_tick=self._lazy_tick)

    async def stop(self) -> None:
        """Let the writes under way end, then close."""
        if self._committer is not None:
            await self._committer.close()
        await self.client.close()

    async def commit(self, write: Write, *, lazy: bool = False) -> Committed:
        """Apply a write: all of it or nothing.

        `lazy` writes may wait for a short tick, to be committed with others (heartbeats).

        Raises CompareFailed when a condition did not hold; ServiceUnavailableError when nothing was written (etcd away
        or out of space), TimeoutError_ when that is not known, RequestTooLargeError for what etcd does not take.
        """
        assert self._committer is not None, "the store was not started"
        if self.transformer is not PLAIN and write.puts:
            seal = self.transformer.seal
            write = replace(write, puts=[put._replace(value=seal(put.key, put.value)) for put in write.puts])
        for last in (False, True):
            try:
                leases = [await self._leases.get(put.ttl) if put.ttl else 0 for put in write.puts]
                return await self._committer.commit(write, leases, lazy=lazy)
            except CompareFailed as failed:
                current = {key: kv and self._opened(kv) for key, kv in failed.current.items()}
                raise CompareFailed(current) from failed
            except LeaseGone as failure:
                self._leases.forget()
                if last:
                    raise failure.to_status(_doing("write", write)) from failure
            except EtcdFailure as failure:
                raise failure.to_status(_doing("write", write)) from failure
        raise AssertionError("unreachable")

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """Read one key, linearizable, or as it was at a revision.

        Raises ExpiredError when the revision is compacted, ServiceUnavailableError when etcd does not answer.
        """
        try:
            answer = await self.client.range_raw(rpc_pb2.RangeRequest(key=to_bytes(key), revision=revision))
        except EtcdFailure as failure:
            raise failure.to_status(f"read {key}") from failure
        return self._opened(from_pb(answer.kvs[0])) if answer.kvs else None

    def _opened(self, kv: KeyValue) -> KeyValue:
        value = self.transformer.open(kv.key, kv.value)
        return kv if value is kv.value else kv._replace(value=value)

    async def stale(self, key: str, revision: int) -> bool:
        """Whether the value of a key at a revision would be stored otherwise today: plain, or with an old key.

        Also if it is another revision by now: who writes it hears that. Errors as :meth:`get`.
        """
        if self.transformer is PLAIN:
            return False
        try:
            answer = await self.client.range_raw(rpc_pb2.RangeRequest(key=to_bytes(key)))
        except EtcdFailure as failure:
            raise failure.to_status(f"read {key}") from failure
        if not answer.kvs or answer.kvs[0].mod_revision != revision:
            return True
        return self.transformer.stale(key, answer.kvs[0].value)

    async def range(
        self,
        start: str,
        end: str = "",
        *,
        prefix: bool = False,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
    ) -> RangeResult:
        """Read the keys from `start` to before `end`, or all that begin with `start`; in the order of keys.

        Linearizable, or as it was at `revision`. Errors as :meth:`get`. Large ranges are better read in pages.
        """
        first = to_bytes(start)
        try:
            found = await self.client.range(
                first,
                prefix_end(first) if prefix else to_bytes(end),
                limit=limit,
                revision=revision,
                keys_only=keys_only,
                count_only=count_only,
            )
        except EtcdFailure as failure:
            raise failure.to_status(f"read from {start}") from failure
        if keys_only or count_only:
            return found
        return found._replace(kvs=[self._opened(kv) for kv in found.kvs])

    async def revision(self) -> int:
        """Return the store's revision now, linearizable. Raises ServiceUnavailableError."""
        try:
            return await self.client.revision()
        except EtcdFailure as failure:
            raise failure.to_status("read etcd's revision") from failure


def _doing(verb: str, write: Write) -> str:
    keys = [put.key for put in write.puts] + list(write.deletes)
    return f"{verb} {', '.join(keys[:3])}{', …' if len(keys) > 3 else ''}"
