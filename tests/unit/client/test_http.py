"""The client over HTTP against small servers that behave as newer, older and busier Kubernetes would."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from wharfinger.api import errors, kinds, storage
from wharfinger.api.types import core, meta
from wharfinger.client import ClientConfig, Informer
from wharfinger.client.http.access import ExecPlugin, HttpAccess
from wharfinger.client.http.client import HttpClient
from wharfinger.client.http.resources import query_of
from wharfinger.proto.native import resources_v1_pb2 as native

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Answers by path; what was asked is kept."""

    def __init__(self) -> None:
        self.asked: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.handler: Handler | None = None
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        assert self.handler is not None
        return await self.handler(request)

    def client(self, **access: Any) -> HttpClient:
        return HttpClient(ClientConfig(endpoints=(), ca=b"", http=HttpAccess(server=self.url, **access)))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


def pod_json(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": "5", "fieldOfTheFuture": {"a": [1]}},
        "spec": {"containers": [{"name": "c", "image": "i", "alsoNew": True}], "newerThanUs": [1, {"x": "y"}], **spec},
    }


def status(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "no"}


async def test_json_of_a_newer_kubernetes_is_read_page_by_page(server: Server) -> None:
    async def pages(request: web.Request) -> web.Response:
        second = request.query.get("continue") == "token"
        items = [pod_json(f"p{number}") for number in (range(2, 3) if second else range(2))]
        metadata = {"resourceVersion": "7", **({} if second else {"continue": "token"})}
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})

    server.handler = pages
    async with server.client(token="t") as client:
        listed = await client.resource(core.Pod).list(namespace="default", label_selector="a=b")
    assert [pod.metadata.name for pod in listed.items] == ["p0", "p1", "p2"]
    assert listed.resource_version == "7"
    assert [request.path for request in server.asked] == ["/api/v1/namespaces/default/pods"] * 2
    assert server.asked[0].query["limit"] == "500"
    assert server.asked[0].query["labelSelector"] == "a=b"
    assert server.asked[0].headers["Authorization"] == "Bearer t"
    assert "protobuf" in server.asked[0].headers["Accept"]


async def test_a_list_that_takes_too_long_is_asked_for_at_once(server: Server) -> None:
    async def expiring(request: web.Request) -> web.Response:
        if request.query.get("continue"):
            return web.json_response(status(410, "Expired"), status=410)
        metadata = {"resourceVersion": "7", **({"continue": "x"} if "limit" in request.query else {})}
        count = 1 if "limit" in request.query else 3
        return web.json_response({"metadata": metadata, "items": [pod_json(f"p{index}") for index in range(count)]})

    server.handler = expiring
    async with server.client() as client:
        listed = await client.resource(core.Pod).list()
    assert len(listed.items) == 3


def frame(type_: str, obj: Any) -> bytes:
    raw = storage.wrap("v1", type(obj).DESCRIPTOR.name, obj.SerializeToString())
    event = meta.WatchEvent(type=type_)
    event.object.raw = raw
    data = event.SerializeToString()
    return len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("binary", [True, False])
async def test_watches_in_both_forms_with_bookmarks_and_pieces(server: Server, binary: bool) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace, pod.metadata.resourceVersion = "p", "default", "8"
        mark = core.Pod()
        mark.metadata.resourceVersion = "9"
        if binary:
            data = frame("ADDED", pod) + frame("BOOKMARK", mark)
            # a field that this schema does not know, with number 2000
            data += frame("MODIFIED", core.Pod.FromString(pod.SerializeToString() + b"\x82\x7d\x01x"))
        else:
            bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
            events = [("ADDED", pod_json("p")), ("BOOKMARK", bookmark), ("MODIFIED", pod_json("p"))]
            data = b"".join(json.dumps({"type": kind, "object": obj}).encode() + b"\n" for kind, obj in events)
        answer = web.StreamResponse()
        answer.content_type = "application/vnd.kubernetes.protobuf" if binary else "application/json"
        await answer.prepare(request)
        for at in range(0, len(data), 7):
            await answer.write(data[at : at + 7])
        return answer

    server.handler = stream
    async with server.client() as client:
        events = [
            event
            async for batch in client.resource(core.Pod).watch(resource_version="7")
            for event in batch
        ]  # fmt: skip
    assert [event.type for event in events] == ["ADDED", "BOOKMARK", "MODIFIED"]
    assert events[0].object.metadata.name == "p"
    assert events[1].resource_version == "9"
    assert server.asked[0].query["allowWatchBookmarks"] == "true"
    assert server.asked[0].query["resourceVersion"] == "7"


async def test_an_informer_lists_again_when_its_version_is_too_old(server: Server) -> None:
    lists = 0

    async def expiring(request: web.Request) -> web.StreamResponse:
        nonlocal lists
        if "watch" not in request.query:
            lists += 1
            items = [pod_json("p")] if lists == 1 else [pod_json("p"), pod_json("q")]
            return web.json_response({"metadata": {"resourceVersion": str(lists)}, "items": items})
        answer = web.StreamResponse()
        answer.content_type = "application/json"
        await answer.prepare(request)
        if request.query["resourceVersion"] == "1":
            await answer.write(json.dumps({"type": "ERROR", "object": status(410, "Expired")}).encode() + b"\n")
        else:
            await asyncio.sleep(60)
        return answer

    server.handler = expiring
    async with server.client() as client:
        informer = Informer(client.resource(core.Pod))
        seen = asyncio.Event()
        informer.add_handler(on_add=lambda pod: seen.set() if pod.metadata.name == "q" else None)
        await informer.start()
        async with asyncio.timeout(10):
            await seen.wait()
        await informer.stop()
    assert sorted(pod.metadata.name for pod in informer.items()) == ["p", "q"]


