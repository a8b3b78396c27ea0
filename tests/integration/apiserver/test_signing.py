"""Who may ask for certificates, approve requests for them and put them in."""

from __future__ import annotations

import itertools

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.apiserver import Apiserver
from wharfinger.api import errors
from wharfinger.api.types import certificates, rbac
from wharfinger.client import Client

_numbers = itertools.count(1)
_KUBELET, _CLIENT = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kube-apiserver-client"
_GROUP = "rbac.authorization.k8s.io"


def _request(name: str, *groups: str, signer: str = _KUBELET) -> certificates.CertificateSigningRequest:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = signed.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    made = certificates.CertificateSigningRequest()
    made.metadata.name = f"csr-{next(_numbers)}"
    made.spec.request, made.spec.signerName = pem, signer
    made.spec.usages.extend(["digital signature", "client auth"])
    return made


async def _allow(client: Client, user: str, *rules: rbac.PolicyRule) -> None:
    role = rbac.ClusterRole()
    role.metadata.name = f"signing-{next(_numbers)}"
    role.rules.extend(rules)
    await client.resource(rbac.ClusterRole).create(role)
    binding = rbac.ClusterRoleBinding()
    binding.metadata.name = role.metadata.name
    binding.roleRef.apiGroup, binding.roleRef.kind, binding.roleRef.name = _GROUP, "ClusterRole", role.metadata.name
    binding.subjects.add(kind="User", name=user, apiGroup=_GROUP)
    await client.resource(rbac.ClusterRoleBinding).create(binding)
    await client.resource(rbac.ClusterRoleBinding).get(binding.metadata.name)  # the cache has it


def _on_requests(verb: str, resource: str) -> rbac.PolicyRule:
    return rbac.PolicyRule(verbs=[verb], apiGroups=["certificates.k8s.io"], resources=[resource])


def _on_signer(verb: str, signer: str) -> rbac.PolicyRule:
    rule = _on_requests(verb, "signers")
    rule.resourceNames.append(signer)
    return rule


async def test_approving_needs_a_right_on_the_signer(server: Apiserver, client: Client) -> None:
    requests = client.resource(certificates.CertificateSigningRequest)
    made = await requests.create(_request("system:node:n1", "system:nodes"))
    assert (made.spec.username, list(made.spec.groups)) == ("admin", ["system:masters", "system:authenticated"])
    await _allow(client, "amy", _on_requests("update", "certificatesigningrequests/approval"))
    made.status.conditions.add(type="Approved", status="True", reason="Test")
    async with server.client("amy", []) as amy:
        own = amy.resource(certificates.CertificateSigningRequest)
        with pytest.raises(errors.ForbiddenError, match="user not permitted to approve requests with signerName"):
            await own.update(made, subresource="approval")
        await _allow(client, "amy", _on_signer("approve", "kubernetes.io/*"))
        assert (await own.update(made, subresource="approval")).status.conditions[0].type == "Approved"


async def test_signing_needs_a_right_on_the_signer(server: Apiserver, client: Client) -> None:
    requests = client.resource(certificates.CertificateSigningRequest)
    made = await requests.create(_request("system:node:n1", "system:nodes"))
    await _allow(client, "sam", _on_requests("update", "certificatesigningrequests/status"))
    made.status.conditions.add(type="Failed", status="True", reason="Test")
    async with server.client("sam", []) as sam:
        own = sam.resource(certificates.CertificateSigningRequest)
        with pytest.raises(errors.ForbiddenError, match="user not permitted to sign requests with signerName"):
            await own.update_status(made)
        await _allow(client, "sam", _on_signer("sign", _KUBELET))
        await own.update_status(made)


async def test_nobody_becomes_a_master_by_asking(client: Client) -> None:
    requests = client.resource(certificates.CertificateSigningRequest)
    with pytest.raises(errors.ForbiddenError, match="with system:masters group is not allowed"):
        await requests.create(_request("eve", "system:masters", signer=_CLIENT))


async def test_a_node_asks_for_itself_alone(server: Apiserver) -> None:
    async with server.client("system:node:n1", ["system:nodes"]) as node:
        requests = node.resource(certificates.CertificateSigningRequest)
        await requests.create(_request("system:node:n1", "system:nodes"))
        with pytest.raises(errors.ForbiddenError, match="can only create a node CSR with CN=system:node:n1"):
            await requests.create(_request("system:node:n2", "system:nodes"))
