"""Who may do what, over both fronts: one table, every row asked by every user over HTTP and over gRPC."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest

from tests.integration.apiserver.objects import config_map, node, pod
from tests.integration.apiserver.rights import ACCOUNT, NAMESPACE, PATHS, TABLE, USERS, Row
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd
from wharfinger import pki
from wharfinger.api import codec, errors, kinds
from wharfinger.api.types import authentication, core, rbac
from wharfinger.client import Client
from wharfinger.proto.native import etcd_v1_pb2, etcd_v1_pb2_grpc


@pytest.fixture(scope="module")
def world(server: Apiserver) -> Apiserver:
    """Makes the namespace, two nodes with a pod each, what they name, and the rights of two users."""

    async def make() -> None:
        async with server.client() as client:
            namespace = core.Namespace()
            namespace.metadata.name = NAMESPACE
            await client.resource(core.Namespace).create(namespace)
            for name in ("own", "other"):
                try:
                    await client.resource(core.Node).create(node(name))
                except errors.AlreadyExistsError:
                    continue  # left by another module
            for name in ("mine", "elsewhere", "unused"):
                secret = core.Secret()
                secret.metadata.name, secret.metadata.namespace = name, NAMESPACE
                await client.resource(core.Secret).create(secret)
            for name in ("robot", "default"):
                account = core.ServiceAccount()
                account.metadata.name, account.metadata.namespace = name, NAMESPACE
                await client.resource(core.ServiceAccount).create(account)
            for name in ("settings", "locked"):
                await client.resource(core.ConfigMap).create(config_map(name, NAMESPACE))
            for name, place, secret_name in (("mine", "own", "mine"), ("theirs", "other", "elsewhere")):
                made = pod(name, NAMESPACE, node=place)
                made.spec.volumes.add(name="v").volumeSource.secret.secretName = secret_name
                await client.resource(core.Pod).create(made)
            await _grant(client)

    asyncio.run(make())
    return server


async def _grant(client: Client) -> None:
    role = rbac.Role()
    role.metadata.name, role.metadata.namespace = "robot", NAMESPACE
    role.rules.add(verbs=["get", "list", "create"], apiGroups=[""], resources=["configmaps"])
    role.rules.add(verbs=["patch"], apiGroups=[""], resources=["configmaps"], resourceNames=["settings"])
    # May write roles, but has nothing to give away.
    role.rules.add(verbs=["create"], apiGroups=["rbac.authorization.k8s.io"], resources=["roles"])
    await client.resource(rbac.Role).create(role)
    view = rbac.ClusterRole()
    view.metadata.name = "who-viewer"
    view.rules.add(verbs=["get", "list", "watch"], apiGroups=[""], resources=["pods", "configmaps", "namespaces"])
    await client.resource(rbac.ClusterRole).create(view)
    for name, kind, reference, subject in (
        ("robot", "Role", "robot", rbac.Subject(kind="ServiceAccount", name="robot", namespace=NAMESPACE)),
        (
            "viewer", "ClusterRole", "who-viewer",
            rbac.Subject(kind="User", name="vera", apiGroup="rbac.authorization.k8s.io"),
        ),
    ):  # fmt: skip
        binding = rbac.RoleBinding()
        binding.metadata.name, binding.metadata.namespace = name, NAMESPACE
        binding.roleRef.apiGroup, binding.roleRef.kind, binding.roleRef.name = (
            "rbac.authorization.k8s.io", kind, reference,
        )  # fmt: skip
        binding.subjects.append(subject)
        await client.resource(rbac.RoleBinding).create(binding)


@dataclass(frozen=True)
class Place:
    """A row's path taken apart."""

    kind: kinds.Kind
    namespace: str
    name: str
    subresource: str

    @classmethod
    def of(cls, path: str) -> Place:
        namespace, _, rest = path.rpartition(":")
        resource, *more = rest.split("/")
        word, _, group = resource.partition(".")
        kind = next(kind for kind in kinds.KINDS if (kind.resource, kind.group) == (word, group))
        if kind.resource == "namespaces":
            namespace = ""
        name, subresource = (*more, "", "")[:2]
        return cls(kind, namespace, name, subresource)

    @property
    def url(self) -> str:
        kind = self.kind
        parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
        if self.namespace:
            parts += ["namespaces", self.namespace]
        return "/" + "/".join([*parts, kind.resource, *filter(None, (self.name, self.subresource))])


