"""The audit log of a real apiserver: what both fronts write, and that they write the same."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import pytest_asyncio

from tests.integration.apiserver.objects import config_map, node, pod, replica_set
from tests.support.agent import FakeAgent
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd
from wharfinger.api import errors
from wharfinger.api.types import apps, core
from wharfinger.client import Client
from wharfinger.client.config import Impersonation
from wharfinger.proto.native import streams_v1_pb2 as native
from wharfinger.proto.native.resources_v1_pb2 import BindRequest, GetRequest, Reference
from wharfinger.proto.native.resources_v1_pb2_grpc import ResourcesStub

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- level: None
  nonResourceURLs: [/healthz*, /readyz*]
- level: RequestResponse
  resources: [{group: '', resources: [configmaps]}]
  namespaces: [full]
- level: Request
  resources: [{group: authentication.k8s.io}]
- level: Request
  omitStages: [RequestReceived]
  namespaces: [bodies]
- level: Metadata
  omitStages: [RequestReceived]
"""
ALICE = {"Authorization": "Bearer alice-token"}
ADMIN = {"Authorization": "Bearer admin-token"}


class Log:
    """The file, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self) -> list[dict[str, Any]]:
        whole = self.path.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    async def find(self, count: int = 1, **wanted: Any) -> list[dict[str, Any]]:
        """Wait for so many events with these values at paths (dots as __)."""
        async with asyncio.timeout(30):
            while True:
                found = [one for one in self.events() if all(_at(one, path) == value for path, value in wanted.items())]
                if len(found) >= count:
                    assert len(found) == count, found
                    return found
                await asyncio.sleep(0.05)

    async def one(self, **wanted: Any) -> dict[str, Any]:
        return (await self.find(**wanted))[0]


def _at(event: Any, path: str) -> Any:
    for part in path.split("__"):
        event = event.get(part, {}) if isinstance(event, dict) else {}
    return event


@pytest.fixture(scope="module")
def audited(shared_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(POLICY)
    flags = ("--audit-policy-file", str(folder / "policy.yaml"), "--audit-log-path", str(folder / "audit.log"))
    with Apiserver(shared_etcd.endpoint, *flags) as server:
        yield server


@pytest.fixture(scope="module")
def log(audited: Apiserver) -> Log:
    return Log(Path(audited.flags[-1]))


@pytest_asyncio.fixture
async def client(audited: Apiserver) -> AsyncIterator[Client]:
    async with audited.client() as client:
        yield client


@pytest_asyncio.fixture
async def space(client: Client) -> Callable[..., Any]:
    async def make(name: str, **labels: str) -> str:
        made = core.Namespace()
        made.metadata.name = name
        made.metadata.labels.update({key.replace("_", "-"): value for key, value in labels.items()})
        with suppress(errors.AlreadyExistsError):
            await client.resource(core.Namespace).create(made)
        return name

    return make


Ask = Callable[..., Any]


@pytest_asyncio.fixture
async def ask(audited: Apiserver) -> AsyncIterator[Ask]:
    context = ssl.create_default_context(cafile=str(audited.folder / "ca.crt"))
    base = f"https://127.0.0.1:{audited.secure_port}"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:

        async def ask(method: str, path: str, body: Any = None, **headers: str) -> aiohttp.ClientResponse:
            sent = {"Content-Type": "application/json", **{name.replace("_", "-"): v for name, v in headers.items()}}
            async with session.request(
                method, base + path, json=body, headers=sent, ssl=context, skip_auto_headers=["Content-Type"]
            ) as answer:
                await answer.read()
                return answer

        yield ask


async def test_both_fronts_write_the_same_of_a_create(
    client: Client, ask: Ask, space: Callable[..., Any], log: Log
) -> None:
    await space("bodies")
    await client.resource(core.ConfigMap).create(config_map("grpc", "bodies", key="grpc-value"))
    body = {"metadata": {"name": "http"}, "data": {"key": "http-value"}}
    answer = await ask("POST", "/api/v1/namespaces/bodies/configmaps", body, User_Agent="tests/1", **ADMIN)
    one = await log.one(objectRef__name="grpc", objectRef__resource="configmaps", stage="ResponseComplete")
    other = await log.one(objectRef__name="http", objectRef__resource="configmaps", stage="ResponseComplete")
    assert one["requestURI"] == "/wharfinger.v1.Resources/Create"
    assert other["requestURI"] == "/api/v1/namespaces/bodies/configmaps"
    assert other["userAgent"] == "tests/1"
    assert other["auditID"] == answer.headers["Audit-Id"]
    assert other["user"] == {
        "username": "admin",
        "uid": "u-admin",
        "groups": ["system:masters", "system:authenticated"],
    }
    for event, value in ((one, "grpc"), (other, "http")):
        assert (event["kind"], event["apiVersion"], event["level"]) == ("Event", "audit.k8s.io/v1", "Request")
        assert event["verb"] == "create"
        assert event["sourceIPs"] == ["127.0.0.1"]
        assert event["responseStatus"] == {"metadata": {}, "code": 201}
        assert event["requestObject"]["data"] == {"key": f"{value}-value"}
        assert "responseObject" not in event
        assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
        assert event["requestReceivedTimestamp"] <= event["stageTimestamp"]
        assert event["objectRef"] == {
            "resource": "configmaps", "namespace": "bodies", "name": value, "apiVersion": "v1",
        }  # fmt: skip


async def test_metadata_holds_no_bodies_and_no_answers(client: Client, space: Callable[..., Any], log: Log) -> None:
    await space("quiet")
    secret = core.Secret()
    secret.metadata.name, secret.metadata.namespace = "s", "quiet"
    secret.stringData["password"] = "hunter2-metadata"
    made = await client.resource(core.Secret).create(secret)
    await client.resource(core.Secret).get("s", namespace="quiet")
    made.stringData["password"] = "hunter2-metadata-again"
    await client.resource(core.Secret).update(made)
    event = await log.one(objectRef__namespace="quiet", objectRef__resource="secrets", verb="update")
    assert event["objectRef"]["resourceVersion"] == made.metadata.resourceVersion
    assert event["objectRef"]["uid"] == made.metadata.uid
    text = log.path.read_text()
    assert "hunter2" not in text
    assert "aHVudGVyMi1tZXRhZGF0YQ" not in text  # in base64


async def test_request_response_has_objects_and_lists(client: Client, space: Callable[..., Any], log: Log) -> None:
    await space("full")
    await client.resource(core.ConfigMap).create(config_map("c", "full", key="value"))
    await client.resource(core.ConfigMap).list(namespace="full")
    created = await log.one(objectRef__namespace="full", verb="create", stage="ResponseComplete")
    assert created["responseObject"]["metadata"]["uid"]
    assert created["responseObject"]["data"] == {"key": "value"}
    await log.one(objectRef__namespace="full", verb="create", stage="RequestReceived")
    listed = await log.one(objectRef__namespace="full", verb="list", stage="ResponseComplete")
    assert listed["responseObject"]["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in listed["responseObject"]["items"]] == ["c"]


async def test_failures_and_decisions(audited: Apiserver, ask: Ask, log: Log) -> None:
    async with audited.client("carol", []) as carol:
        with pytest.raises(errors.ForbiddenError):
            await carol.resource(core.Secret).list(namespace="default", label_selector="a=b")
    event = await log.one(user__username="carol", verb="list")
    assert event["responseStatus"]["code"] == 403
    assert event["responseStatus"]["reason"] == "Forbidden"
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert event["requestURI"].startswith("/wharfinger.v1.Resources/List?labelSelector=a%3Db")
    await ask("GET", "/api/v1/namespaces/default/secrets?labelSelector=a%3Dc", **ALICE)
    event = await log.one(user__username="alice", verb="list", objectRef__resource="secrets")
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    answer = await ask("GET", "/apis/nowhere.example/v1/things/x", **ADMIN)
    assert answer.status == 404
    event = await log.one(objectRef__apiGroup="nowhere.example")
    assert (event["responseStatus"]["code"], event["objectRef"]["name"]) == (404, "x")
    answer = await ask("GET", "/api/v1/pods?limit=7", Authorization="Bearer wrong")
    event = await log.one(requestURI="/api/v1/pods?limit=7")
    assert (event["stage"], event["user"], event["responseStatus"]["code"]) == ("ResponseStarted", {}, 401)
    assert event["auditID"] == answer.headers["Audit-Id"]
    async with audited.token_client("wrong") as nobody:
        with pytest.raises(errors.UnauthorizedError):
            await nobody.resource(core.Pod).list()
    event = await log.one(requestURI="/wharfinger.v1.Resources/List", stage="ResponseStarted")
    assert event["responseStatus"]["code"] == 401
    assert "wrong" not in log.path.read_text()


async def test_the_clients_own_id_and_addresses(ask: Ask, log: Log) -> None:
    sent = {"Audit_ID": "mine-1", "X_Forwarded_For": "192.0.2.7, 198.51.100.1"}
    answer = await ask("GET", "/version", **sent, **ADMIN)
    assert answer.headers["Audit-Id"] == "mine-1"
    event = await log.one(auditID="mine-1")
    assert event["sourceIPs"] == ["192.0.2.7", "198.51.100.1", "127.0.0.1"]
    assert (event["verb"], event["requestURI"], "objectRef" in event) == ("get", "/version", False)


async def test_grpc_tells_the_id_behind_the_answer(audited: Apiserver, log: Log) -> None:
    folder = audited.folder
    credentials = grpc.ssl_channel_credentials(
        *((folder / name).read_bytes() for name in ("ca.crt", "system-apiserver.key", "system-apiserver.crt"))
    )
    options = (("grpc.ssl_target_name_override", "localhost"),)
    async with grpc.aio.secure_channel(audited.endpoint, credentials, options=options) as channel:
        get = ResourcesStub(channel).Get  # type: ignore[no-untyped-call]
        for name, code in (("default", 200), ("not-there", 404)):
            call = get(GetRequest(reference=Reference(version="v1", resource="namespaces", name=name)))
            with suppress(grpc.aio.AioRpcError):
                await call
            told = (await call.trailing_metadata())["audit-id"]
            assert (await log.one(auditID=told))["responseStatus"]["code"] == code


async def test_acting_as_another(audited: Apiserver, ask: Ask, log: Log) -> None:
    await ask("GET", "/api/v1/namespaces/default/pods", Impersonate_User="dora", **ADMIN)
    event = await log.one(impersonatedUser__username="dora")
    assert event["user"]["username"] == "admin"
    assert event["responseStatus"]["code"] == 403
    config = replace(audited.config(), acting_as=Impersonation("erik", ["team"]))
    async with Client(config) as client:
        with pytest.raises(errors.ForbiddenError):
            await client.resource(core.Pod).list(namespace="default")
    event = await log.one(impersonatedUser__username="erik")
    assert event["impersonatedUser"]["groups"] == ["team", "system:authenticated"]
    assert event["user"] == {"username": "admin", "groups": ["system:masters", "system:authenticated"]}


async def test_watches_have_two_stages(client: Client, ask: Ask, space: Callable[..., Any], log: Log) -> None:
    name = await space("watched")
    path = f"/api/v1/namespaces/{name}/pods?watch=true&timeoutSeconds=1"
    await ask("GET", path, **ADMIN)
    events = await log.find(2, requestURI=path, verb="watch")
    assert [event["stage"] for event in events] == ["ResponseStarted", "ResponseComplete"]
    assert [event["responseStatus"]["code"] for event in events] == [200, 200]
    assert len({event["auditID"] for event in events}) == 1
    watching = client.resource(core.Pod).watch(namespace=name, resource_version="")
    task = asyncio.ensure_future(anext(aiter(watching)))
    await log.one(verb="watch", objectRef__namespace=name, stage="ResponseStarted", user__username="admin",
                  requestURI="/wharfinger.v1.Resources/Watch")  # fmt: skip
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await log.find(2, verb="watch", objectRef__namespace=name, stage="ResponseComplete")


async def test_each_write_of_a_stream_and_each_binding_is_a_request(
    client: Client, space: Callable[..., Any], log: Log
) -> None:
    name = await space("parts")
    await client.resource(core.Node).create(node("parts"))
    async with client.writer() as writer:
        await asyncio.gather(*(writer.create(pod(f"p{number}", name)) for number in range(3)))
        with pytest.raises(errors.AlreadyExistsError):
            await writer.create(pod("p0", name))
    made = await log.find(4, objectRef__namespace=name, objectRef__resource="pods", verb="create")
    assert sorted(event["responseStatus"]["code"] for event in made) == [201, 201, 201, 409]
    assert {event["requestURI"] for event in made} == {"/wharfinger.v1.Resources/Write"}
    assert len({event["auditID"] for event in made}) == 4
    outcomes = await client.bind_many(
        [BindRequest(namespace=name, pod=pod_, node="parts") for pod_ in ("p0", "p1", "p2", "gone")]
    )
    assert [one.HasField("error") for one in outcomes] == [False, False, False, True]
    bound = await log.find(4, objectRef__namespace=name, objectRef__subresource="binding")
    assert sorted((event["objectRef"]["name"], event["responseStatus"]["code"]) for event in bound) == [
        ("gone", 404), ("p0", 201), ("p1", 201), ("p2", 201),
    ]  # fmt: skip


async def test_an_exec_shows_its_command(
    audited: Apiserver, client: Client, space: Callable[..., Any], log: Log
) -> None:
    name = await space("shells")
    agent = await FakeAgent.start(audited.folder, "shells")
    try:
        await client.resource(core.Node).create(agent.node())
        await client.resource(core.Pod).create(pod("web", name, node=agent.name))
        wanted = native.StreamOpen(namespace=name, pod="web", command=["say", "a b", "c"], stdout=True)
        async with await client.exec(wanted) as stream:
            async for _ in stream.outputs():
                pass
        events = await log.find(2, objectRef__subresource="exec", objectRef__namespace=name)
        assert [event["stage"] for event in events] == ["ResponseStarted", "ResponseComplete"]
        uri = "/wharfinger.v1.Streams/Exec?command=say&command=a+b&command=c&stdout=true"
        assert {event["requestURI"] for event in events} == {uri}
        assert {event["verb"] for event in events} == {"create"}
    finally:
        await agent.stop()


async def test_pod_security_writes_what_it_found(client: Client, space: Callable[..., Any], log: Log) -> None:
    prefix = "pod-security.kubernetes.io/"
    name = "secured"
    made = core.Namespace()
    made.metadata.name = name
    made.metadata.labels.update({f"{prefix}enforce": "baseline", f"{prefix}audit": "restricted"})
    await client.resource(core.Namespace).create(made)
    await client.resource(core.Pod).create(pod("web", name))
    event = await log.one(objectRef__namespace=name, objectRef__resource="pods", objectRef__name="web")
    assert event["annotations"][f"{prefix}enforce-policy"] == "baseline:latest"
    violations = event["annotations"][f"{prefix}audit-violations"]
    assert violations.startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false')
    await client.resource(apps.ReplicaSet).create(replica_set("set", name))
    event = await log.one(objectRef__namespace=name, objectRef__resource="replicasets")
    assert event["annotations"][f"{prefix}audit-violations"] == violations
    assert f"{prefix}enforce-policy" not in event["annotations"]
    await client.resource(core.Pod).create(pod("free", await space("unlabelled")))
    event = await log.one(objectRef__namespace="unlabelled", objectRef__resource="pods")
    assert event["annotations"][f"{prefix}enforce-policy"] == "privileged:latest"


async def test_a_token_is_never_written(ask: Ask, log: Log) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "alice-token"}}
    answer = await ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body, **ADMIN)
    assert answer.status == 201
    event = await log.one(objectRef__resource="tokenreviews", stage="ResponseComplete")
    assert event["requestObject"]["spec"]["token"] == "(a token)"
    assert "alice-token" not in log.path.read_text()


async def test_what_is_counted(audited: Apiserver, log: Log) -> None:
    assert log.path.stat().st_mode & 0o777 == 0o600
    async with audited.client() as client:
        await client.resource(core.Node).list()
    context = ssl.create_default_context(cafile=str(audited.folder / "ca.crt"))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{audited.secure_port}/metrics", headers=ADMIN, ssl=context) as answer,
    ):
        text = await answer.text()
    assert 'apiserver_audit_level_total{level="Metadata"}' in text
    assert 'apiserver_audit_error_total{plugin="log"} 0.0' in text
    assert "apiserver_audit_event_total" in text


def test_a_wrong_policy_stops_the_start(shared_etcd: Etcd, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("namespaces: [full]", "namespace: [full]"))
    flags = ("--audit-policy-file", str(tmp_path / "policy.yaml"), "--audit-log-path", str(tmp_path / "audit.log"))
    with (
        pytest.raises(RuntimeError, match=r"rules\[1\]\.namespace: there is no such field"),
        Apiserver(shared_etcd.endpoint, *flags),
    ):
        pass
