"""Logs come from the node's agent, explanations from the scheduler, through the apiserver."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
import pytest_asyncio

from tests.integration.apiserver.objects import lease, node, pod
from tests.support.apiserver import Apiserver
from wharfinger import pki
from wharfinger.api import errors
from wharfinger.api.types import coordination, core
from wharfinger.client import Client
from wharfinger.client.transport import error_from_rpc
from wharfinger.proto.native import (
    scheduling_v1_pb2,
    scheduling_v1_pb2_grpc,
    streams_v1_pb2,
    streams_v1_pb2_grpc,
)


class _Agent(streams_v1_pb2_grpc.StreamsServicer):
    """Says who asked for what."""

    async def Log(self, request: streams_v1_pb2.LogRequest, context: Any) -> AsyncIterator[streams_v1_pb2.LogChunk]:  # noqa: N802
        caller = context.auth_context()["x509_common_name"][0].decode()
        for part in (f"{caller} ", f"{request.namespace}/{request.pod}/{request.container} ", f"{request.tail_lines}"):
            yield streams_v1_pb2.LogChunk(data=part.encode())


class _Scheduler(scheduling_v1_pb2_grpc.SchedulingServicer):
    async def Why(self, request: scheduling_v1_pb2.WhyRequest, context: Any) -> scheduling_v1_pb2.Explanation:  # noqa: N802
        return scheduling_v1_pb2.Explanation(pod=request.pod, state="unschedulable", message="no node fits")


@pytest_asyncio.fixture
async def peer(server: Apiserver, namespace: str) -> AsyncIterator[tuple[str, int]]:
    """An agent and scheduler of the test's own: the node's name and the port."""
    name = f"node-{namespace}"
    folder = server.folder
    ca = pki.load_ca(folder)
    made = pki.ensure_server(ca, folder, name, name=f"system:node:{name}", dns=[name, "localhost"], ips=["127.0.0.1"])
    credentials = grpc.ssl_server_credentials(
        [(Path(made.key_path).read_bytes(), Path(made.cert_path).read_bytes())],
        root_certificates=(folder / "ca.crt").read_bytes(),
        require_client_auth=True,
    )
    listening = grpc.aio.server()
    streams_v1_pb2_grpc.add_StreamsServicer_to_server(_Agent(), listening)
    scheduling_v1_pb2_grpc.add_SchedulingServicer_to_server(_Scheduler(), listening)
    port = listening.add_secure_port("127.0.0.1:0", credentials)
    await listening.start()
    yield name, port
    await listening.stop(None)


async def _log(client: Client, **wanted: Any) -> str:
    request = streams_v1_pb2.LogRequest(**wanted)
    try:
        return "".join([chunk.data.decode() async for chunk in client.transport.endpoint().streams.Log(request)])
    except grpc.aio.AioRpcError as error:
        raise error_from_rpc(error) from error


async def test_logs(client: Client, namespace: str, peer: tuple[str, int]) -> None:
    name, port = peer
    wanted = node(name)
    wanted.status.addresses.add(type="InternalIP", address="127.0.0.1")
    wanted.status.daemonEndpoints.kubeletEndpoint.Port = port
    await client.resource(core.Node).create(wanted)
    await client.resource(core.Pod).create(pod("web", namespace, node=name))
    assert await _log(client, namespace=namespace, pod="web", tail_lines=5) == f"system:apiserver {namespace}/web/c 5"
    with pytest.raises(errors.BadRequestError, match="container other is not valid"):
        await _log(client, namespace=namespace, pod="web", container="other")
    with pytest.raises(errors.NotFoundError):
        await _log(client, namespace=namespace, pod="ghost")
    await client.resource(core.Pod).create(pod("waiting", namespace))
    with pytest.raises(errors.BadRequestError, match="has no node yet"):
        await _log(client, namespace=namespace, pod="waiting")


async def test_an_agent_of_another_name_is_not_believed(client: Client, namespace: str, peer: tuple[str, int]) -> None:
    _, port = peer
    wanted = node(f"false-{namespace}")
    wanted.status.addresses.add(type="InternalIP", address="127.0.0.1")
    wanted.status.daemonEndpoints.kubeletEndpoint.Port = port
    await client.resource(core.Node).create(wanted)
    await client.resource(core.Pod).create(pod("web", namespace, node=wanted.metadata.name))
    with pytest.raises(errors.ServiceUnavailableError, match="cannot be reached"):
        await _log(client, namespace=namespace, pod="web")


async def test_logs_are_not_for_everybody(server: Apiserver, client: Client, namespace: str) -> None:
    await client.resource(core.Pod).create(pod("web", namespace, node="n1"))
    async with server.client("alice", ["devs"]) as alice:
        with pytest.raises(errors.ForbiddenError, match="pods/log"):
            await _log(alice, namespace=namespace, pod="web")


async def test_explanations(client: Client, namespace: str, peer: tuple[str, int]) -> None:
    _, port = peer
    await client.resource(core.Pod).create(pod("web", namespace))
    leases = client.resource(coordination.Lease)
    wanted = lease("kube-scheduler", "kube-system", "me")
    wanted.metadata.annotations["wharfinger.dev/grpc-address"] = f"127.0.0.1:{port}"
    scheduling = client.transport.endpoint().scheduling
    request = scheduling_v1_pb2.WhyRequest(namespace=namespace, pod="web")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await scheduling.Why(request)
    assert isinstance(error_from_rpc(caught.value), errors.ServiceUnavailableError)
    await leases.create(wanted)
    try:
        assert (await scheduling.Why(request)).message == "no node fits"
    finally:
        await leases.delete("kube-scheduler", namespace="kube-system")


async def test_logs_over_http(server: Apiserver, client: Client, namespace: str, peer: tuple[str, int]) -> None:
    name, port = peer
    wanted = node(name)
    wanted.status.addresses.add(type="InternalIP", address="127.0.0.1")
    wanted.status.daemonEndpoints.kubeletEndpoint.Port = port
    await client.resource(core.Node).create(wanted)
    await client.resource(core.Pod).create(pod("web", namespace, node=name))
    base = f"https://127.0.0.1:{server.secure_port}/api/v1/namespaces/{namespace}/pods"
    context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
    headers = {"Authorization": "Bearer admin-token"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.get(f"{base}/web/log?tailLines=5", ssl=context) as answer:
            assert answer.content_type == "text/plain"
            assert await answer.text() == f"system:apiserver {namespace}/web/c 5"
        async with session.get(f"{base}/web/log?container=other", ssl=context) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")
        async with session.get(f"{base}/none/log", ssl=context) as answer:
            assert answer.status == 404
