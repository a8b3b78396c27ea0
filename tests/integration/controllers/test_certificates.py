"""Joining with a bootstrap token, certificates that are approved, signed and renewed, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509

from nodeagent import certificates as own
from nodeagent import joining
from tests.integration.controllers.plane import Manager, Plane, until
from tests.integration.controllers.plane import port as free_port
from tests.support.etcd import have_etcd
from wharfinger import bootstraptokens, pki
from wharfinger.api import errors
from wharfinger.api.types import authentication, certificates, core
from wharfinger.client import Client, ClientConfig

_CSR = "certificatesigningrequest.certificates.k8s.io"


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Plane, int]]:
    """A control plane with a token port, that signs."""
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    number = free_port()
    plane = Plane("--grpc-token-port", str(number))
    pki.ensure_signing_key(plane.folder)
    key = plane.folder / "sa.key"
    plane._flags += ("--service-account-signing-key-file", str(key))
    with plane:
        authority = plane.folder / "ca.crt"
        plane.manager(
            "--cluster-signing-cert-file", str(authority), "--cluster-signing-key-file", str(plane.folder / "ca.key"),
            "--service-account-private-key-file", str(key), "--root-ca-file", str(authority),
        )  # fmt: skip
        yield plane, number


async def bootstrap_kubeconfig(cluster: tuple[Plane, int], seconds: int = 600) -> Path:
    """Make a token and a kubeconfig with it."""
    plane, number = cluster
    token = bootstraptokens.generate()
    async with plane.client() as client:
        await client.resource(core.Secret).create(bootstraptokens.secret_of(token, seconds=seconds))
    path = plane.folder / f"bootstrap-{token[:6]}.conf"
    return pki.write_kubeconfig(
        path, server="https://127.0.0.1:1", grpc_endpoints=[f"127.0.0.1:{plane.grpc_port}"],
        grpc_token_endpoints=[f"127.0.0.1:{number}"], ca=(plane.folder / "ca.crt").read_bytes(), token=token,
    )  # fmt: skip


async def joined(cluster: tuple[Plane, int], node: str) -> Path:
    bootstrap = await bootstrap_kubeconfig(cluster)
    folder = cluster[0].folder / node
    kubeconfig = folder / "kubeconfig"
    await asyncio.wait_for(
        joining.join(bootstrap=str(bootstrap), kubeconfig=str(kubeconfig), directory=folder, node=node), 30
    )
    return kubeconfig


async def wharf(plane: Plane, *arguments: str) -> tuple[int, str]:
    """Run the command line; returns its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "wharfinger.cli.main", "--kubeconfig", str(plane.folder / "admin.kubeconfig"), *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode().strip()


async def whoami(client: Client) -> authentication.UserInfo:
    return (
        await client.resource(authentication.SelfSubjectReview).create(authentication.SelfSubjectReview())
    ).status.userInfo


async def test_a_node_joins_with_a_token_and_is_itself(cluster: tuple[Plane, int]) -> None:
    kubeconfig = await joined(cluster, "n1")
    assert not joining.is_needed(str(kubeconfig))
    # A host's owner may have written the kubeconfig for that file: joining again leaves it alone.
    kubeconfig.write_text(f"# mine\n{kubeconfig.read_text()}")
    (kubeconfig.parent / "kubelet-client-current.pem").unlink()
    assert joining.is_needed(str(kubeconfig))
    await joined(cluster, "n1")
    assert kubeconfig.read_text().startswith("# mine")
    assert not joining.is_needed(str(kubeconfig))
    for path in (kubeconfig, kubeconfig.parent / own.CLIENT_FILE):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with Client(ClientConfig.load(kubeconfig)) as client:
        user = await whoami(client)
        assert (user.username, sorted(user.groups)) == ("system:node:n1", ["system:authenticated", "system:nodes"])
        with pytest.raises(errors.ForbiddenError):
            await client.resource(core.Secret).list(namespace="kube-system")


async def test_a_token_is_for_joining_only_and_ends(cluster: tuple[Plane, int]) -> None:
    bootstrap = await bootstrap_kubeconfig(cluster, seconds=4)
    async with Client(ClientConfig.load(bootstrap)) as client:
        user = await whoami(client)
        assert user.username.startswith("system:bootstrap:")
        assert "system:bootstrappers" in user.groups
        with pytest.raises(errors.ForbiddenError):
            await client.resource(core.Node).list()

        async def refused() -> bool:
            with suppress(errors.UnauthorizedError):
                await whoami(client)
                return False
            return True

        await until(refused, "the token to end")
    async with cluster[0].client() as admin:
        name = "bootstrap-token-" + user.username.rpartition(":")[2]

        async def cleaned() -> bool:
            with suppress(errors.NotFoundError):
                await admin.resource(core.Secret).get(name, namespace="kube-system")
                return False
            return True

        await until(cleaned, "the expired token to be deleted")