async def test_a_bind_is_kubernetes_and_each_has_its_outcome(server: Server) -> None:
    async def bindings(request: web.Request) -> web.Response:
        if "taken" in request.path:
            return web.json_response(status(409, "Conflict"), status=409)
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"}, status=201)

    server.handler = bindings
    wanted = [native.BindRequest(namespace="n", pod=name, node="a", uid="u", checked=True) for name in ("p", "taken")]
    async with server.client() as client:
        results = await client.bind_many(wanted)
    assert not results[0].HasField("error")
    assert isinstance(errors.from_status(results[1].error), errors.ConflictError)
    request, body = next(pair for pair in zip(server.asked, server.bodies, strict=True) if "taken" not in pair[0].path)
    assert request.path == "/api/v1/namespaces/n/pods/p/binding"
    sent = json.loads(body)
    assert (sent["metadata"]["uid"], sent["target"]["name"], sent["target"]["kind"]) == ("u", "a", "Node")


async def test_what_the_server_put_off_is_asked_again_and_what_it_refused_is_not(server: Server) -> None:
    async def busy(request: web.Request) -> web.Response:
        if len(server.asked) < 3:
            headers = {"Retry-After": "0"}
            return web.json_response(status(429, "TooManyRequests"), status=429, headers=headers)
        return web.Response(status=500, text="broken", content_type="text/plain")

    server.handler = busy
    async with server.client() as client:
        with pytest.raises(errors.InternalError, match="broken"):
            await client.resource(core.Pod).get("p", namespace="default")
    assert len(server.asked) == 3


async def test_a_server_that_is_away_is_unavailable() -> None:
    access = HttpAccess(server="http://127.0.0.1:1")
    async with HttpClient(ClientConfig(endpoints=(), ca=b"", http=access)) as client:
        with pytest.raises(errors.ServiceUnavailableError):
            await client.resource(core.Pod).get("p", namespace="default")


async def test_writes_are_protobuf_and_patches_and_deletes_json(server: Server) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response(pod_json("p"))

    server.handler = echo
    pod = core.Pod()
    pod.metadata.name, pod.metadata.namespace = "p", "default"
    async with server.client() as client, client.writer() as writer:
        await writer.create(pod, brief=True)
        await writer.patch(
            core.Pod, "p", namespace="default", patch={"status": {}}, patch_type="strategic", subresource="status"
        )
        await writer.delete(core.Pod, "p", namespace="default", uid="u", grace_period_seconds=0)
        await client.resource(core.Pod).update(pod, dry_run=True, field_manager="me")
    methods = [(request.method, request.path) for request in server.asked]
    base = "/api/v1/namespaces/default/pods"
    assert methods == [("POST", base), ("PATCH", f"{base}/p/status"), ("DELETE", f"{base}/p"), ("PUT", f"{base}/p")]
    assert storage.unwrap(server.bodies[0])[:2] == ("v1", "Pod")
    assert server.asked[1].content_type == "application/strategic-merge-patch+json"
    deletion = json.loads(server.bodies[2])
    assert (deletion["gracePeriodSeconds"], deletion["preconditions"]) == (0, {"uid": "u"})
    assert dict(server.asked[3].query) == {"dryRun": "All", "fieldManager": "me"}


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(TypeError, match="labelselector"):
        query_of({"labelselector": "a"})


async def test_credentials_come_from_a_command_and_are_renewed_when_refused(server: Server, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    script = tmp_path / "credentials"
    script.write_text(
        "#!/bin/sh\n"
        f"echo x >> {counter}\n"
        f"n=$(wc -l < {counter})\n"
        'echo "{\\"apiVersion\\": \\"client.authentication.k8s.io/v1\\", \\"kind\\": \\"ExecCredential\\",'
        ' \\"status\\": {\\"token\\": \\"$PREFIX$n\\"}}"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    async def picky(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == "Bearer t2":
            return web.json_response(pod_json("p"))
        return web.json_response(status(401, "Unauthorized"), status=401)

    server.handler = picky
    plugin = ExecPlugin("./credentials", "client.authentication.k8s.io/v1", env={"PREFIX": "t"}, folder=str(tmp_path))
    async with server.client(plugin=plugin) as client:
        await client.resource(core.Pod).get("p", namespace="default")
        await client.resource(core.Pod).get("p", namespace="default")
    assert counter.read_text().count("x") == 2


async def test_a_command_that_fails_says_so(server: Server) -> None:
    plugin = ExecPlugin("false", "client.authentication.k8s.io/v1")
    async with server.client(plugin=plugin) as client:
        with pytest.raises(errors.UnauthorizedError, match="false ended with 1"):
            await client.resource(core.Pod).get("p", namespace="default")


async def test_a_token_file_is_read(server: Server, tmp_path: Path) -> None:
    async def fine(request: web.Request) -> web.Response:
        return web.json_response(pod_json("p"))

    server.handler = fine
    path = tmp_path / "token"
    path.write_text("secret\n")
    async with server.client(token_file=str(path)) as client:
        await client.resource(core.Pod).get("p", namespace="default")
    assert server.asked[0].headers["Authorization"] == "Bearer secret"


async def test_whether_a_kind_is_served(server: Server) -> None:
    async def discovery(request: web.Request) -> web.Response:
        if request.path == "/api/v1":
            return web.json_response({"kind": "APIResourceList", "resources": [{"name": "pods"}]})
        return web.json_response(status(404, "NotFound"), status=404)

    server.handler = discovery
    async with server.client() as client:
        assert await client.serves(kinds.of(core.Pod))
        assert not await client.serves(kinds.by_kind("apps/v1", "Deployment"))
        with pytest.raises(errors.MethodNotAllowedError, match="gRPC"):
            await client.why("default", "p")