def _body(row: Row, kind: kinds.Kind) -> bytes:
    document = {"apiVersion": kind.api_version, "kind": kind.kind, **row.body}
    if document["kind"] == "TokenRequest":
        document["apiVersion"] = "authentication.k8s.io/v1"
    if row.verb == "update":
        document["metadata"] = {**document["metadata"], "namespace": NAMESPACE}
    return json.dumps(document).encode()


_METHODS = {"create": "POST", "patch": "PATCH", "update": "PUT", "delete": "DELETE", "deletecollection": "DELETE"}


class Http:
    """One user's HTTP."""

    def __init__(self, server: Apiserver, user: tuple[str, list[str]] | None, folder: Path) -> None:
        self.base = f"https://127.0.0.1:{server.secure_port}"
        self.context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
        self.headers: dict[str, str] = {}
        if user is not None:
            config = server.config(*user)
            assert config.cert is not None
            assert config.key is not None
            (folder / "cert").write_bytes(config.cert)
            (folder / "key").write_bytes(config.key)
            self.context.load_cert_chain(folder / "cert", folder / "key")

    async def ask(self, session: aiohttp.ClientSession, method: str, path: str, **options: Any) -> tuple[int, str]:
        headers = {**self.headers, **options.pop("headers", {})}
        async with session.request(method, self.base + path, ssl=self.context, headers=headers, **options) as answer:
            # A watch goes on: it is allowed when it has begun.
            endless = answer.status == 200 and "watch" in (options.get("params") or {})
            return answer.status, "" if endless else await answer.text()

    async def do(self, session: aiohttp.ClientSession, row: Row) -> tuple[int, str]:
        place = Place.of(row.path)
        method = _METHODS.get(row.verb, "GET")
        query: dict[str, str] = {"fieldSelector": row.selector} if row.selector else {}
        if row.verb == "watch":
            query |= {"watch": "true", "timeoutSeconds": "30"}
        headers: dict[str, str] = {}
        data = None
        if method != "GET":
            query["dryRun"] = "All"
        if row.body is not None:
            data = _body(row, place.kind)
            headers["Content-Type"] = "application/merge-patch+json" if row.verb == "patch" else "application/json"
        return await self.ask(session, method, place.url, params=query, data=data, headers=headers)


async def _over_grpc(client: Client, row: Row) -> int:
    place = Place.of(row.path)
    namespace = place.namespace
    raw = client.raw(place.kind)
    try:
        match row.verb:
            case "get":
                await raw.get(place.name, subresource=place.subresource, namespace=namespace)
            case "list":
                await client.resource(place.kind.message).list(field_selector=row.selector, namespace=namespace)
            case "watch":
                async for _ in client.resource(place.kind.message).watch(
                    field_selector=row.selector, namespace=namespace
                ):
                    break
            case "create":
                await raw.create(
                    _body(row, place.kind),
                    name=place.name,
                    subresource=place.subresource,
                    dry_run=True,
                    namespace=namespace,
                )
            case "update":
                await raw.update(_body(row, place.kind), name=place.name, dry_run=True, namespace=namespace)
            case "deletecollection":
                await client.resource(place.kind.message).delete_collection(dry_run=True, namespace=namespace)
            case "patch":
                await raw.patch(
                    place.name, patch=row.body, subresource=place.subresource, dry_run=True, namespace=namespace
                )
            case "delete":
                await raw.delete(place.name, dry_run=True, namespace=namespace)
    except errors.StatusError as error:
        return error.status_code
    return 200


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as made:
        yield made


