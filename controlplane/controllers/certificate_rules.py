"""What the cluster's own signers sign, and what is approved without a person: pure decisions on requests.

Source: "Certificates and Certificate Signing Requests" in Kubernetes' documentation, and its kubelet's requests.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wharfinger.api.types import certificates, core

if TYPE_CHECKING:  # imported where it is used: 8 MB that a cluster without requests does not need
    from cryptography import x509

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = frozenset({CLIENT, KUBELET_CLIENT, KUBELET_SERVING})
NODE_PREFIX = "system:node:"
NODES = "system:nodes"
_RESERVED = frozenset({"localhost", "kubernetes", "wharf-apiserver", "wharf-scheduler", "wharf-controller-manager"})
_OPTIONAL = "key encipherment"
_CLIENT_USAGES = frozenset({"digital signature", "client auth"})
_SERVING_USAGES = frozenset({"digital signature", "server auth"})


@dataclass(frozen=True)
class Asked:
    """What a request asks for."""

    name: str
    groups: tuple[str, ...]
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Kinds of other names (e-mail, URI) that it wants."""
    usages: frozenset[str] = frozenset()
    parsed: x509.CertificateSigningRequest | None = field(default=None, repr=False, compare=False)

    @property
    def node(self) -> str:
        """The node of a node's name; empty for others."""
        return self.name.removeprefix(NODE_PREFIX) if self.name.startswith(NODE_PREFIX) else ""


def read(request: certificates.CertificateSigningRequest) -> Asked:
    """Read a request. Raises ValueError when it cannot be read or its signature does not hold."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parsed = x509.load_pem_x509_csr(request.spec.request)
    if not parsed.is_signature_valid:
        raise ValueError("the request is not signed by its own key")
    names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    dns: list[str] = []
    ips: list[str] = []
    others: list[str] = []
    try:
        alternatives = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = x509.SubjectAlternativeName([])
    for one in alternatives:
        if isinstance(one, x509.DNSName):
            dns.append(one.value)
        elif isinstance(one, x509.IPAddress):
            ips.append(str(one.value))
        else:
            others.append(type(one).__name__)
    return Asked(
        name=str(names[0].value) if len(names) == 1 else "",
        groups=tuple(str(one.value) for one in groups),
        dns=tuple(dns),
        ips=tuple(ips),
        others=tuple(others),
        usages=frozenset(request.spec.usages),
        parsed=parsed,
    )


def fault(signer: str, asked: Asked) -> str:
    """Say why a signer does not sign this; empty when it does."""
    if signer == CLIENT:
        if "client auth" not in asked.usages or not asked.usages <= _CLIENT_USAGES | {_OPTIONAL}:
            return "usages must be client auth, with digital signature and key encipherment at most"
        return "" if asked.name else "the subject has no common name (CN), which would be the user's name"
    if asked.groups != (NODES,):
        return f"the organisation must be {NODES}"
    if not asked.node:
        return f"the common name must begin with {NODE_PREFIX}"
    if asked.others:
        return f"names of kind {', '.join(sorted(set(asked.others)))} are not allowed"
    if signer == KUBELET_CLIENT:
        if asked.dns or asked.ips:
            return "a client's certificate has no DNS names and addresses"
        return _usages(asked, _CLIENT_USAGES)
    if not asked.dns and not asked.ips:
        return "a serving certificate needs a DNS name or an address"
    return _usages(asked, _SERVING_USAGES)


def _usages(asked: Asked, wanted: frozenset[str]) -> str:
    if asked.usages - {_OPTIONAL} != wanted:
        return f"usages must be {' and '.join(sorted(wanted))}, with {_OPTIONAL} at most"
    return ""


def foreign_names(
    asked: Asked, node: core.Node | None, others: Iterable[core.Node], *, control_plane: Collection[str] = ()
) -> str:
    """Say why a node may not serve under the names that it asks for; empty when it may.

    A node writes its status itself, so what it says there is not enough. The only DNS name is its own; addresses must
    be those that its status lists, and no other node's. And nothing may be what the control plane is reached by
    (`control_plane`: names and addresses of apiservers, whose authority is the nodes', too), or one node could stand in
    for it before all others.
    """
    if node is None:
        return f"there is no node {asked.node}"
    name = node.metadata.name
    ips = {_canonical(ip) for ip in asked.ips}
    strange = sorted(ips - _addresses(node))
    strange += sorted(dns for dns in asked.dns if dns != name)
    if strange:
        return f"{', '.join(strange)} is neither the node's name nor among its addresses"
    wanted = set(asked.dns) | ips
    known = {_canonical(one) for one in control_plane}
    taken = {one for one in wanted & known if not _loopback(one)} | {dns for dns in asked.dns if _is_reserved(dns)}
    if taken:
        return f"{', '.join(sorted(taken))} is what the control plane is reached by"
    for other in others:
        if other.metadata.name == node.metadata.name:
            continue
        shared = sorted(wanted & (_addresses(other) | {other.metadata.name}))
        shared = [one for one in shared if not _loopback(one)]
        if shared:
            return f"{', '.join(shared)} is the address of node {other.metadata.name}, too"
    return ""


def _is_reserved(name: str) -> bool:
    """Whether parts of the control plane are, or may be, known by a DNS name in any cluster."""
    return name.split(".")[0] in _RESERVED or name.endswith((".svc", ".svc.cluster.local"))


def _addresses(node: core.Node) -> set[str]:
    return {_canonical(one.address) for one in node.status.addresses}


def _canonical(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


def _loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return text == "localhost"


def has(request: certificates.CertificateSigningRequest, *kinds: str) -> bool:
    """Whether the request has one of these conditions."""
    return any(condition.type in kinds for condition in request.status.conditions)
