"""The yardstick: what etcd does with nothing of ours in between, on this machine, now.

Single compare-and-swaps of 900 bytes, each a create of a new key, sent by so many concurrent callers over one
channel; and a range over everything below a prefix. Plain stubs, no group commit, no cache.
"""

from __future__ import annotations

import asyncio
import secrets
import time

import grpc

from wharfinger.proto.etcd import rpc_pb2, rpc_pb2_grpc

VALUE = b"x" * 900
TLS = tuple[bytes, bytes, bytes]
"""CA certificate, client certificate and key, each PEM."""


def _channel(endpoint: str, tls: TLS | None) -> grpc.aio.Channel:
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    if tls is None:
        return grpc.aio.insecure_channel(endpoint, options=options)
    ca, cert, key = tls
    return grpc.aio.secure_channel(endpoint, grpc.ssl_channel_credentials(ca, key, cert), options=options)


async def raw_cas_rate(endpoint: str, concurrency: int, seconds: float, *, tls: TLS | None = None) -> float:
    """Return compare-and-swaps a second. The keys lie below ``/benchmark/`` and are removed at the end."""
    run = secrets.token_hex(4)
    prefix = f"/benchmark/{run}/".encode()
    async with _channel(endpoint, tls) as channel:
        stub = rpc_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
        await stub.Range(rpc_pb2.RangeRequest(key=prefix), timeout=10)  # connected before the clock starts
        done = 0
        start = time.perf_counter()
        end = start + seconds

        async def write(worker: int) -> None:
            nonlocal done
            number = 0
            while time.perf_counter() < end:
                key = prefix + b"%d-%d" % (worker, number)
                number += 1
                answer = await stub.Txn(
                    rpc_pb2.TxnRequest(
                        compare=[rpc_pb2.Compare(target=rpc_pb2.Compare.MOD, key=key, mod_revision=0)],
                        success=[rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=key, value=VALUE))],
                    )
                )
                assert answer.succeeded, key
                done += 1

        await asyncio.gather(*(write(worker) for worker in range(concurrency)))
        rate = done / (time.perf_counter() - start)
        await stub.DeleteRange(rpc_pb2.DeleteRangeRequest(key=prefix, range_end=prefix[:-1] + b"0"), timeout=60)
        return rate


async def raw_range_seconds(endpoint: str, prefix: str, *, tls: TLS | None = None) -> float:
    """Return the seconds of one range over all keys below a prefix (that ends with a slash), connection not counted."""
    async with _channel(endpoint, tls) as channel:
        stub = rpc_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
        await stub.Range(rpc_pb2.RangeRequest(key=prefix.encode()), timeout=10)
        request = rpc_pb2.RangeRequest(key=prefix.encode(), range_end=prefix[:-1].encode() + b"0")
        start = time.perf_counter()
        await stub.Range(request, timeout=60)
        return time.perf_counter() - start