@pytest.mark.parametrize("who", USERS)
async def test_over_http(world: Apiserver, session: aiohttp.ClientSession, tmp_path: Path, who: str) -> None:
    http = Http(world, USERS[who], tmp_path)
    wrong = []
    for row in TABLE:
        code, text = await http.do(session, row)
        if code != row.expected(who, success=201 if row.verb == "create" else 200):
            wrong.append(f"{row}: {code} {text[:300]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("who", [who for who, user in USERS.items() if user is not None])
async def test_over_grpc(world: Apiserver, who: str) -> None:
    user = USERS[who]
    assert user is not None
    wrong = []
    async with world.client(*user) as client:
        for row in TABLE:
            code = await _over_grpc(client, row)
            if code != row.expected(who):
                wrong.append(f"{row}: {code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("who", USERS)
async def test_paths(world: Apiserver, session: aiohttp.ClientSession, tmp_path: Path, who: str) -> None:
    http = Http(world, USERS[who], tmp_path)
    for path, allowed in PATHS.items():
        code, text = await http.ask(session, "GET", path)
        assert (code != 403) is (who in allowed), f"{path}: {code} {text[:300]}"
    code, _ = await http.ask(session, "GET", "/apis/no.such.group/v1/things")
    assert code == (404 if who in ("admin", "manager") else 403), "who may not ask does not learn what there is"


@pytest.fixture(scope="module")
def signing(world: Apiserver, shared_etcd: Etcd) -> Iterator[Apiserver]:
    """Another apiserver of the same cluster, which signs tokens."""
    pki.ensure_signing_key(world.folder)
    key = str(world.folder / "sa.key")
    with Apiserver(shared_etcd.endpoint, "--service-account-signing-key-file", key, folder=world.folder) as made:
        yield made


async def _bound_to(server: Apiserver, pod: str) -> dict[str, Any]:
    if not pod:
        return {"kind": "TokenRequest", "spec": {}}
    async with server.client() as admin:
        uid = (await admin.resource(core.Pod).get(pod, namespace=NAMESPACE)).metadata.uid
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    return {"kind": "TokenRequest", "spec": {"boundObjectRef": reference}}


@pytest.mark.parametrize("front", ["http", "grpc"])
async def test_an_account_by_its_token(
    signing: Apiserver, session: aiohttp.ClientSession, tmp_path: Path, front: str
) -> None:
    """It may what the same account may by name, over the ports for tokens."""
    async with signing.client() as admin:
        asked = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode()
        accounts = admin.raw(kinds.of(core.ServiceAccount))
        made = await accounts.create(asked, namespace=NAMESPACE, name="robot", subresource="token")
    token = authentication.TokenRequest.FromString(made.data).status.token
    http = Http(signing, None, tmp_path)
    http.headers["Authorization"] = f"Bearer {token}"
    wrong = []
    async with signing.token_client(token) as client:
        for row in TABLE:
            success = 201 if front == "http" and row.verb == "create" else 200
            code = (await http.do(session, row))[0] if front == "http" else await _over_grpc(client, row)
            if code != row.expected("account", success=success):
                wrong.append(f"{row}: {code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("front", ["http", "grpc"])
@pytest.mark.parametrize(
    ("who", "account", "pod", "allowed"),
    [
        ("own", "default", "mine", True), ("own", "default", "theirs", False), ("own", "default", "", False),
        ("own", "robot", "mine", False), ("own", "robot", "", False), ("other", "default", "theirs", True),
        ("other", "default", "mine", False), ("plain", "default", "mine", False), ("viewer", "robot", "", False),
        ("account", "robot", "", False), ("admin", "robot", "", True),
    ],
)  # fmt: skip
async def test_who_gets_tokens(
    signing: Apiserver, session: aiohttp.ClientSession, tmp_path: Path, *, front: str, who: str, account: str, pod: str,
    allowed: bool,
) -> None:  # fmt: skip
    row = Row("create", f"{NAMESPACE}:serviceaccounts/{account}/token", frozenset({who} if allowed else ()),
              body=await _bound_to(signing, pod))  # fmt: skip
    user = USERS[who]
    assert user is not None
    if front == "http":
        assert (await Http(signing, user, tmp_path).do(session, row))[0] == row.expected(who, success=201)
    else:
        async with signing.client(*user) as client:
            assert await _over_grpc(client, row) == row.expected(who)


@pytest.mark.parametrize("who", [who for who, user in USERS.items() if user is not None])
async def test_only_masters_look_after_etcd(world: Apiserver, who: str) -> None:
    user = USERS[who]
    assert user is not None
    async with world.client(*user) as client:
        stub: Any = etcd_v1_pb2_grpc.EtcdStub(client.transport.endpoint().channel)  # type: ignore[no-untyped-call]
        if who == "admin":
            assert (await stub.Status(etcd_v1_pb2.EtcdStatusRequest())).members
            return
        calls = (
            stub.Status(etcd_v1_pb2.EtcdStatusRequest()), stub.Compact(etcd_v1_pb2.EtcdCompactRequest()),
            stub.Disarm(etcd_v1_pb2.EtcdDisarmRequest()), stub.Defrag(etcd_v1_pb2.EtcdDefragRequest()).read(),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_no_such_kind_is_forbidden_to_who_may_not_ask(world: Apiserver) -> None:
    unknown = replace(kinds.of(core.ConfigMap), group="acme.io", resource="gadgets")
    for user, error in (("plain", errors.ForbiddenError), ("admin", errors.NotFoundError)):
        who = USERS[user]
        assert who is not None
        async with world.client(*who) as client:
            with pytest.raises(error):
                await client.raw(unknown).get("x", namespace=NAMESPACE)


async def test_without_any_credential_grpc_knows_nobody(world: Apiserver) -> None:
    async with world.token_client("") as client:
        with pytest.raises(errors.UnauthorizedError):
            await client.resource(core.Pod).list()


async def test_acting_as_another(world: Apiserver, session: aiohttp.ClientSession, tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/settings"
    admin, alice = Http(world, USERS["admin"], tmp_path), None
    as_vera = {"Impersonate-User": "vera"}
    assert (await admin.ask(session, "GET", path, headers=as_vera))[0] == 200
    assert (await admin.ask(session, "DELETE", path, headers=as_vera))[0] == 403
    assert (await admin.ask(session, "GET", path, headers={"Impersonate-Group": "devs"}))[0] == 400
    code, text = await admin.ask(
        session, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        headers={
            "Impersonate-User": ACCOUNT, "Impersonate-Uid": "u-1", "Impersonate-Extra-Acme.io%2Fproject": "x",
            "Content-Type": "application/json",
        },
        data=b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}',
    )  # fmt: skip
    assert code == 201
    assert json.loads(text)["status"]["userInfo"] == {
        "username": ACCOUNT,
        "uid": "u-1",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"],
        "extra": {"acme.io/project": ["x"]},
    }
    alice = Http(world, USERS["plain"], tmp_path)
    code, text = await alice.ask(session, "GET", path, headers=as_vera)
    assert code == 403
    assert 'User \\"alice\\" cannot impersonate resource \\"users\\"' in text


async def test_a_change_of_roles_holds_at_once(world: Apiserver) -> None:
    review = codec.to_json  # the answer is compared as JSON
    async with world.client() as admin, world.client("bob", ["late"]) as bob:
        maps = bob.resource(core.ConfigMap)
        with pytest.raises(errors.ForbiddenError):
            await maps.get("settings", namespace=NAMESPACE)
        binding = rbac.RoleBinding()
        binding.metadata.name, binding.metadata.namespace = "late", NAMESPACE
        binding.roleRef.apiGroup, binding.roleRef.kind = "rbac.authorization.k8s.io", "ClusterRole"
        binding.roleRef.name = "who-viewer"
        binding.subjects.add(kind="Group", name="late", apiGroup="rbac.authorization.k8s.io")
        made = await admin.resource(rbac.RoleBinding).create(binding)
        async with asyncio.timeout(10):
            while True:
                try:
                    assert review(await maps.get("settings", namespace=NAMESPACE))["kind"] == "ConfigMap"
                    break
                except errors.ForbiddenError:
                    await asyncio.sleep(0.01)
        made.roleRef.name = "cluster-admin"
        with pytest.raises(errors.InvalidError, match="cannot change roleRef"):
            await admin.resource(rbac.RoleBinding).update(made)
        await admin.resource(rbac.RoleBinding).delete("late", namespace=NAMESPACE)
        async with asyncio.timeout(10):
            while True:
                try:
                    await maps.get("settings", namespace=NAMESPACE)
                except errors.ForbiddenError:
                    break
                await asyncio.sleep(0.01)
