"""Encryption at rest against a real etcd: what lies in it, who can read it, and how keys are changed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.secret import SecretBox

from controlplane.apiserver.store import EtcdConfig
from controlplane.apiserver.store.client import EtcdClient
from tests.integration.apiserver.objects import config_map, replica_set
from tests.support.apiserver import Apiserver
from tests.support.definitions import definition
from tests.support.etcd import Etcd, have_etcd
from wharfinger.api import errors, storage
from wharfinger.api.types import apiextensions, apps, core
from wharfinger.client import Client
from wharfinger.proto.etcd import rpc_pb2

KEYS = {name: bytes([number]) * 32 for number, name in enumerate(("one", "two", "three"), start=1)}
PLAIN = b"a password that nobody must find"


def config(*names: str, scheme: str = "aescbc", identity: bool = True) -> str:
    def keys(*wanted: str) -> dict[str, Any]:
        return {"keys": [{"name": one, "secret": base64.b64encode(KEYS[one]).decode()} for one in wanted]}

    last: list[dict[str, Any]] = [{"identity": {}}] if identity else []
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [
                {"resources": ["secrets"], "providers": [{scheme: keys(*names)}, *last]},
                {"resources": ["configmaps"], "providers": [{"aesgcm": keys("one")}, *last]},
                {"resources": ["*.apps", "*.acme.io"], "providers": [{"secretbox": keys("one")}, *last]},
            ],
        }
    )


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd:
        yield etcd


@pytest.fixture(scope="module")
def server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    file = tmp_path_factory.mktemp("encryption") / "config.yaml"
    file.write_text(config("one"))
    flags = ("--encryption-provider-config-automatic-reload", "true", "--encryption-provider-config", str(file))
    with Apiserver(etcd.endpoint, *flags) as running:
        yield running


@pytest.fixture
def file(server: Apiserver) -> Path:
    """The configuration, as it is at the beginning of each test."""
    return Path(server.flags[-1])


@pytest_asyncio.fixture
async def client(server: Apiserver) -> AsyncIterator[Client]:
    async with server.client() as client:
        yield client


class Raw:
    """etcd itself."""

    def __init__(self, client: EtcdClient) -> None:
        self.client = client

    async def get(self, key: str) -> bytes:
        answer = await self.client.range_raw(rpc_pb2.RangeRequest(key=key.encode()))
        return bytes(answer.kvs[0].value)

    async def put(self, key: str, value: bytes) -> None:
        await self.client.endpoint.kv.Put(rpc_pb2.PutRequest(key=key.encode(), value=value))

    async def everything(self) -> bytes:
        answer = await self.client.range_raw(rpc_pb2.RangeRequest(key=b"\0", range_end=b"\0"))
        return b"\n".join(bytes(kv.value) for kv in answer.kvs)


@pytest_asyncio.fixture
async def raw(etcd: Etcd) -> AsyncIterator[Raw]:
    client = EtcdClient(EtcdConfig((etcd.endpoint,)))
    await client.start()
    yield Raw(client)
    await client.close()


def secret(name: str, namespace: str = "default", value: bytes = PLAIN) -> core.Secret:
    made = core.Secret()
    made.metadata.name, made.metadata.namespace = name, namespace
    made.data["password"] = value
    return made


def cbc_open(sealed: bytes, key: bytes) -> bytes:
    decryptor = Cipher(algorithms.AES(key), modes.CBC(sealed[:16])).decryptor()
    padded = decryptor.update(sealed[16:]) + decryptor.finalize()
    return padded[: -padded[-1]]


def cbc_seal(value: bytes, key: bytes) -> bytes:
    iv, size = os.urandom(16), 16 - len(value) % 16
    encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    return iv + encryptor.update(value + bytes([size]) * size) + encryptor.finalize()


async def test_etcd_holds_no_plain_text_and_others_can_read_it(client: Client, raw: Raw) -> None:
    await client.resource(core.Secret).create(secret("mine"))
    await client.resource(core.ConfigMap).create(config_map("mine", "default", text=PLAIN.decode()))
    workload = replica_set("mine", "default")
    workload.metadata.annotations["text"] = PLAIN.decode()
    await client.resource(apps.ReplicaSet).create(workload)
    assert PLAIN not in await raw.everything()

    key = "/registry/secrets/default/mine"
    stored, prefix = await raw.get(key), b"k8s:enc:aescbc:v1:one:"
    assert stored.startswith(prefix)
    found: Any = storage.decode(cbc_open(stored[len(prefix) :], KEYS["one"]))
    assert found.data["password"] == PLAIN

    key = "/registry/configmaps/default/mine"
    stored, prefix = await raw.get(key), b"k8s:enc:aesgcm:v1:one:"
    assert stored.startswith(prefix)
    sealed = stored[len(prefix) :]
    found = storage.decode(AESGCM(KEYS["one"]).decrypt(sealed[:12], sealed[12:], key.encode()))
    assert found.data["text"] == PLAIN.decode()

    stored, prefix = await raw.get("/registry/replicasets/default/mine"), b"k8s:enc:secretbox:v1:one:"
    assert stored.startswith(prefix)
    found = storage.decode(SecretBox(KEYS["one"]).decrypt(stored[len(prefix) :]))
    assert found.metadata.annotations["text"] == PLAIN.decode()
    assert (await raw.get("/registry/namespaces/default")).startswith(b"k8s\0")  # no entry names it

    secrets = client.resource(core.Secret)
    assert (await secrets.get("mine", namespace="default")).data["password"] == PLAIN
    assert "mine" in {item.metadata.name for item in (await secrets.list()).items}


async def test_what_others_wrote_is_read(client: Client, raw: Raw) -> None:
    theirs = secret("theirs", value=b"theirs")
    theirs.metadata.uid = "8d7c2b8e-0000-4000-8000-000000000000"
    value = storage.encode(theirs)
    await raw.put("/registry/secrets/default/theirs", b"k8s:enc:aescbc:v1:one:" + cbc_seal(value, KEYS["one"]))
    await raw.put("/registry/secrets/default/plain", storage.encode(secret("plain", value=b"plain")))
    secrets = client.resource(core.Secret)
    assert (await secrets.get("theirs", namespace="default")).data["password"] == b"theirs"
    assert (await secrets.get("plain", namespace="default")).data["password"] == b"plain"
    watched: list[bytes] = []
    async for events in secrets.watch(namespace="default"):
        watched += [event.object.data["password"] for event in events if event.type == "ADDED"]
        if b"theirs" in watched and b"plain" in watched:
            break


async def test_custom_objects(client: Client, raw: Raw, server: Apiserver) -> None:
    await client.resource(apiextensions.CustomResourceDefinition).create(definition("acme.io"))
    context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
    headers = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
    base = f"https://127.0.0.1:{server.secure_port}/apis"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20), headers=headers) as session:
        body = {"apiVersion": "acme.io/v1", "kind": "Lamp", "metadata": {"name": "g"}, "spec": {"size": "large"}}
        address = f"{base}/acme.io/v1/namespaces/default/lamps"
        async with session.post(address, json=body, ssl=context) as answer:
            assert answer.status == 201, await answer.text()
        assert (await raw.get("/registry/acme.io/lamps/default/g")).startswith(b"k8s:enc:secretbox:v1:one:")
        async with session.get(f"{address}/g", ssl=context) as answer:
            assert (await answer.json())["spec"]["size"] == "large"


async def test_a_key_is_changed_while_the_server_runs(client: Client, raw: Raw, file: Path) -> None:
    secrets, key = client.resource(core.Secret), "/registry/secrets/default/rotated"
    made = await secrets.create(secret("rotated"))
    assert (await raw.get(key)).startswith(b"k8s:enc:aescbc:v1:one:")
    same = await secrets.update(made)
    assert same.metadata.resourceVersion == made.metadata.resourceVersion  # nothing to do
    file.write_text(config("two", "one"))
    try:
        async with asyncio.timeout(60):
            while True:  # until the new file is in use
                await secrets.create(secret("probe"))
                written = await raw.get("/registry/secrets/default/probe")
                await secrets.delete("probe", namespace="default")
                if written.startswith(b"k8s:enc:aescbc:v1:two:"):
                    break
                await asyncio.sleep(0.1)
        assert (await secrets.get("rotated", namespace="default")).data["password"] == PLAIN
        again = await secrets.update(made)  # the same object: stored anew since its key is old
        assert again.metadata.resourceVersion != made.metadata.resourceVersion
        assert (await raw.get(key)).startswith(b"k8s:enc:aescbc:v1:two:")
        last = await secrets.update(again)
        assert last.metadata.resourceVersion == again.metadata.resourceVersion
    finally:
        file.write_text(config("one", "two"))


async def test_what_cannot_be_decrypted_says_so_and_stops_nothing_else(
    server: Apiserver, client: Client, raw: Raw, file: Path
) -> None:
    made = core.Namespace()
    made.metadata.name = "broken"
    await client.resource(core.Namespace).create(made)
    secrets, key = client.resource(core.Secret), "/registry/secrets/broken/lost"
    await secrets.create(secret("whole", "broken"))
    value = storage.encode(secret("lost", "broken"))
    await raw.put(key, b"k8s:enc:aescbc:v1:three:" + cbc_seal(value, KEYS["three"]))

    async def check(client: Client) -> None:
        secrets = client.resource(core.Secret)
        why = f"unable to transform key \"{key}\": it was written with the key 'three' of aescbc"
        for attempt in (
            secrets.get("lost", namespace="broken"),
            secrets.list(namespace="broken"),
            secrets.delete("lost", namespace="broken"),
        ):
            with pytest.raises(errors.InternalError) as raised:
                await attempt
            assert why in raised.value.message
        assert (await secrets.get("whole", namespace="broken")).data["password"] == PLAIN
        await secrets.list(namespace="kube-system")
        await client.resource(core.ConfigMap).list()
        await secrets.create(secret("new", "broken"))
        await secrets.delete("new", namespace="broken")
        assert "cannot be decrypted" in server.log.read_text()

    await check(client)
    server.stop()
    server.start()
    async with server.client() as again:
        await check(again)
        file.write_text(config("one", "two", "three"))
        async with asyncio.timeout(60):
            while True:
                try:
                    found = await again.resource(core.Secret).get("lost", namespace="broken")
                    break
                except errors.InternalError:
                    await asyncio.sleep(0.1)
        assert found.data["password"] == PLAIN


async def test_a_server_without_a_configuration_refuses_what_is_encrypted(etcd: Etcd, client: Client) -> None:
    await client.resource(core.Secret).create(secret("closed"))
    with Apiserver(etcd.endpoint) as other:
        async with other.client() as blind:
            with pytest.raises(
                errors.InternalError, match='transform key "/registry/secrets/default/closed": it is enc'
            ):
                await blind.resource(core.Secret).get("closed", namespace="default")
            await blind.resource(core.Namespace).list()


def test_a_wrong_file_stops_the_start(etcd: Etcd, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(config("one").replace('"name": "one"', '"nam": "one"', 1))
    with (
        pytest.raises(RuntimeError, match=r"resources\[0\]\.providers\[0\]\.aescbc\.keys\[0\]\.name: is required"),
        Apiserver(etcd.endpoint, "--encryption-provider-config", str(tmp_path / "config.yaml")),
    ):
        pass
