"""What is signed, and what is approved without a person."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from controlplane.controllers import certificate_rules as rules
from controlplane.controllers.certificate_cleaner import DECIDED_SECONDS, PENDING_SECONDS, is_over
from nodeagent.certificates import CLIENT_SIGNER, SERVING_SIGNER, Wanted
from wharfinger.api.types import certificates, core


def asked(wanted: Wanted) -> rules.Asked:
    """Return what the agent's own request asks for."""
    request = certificates.CertificateSigningRequest()
    request.spec.request = wanted.request(ec.generate_private_key(ec.SECP256R1()))
    request.spec.usages.extend(wanted.usages)
    return rules.read(request)


CLIENT_USE, SERVING_USE = (
    frozenset({"digital signature", "client auth"}),
    frozenset({"digital signature", "server auth"}),
)
NODE = ("system:nodes",)


def test_what_the_agent_asks_for_is_signed() -> None:
    client = asked(Wanted(CLIENT_SIGNER, "n"))
    assert (client.name, client.groups, client.node) == ("system:node:n", NODE, "n")
    assert rules.fault(rules.KUBELET_CLIENT, client) == ""
    serving = asked(Wanted(SERVING_SIGNER, "n", ("n",), ("10.0.0.1", "fd00::1")))
    assert (serving.dns, serving.ips) == (("n",), ("10.0.0.1", "fd00::1"))
    assert rules.fault(rules.KUBELET_SERVING, serving) == ""
    assert rules.fault(rules.KUBELET_SERVING, client)
    assert rules.fault(rules.KUBELET_CLIENT, serving)


@pytest.mark.parametrize(
    ("signer", "wrong"),
    [
        (rules.KUBELET_CLIENT, rules.Asked("system:node:n", ("system:masters",), usages=CLIENT_USE)),
        (rules.KUBELET_CLIENT, rules.Asked("system:node:n", (*NODE, "system:masters"), usages=CLIENT_USE)),
        (rules.KUBELET_CLIENT, rules.Asked("amy", NODE, usages=CLIENT_USE)),
        (rules.KUBELET_CLIENT, rules.Asked("system:node:", NODE, usages=CLIENT_USE)),
        (rules.KUBELET_CLIENT, rules.Asked("system:node:n", NODE, dns=("n",), usages=CLIENT_USE)),
        (rules.KUBELET_CLIENT, rules.Asked("system:node:n", NODE, usages=CLIENT_USE | {"server auth"})),
        (rules.KUBELET_SERVING, rules.Asked("system:node:n", NODE, usages=SERVING_USE)),
        (rules.KUBELET_SERVING, rules.Asked("system:node:n", NODE, dns=("n",), usages=CLIENT_USE)),
        (rules.KUBELET_SERVING, rules.Asked("system:node:n", NODE, ("n",), others=("UniformResourceIdentifier",),
                                            usages=SERVING_USE)),
        (rules.CLIENT, rules.Asked("", usages=CLIENT_USE, groups=())),
        (rules.CLIENT, rules.Asked("amy", (), usages=SERVING_USE)),
    ],
)  # fmt: skip
def test_what_is_never_signed(signer: str, wrong: rules.Asked) -> None:
    assert rules.fault(signer, wrong)


def node(name: str, *addresses: str) -> core.Node:
    made = core.Node()
    made.metadata.name = name
    for address in addresses:
        made.status.addresses.add(type="InternalIP", address=address)
    return made


def test_names_must_be_the_nodes_own_and_no_other_nodes() -> None:
    wanted = asked(Wanted(SERVING_SIGNER, "n", ("n",), ("10.0.0.1",)))
    mine, other = node("n", "10.0.0.1"), node("m", "10.0.0.2")
    assert rules.foreign_names(wanted, mine, [mine, other]) == ""
    assert "no node n" in rules.foreign_names(wanted, None, [])
    assert "nor among" in rules.foreign_names(wanted, node("n", "10.0.0.9"), [])
    assert "node m" in rules.foreign_names(wanted, mine, [mine, node("m", "10.0.0.1")])
    sly = asked(Wanted(SERVING_SIGNER, "n", ("m",), ()))
    assert "nor among" in rules.foreign_names(sly, node("n", "10.0.0.1", "m"), [other])
    every = asked(Wanted(SERVING_SIGNER, "n", ("n", "*.n"), ()))
    assert "nor among" in rules.foreign_names(every, mine, [mine])


@pytest.mark.parametrize(
    ("name", "dns", "ips"),
    [
        ("n", ("n", "kubernetes.default.svc"), ()), ("n", ("localhost",), ()), ("n", ("api.example",), ()),
        ("n", ("n",), ("10.0.0.1",)), ("n", ("n",), ("0:0:0:0:0:0:0:1", "fd00::1")),
        ("kubernetes", ("kubernetes",), ()), ("kubernetes.default.svc", ("kubernetes.default.svc",), ()),
        ("wharf-scheduler", ("wharf-scheduler",), ()), ("api.example", ("api.example",), ()),
        ("default.svc", ("kubernetes.default.svc",), ()),
    ],
)  # fmt: skip
def test_no_node_may_stand_in_for_the_control_plane(name: str, dns: tuple[str, ...], ips: tuple[str, ...]) -> None:
    """Whatever it writes into its status: with such a certificate it could be the apiserver to all others."""
    wanted = asked(Wanted(SERVING_SIGNER, name, dns, ips))
    liar = node(name, *dns, *ips)
    control_plane = {"10.0.0.1", "fd00::1", "api.example", "127.0.0.1"}
    assert rules.foreign_names(wanted, liar, [liar], control_plane=control_plane)
    honest = asked(Wanted(SERVING_SIGNER, "n", ("n",), ("127.0.0.1", "10.0.0.2")))
    assert not rules.foreign_names(honest, node("n", "127.0.0.1", "10.0.0.2"), [], control_plane=control_plane)


def test_requests_go_when_they_are_over() -> None:
    request = certificates.CertificateSigningRequest()
    request.metadata.creationTimestamp.seconds = 1000
    assert not is_over(request, 1000 + PENDING_SECONDS - 1)
    assert is_over(request, 1000 + PENDING_SECONDS + 1)
    request.status.conditions.add(type="Approved", status="True").lastUpdateTime.seconds = 2000
    assert not is_over(request, 2000 + DECIDED_SECONDS - 1)
    assert is_over(request, 2000 + DECIDED_SECONDS + 1)


def test_a_request_that_is_not_signed_by_its_key_is_refused() -> None:
    request = certificates.CertificateSigningRequest()
    good = x509.load_pem_x509_csr(Wanted(CLIENT_SIGNER, "n").request(ec.generate_private_key(ec.SECP256R1())))
    broken = bytearray(good.public_bytes(Encoding.DER))
    broken[-1] ^= 1
    body = base64.encodebytes(bytes(broken)).decode()
    request.spec.request = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n".encode()
    with pytest.raises(ValueError, match="not signed by its own key"):
        rules.read(request)