async def test_a_node_serves_under_its_own_names_only(cluster: tuple[Plane, int]) -> None:
    kubeconfig = await joined(cluster, "n2")
    async with cluster[0].client() as admin, Client(ClientConfig.load(kubeconfig)) as client:
        for name, address in (("n2", "10.9.0.2"), ("other", "10.9.0.3")):
            node = core.Node()
            node.metadata.name = name
            node.status.addresses.add(type="InternalIP", address=address)
            await admin.resource(core.Node).create(node)
        good = own.Wanted(own.SERVING_SIGNER, "n2", ("n2",), ("10.9.0.2",))
        issued = x509.load_pem_x509_certificate(await asyncio.wait_for(own.obtain(client, good), 30))
        assert own.serves(issued, good)
        asking = asyncio.ensure_future(own.obtain(client, own.Wanted(own.SERVING_SIGNER, "n2", ("other",), ())))
        with pytest.raises(errors.ForbiddenError, match="CN=system:node:n2"):
            await own.obtain(client, own.Wanted(own.SERVING_SIGNER, "other", ("other",), ("10.9.0.3",)))
        with pytest.raises(errors.ForbiddenError, match="CN=system:node:n2"):
            await own.obtain(client, own.Wanted(own.CLIENT_SIGNER, "other"))

        async def left_alone() -> bool:
            return cluster[0]._processes[-1].said("other is neither the node's name nor among its addresses")

        await until(left_alone, "the manager to decline")
        assert not asking.done()
        asking.cancel()


async def test_renewal_moves_connections_over(cluster: tuple[Plane, int]) -> None:
    kubeconfig = await joined(cluster, "n3")
    path = kubeconfig.parent / own.CLIENT_FILE
    before = own.read(path)
    assert before is not None
    assert own.renewal(before, 0.7) < before.not_valid_after_utc.timestamp()
    ahead = before.not_valid_after_utc.timestamp() - time.time() - 60
    async with Client(ClientConfig.load(kubeconfig)) as client:
        renewed = asyncio.Event()

        async def take() -> None:
            client.renew(ClientConfig.load(kubeconfig))
            renewed.set()

        broken: list[errors.StatusError] = []

        async def watch() -> None:
            try:
                async for _ in client.resource(core.Node).watch(field_selector="metadata.name=n3"):
                    pass
            except errors.StatusError as error:
                broken.append(error)

        watching = asyncio.ensure_future(watch())
        wanted = own.Wanted(own.CLIENT_SIGNER, "n3")
        # A clock that is far ahead until the renewal.
        renewer = own.Renewer(
            path, lambda: wanted, client=client, renewed=take,
            clock=lambda: time.time() + (0 if renewed.is_set() else ahead),
        )  # fmt: skip
        task = asyncio.ensure_future(renewer.run())
        await asyncio.wait_for(renewed.wait(), 30)
        await asyncio.wait_for(watching, 10)
        assert isinstance(broken[0], errors.ServiceUnavailableError), "a watch is told to come back"
        assert (await whoami(client)).username == "system:node:n3"
        task.cancel()
    after = own.read(path)
    assert after is not None
    assert after.serial_number != before.serial_number


async def test_a_client_certificate_waits_for_a_person(cluster: tuple[Plane, int]) -> None:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "amy")])
    made = certificates.CertificateSigningRequest()
    made.metadata.name = "amy"
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made.spec.request = signed.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.PEM
    )
    made.spec.signerName = "kubernetes.io/kube-apiserver-client"
    made.spec.usages.extend(["client auth"])
    made.spec.expirationSeconds = 3600
    async with cluster[0].client() as admin:
        requests = admin.resource(certificates.CertificateSigningRequest)
        made = await requests.create(made)
        assert await wharf(cluster[0], "certificate", "approve", "amy") == (0, f"{_CSR}/amy approved")

        async def signed_it() -> bytes:
            return (await requests.get("amy")).status.certificate

        await until(signed_it, "the certificate")
        issued = x509.load_pem_x509_certificate((await requests.get("amy")).status.certificate)
        left = issued.not_valid_after_utc.timestamp() - time.time()
        assert 3000 < left <= 3600
    manager = cluster[0]._processes[-1]
    assert isinstance(manager, Manager)
    for what in ("client", "signer"):
        metric = f'wharfinger_certificate_expiration_timestamp_seconds{{certificate="{what}"}}'
        assert manager.metric(metric) > time.time()
    code, said = await wharf(cluster[0], "certificate", "deny", "amy")
    assert (code, said) == (1, 'error: certificate signing request "amy" is already Approved')


async def test_a_token_in_a_secret(cluster: tuple[Plane, int]) -> None:
    plane, number = cluster
    async with plane.client() as admin:
        accounts, secrets = admin.resource(core.ServiceAccount), admin.resource(core.Secret)
        account = core.ServiceAccount()
        account.metadata.name, account.metadata.namespace = "robot", "default"
        await accounts.create(account)
        secret = core.Secret(type="kubernetes.io/service-account-token")
        secret.metadata.name, secret.metadata.namespace = "robot-token", "default"
        secret.metadata.annotations["kubernetes.io/service-account.name"] = "robot"
        await secrets.create(secret)

        async def filled() -> bytes:
            return (await secrets.get("robot-token", namespace="default")).data.get("token", b"")

        await until(filled, "the token")
        found = await secrets.get("robot-token", namespace="default")
        assert found.data["namespace"] == b"default"
        assert found.data["ca.crt"] == (plane.folder / "ca.crt").read_bytes()
        claims = base64.urlsafe_b64decode(found.data["token"].split(b".")[1] + b"==")
        assert b'"kubernetes.io/serviceaccount/service-account.name":"robot"' in claims
        config = ClientConfig(
            endpoints=[f"127.0.0.1:{number}"], ca=found.data["ca.crt"], token=found.data["token"].decode()
        )
        async with Client(config) as robot:
            assert (await whoami(robot)).username == "system:serviceaccount:default:robot"
            await accounts.delete("robot", namespace="default")

            async def gone() -> bool:
                with suppress(errors.NotFoundError):
                    await secrets.get("robot-token", namespace="default")
                    return False
                return True

            await until(gone, "the secret to follow its account")
            with pytest.raises(errors.UnauthorizedError):
                await whoami(robot)
