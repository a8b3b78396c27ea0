"""Services, endpoints, secrets, nodes and the rest."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from wharfinger.api.types import apiextensions, core, discovery, networking, node
from wharfinger.api.validation.warnings import texts

_INGRESS_CLASS = "kubernetes.io/ingress.class"
_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"


def of_service(service: core.Service) -> list[str]:
    """Return what to say about a service: mostly about fields that its type makes pointless."""
    spec = service.spec
    found = []
    if _TOPOLOGY_HINTS in service.metadata.annotations:
        found.append(
            f"metadata.annotations[{_TOPOLOGY_HINTS}]: deprecated; use service.kubernetes.io/topology-mode instead"
        )
    if spec.clusterIP == "None":
        if spec.loadBalancerIP:
            found.append("spec.loadBalancerIP is ignored for headless services")
        if spec.externalIPs:
            found.append('spec.externalIPs is ignored when spec.clusterIP is "None"')
        if spec.sessionAffinity != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    else:
        for index, address in enumerate(spec.clusterIPs):
            found += texts.address(address, f"spec.clusterIPs[{index}]")
    for index, address in enumerate(spec.externalIPs):
        found += texts.address(address, f"spec.externalIPs[{index}]")
    found += texts.address(spec.loadBalancerIP, "spec.loadBalancerIP")
    for index, network in enumerate(spec.loadBalancerSourceRanges):
        found += texts.network(network, f"spec.loadBalancerSourceRanges[{index}]")
    if spec.type == "ExternalName" and spec.externalIPs:
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.type != "ExternalName" and spec.externalName:
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return found


def of_endpoints(endpoints: core.Endpoints) -> list[str]:
    """Return what to say about the addresses of endpoints."""
    return [
        warning
        for index, subset in enumerate(endpoints.subsets)
        for field in ("addresses", "notReadyAddresses")
        for number, address in enumerate(getattr(subset, field))
        for warning in texts.address(address.ip, f"subsets[{index}].{field}[{number}].ip")
    ]


def of_slice(piece: discovery.EndpointSlice) -> list[str]:
    """Return what to say about a new endpoint slice."""
    if piece.addressType == "FQDN":
        return ["addressType: FQDN endpoints are deprecated"]
    return [
        warning
        for index, endpoint in enumerate(piece.endpoints)
        for number, address in enumerate(endpoint.addresses)
        for warning in texts.address(address, f"endpoints[{index}].addresses[{number}]")
    ]


def of_secret(secret: core.Secret) -> list[str]:
    """Return what is wrong with the certificate and the key of a ``kubernetes.io/tls`` secret."""
    if secret.type != "kubernetes.io/tls":
        return []
    try:
        certificate = x509.load_pem_x509_certificate(secret.data["tls.crt"])
        key = load_pem_private_key(secret.data["tls.key"], password=None)
        certified = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        own = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return [f"tls: cannot read the certificate or the key: {str(error).splitlines()[0] if str(error) else error!r}"]
    return [] if certified == own else ["tls: private key does not match public key"]


def of_node(machine: core.Node) -> list[str]:
    """Return what to say about a node."""
    found = []
    if machine.spec.HasField("configSource"):
        found.append("spec.configSource: the feature is no longer supported")
    if machine.spec.externalID:
        found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for index, network in enumerate(machine.spec.podCIDRs):
        found += texts.network(network, f"spec.podCIDRs[{index}]")
    return found


def of_account(account: core.ServiceAccount) -> list[str]:
    """Return what to say about a service account."""
    if _MOUNTABLE not in account.metadata.annotations:
        return []
    return [
        f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to "
        "mounted secrets"
    ]


def of_runtime_class(cls: node.RuntimeClass) -> list[str]:
    """Return what to say about the nodes and the overhead of a runtime class."""
    return texts.node_labels(cls.scheduling.nodeSelector, "scheduling.nodeSelector") + texts.amounts(
        cls.overhead.podFixed, "overhead.podFixed"
    )


def of_ingress(ingress: networking.Ingress) -> list[str]:
    """Return what to say about a new ingress."""
    if _INGRESS_CLASS not in ingress.metadata.annotations:
        return []
    return [f"annotation {_INGRESS_CLASS!r} is deprecated, please use 'spec.ingressClassName' instead"]


def of_network_policy(policy: networking.NetworkPolicy) -> list[str]:
    """Return what to say about the networks of a policy."""
    found = []
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(getattr(policy.spec, direction)):
            for number, peer in enumerate(getattr(rule, peers)):
                at = f"spec.{direction}[{index}].{peers}[{number}].ipBlock"
                found += texts.network(peer.ipBlock.cidr, f"{at}.cidr")
                for place, network in enumerate(getattr(peer.ipBlock, "except")):
                    found += texts.network(network, f"{at}.except[{place}]")
    return found


def of_definition(definition: apiextensions.CustomResourceDefinition) -> list[str]:
    """Say which versions are not served: those that a webhook would have to convert."""
    if definition.spec.conversion.strategy != "Webhook":
        return []
    others = [version.name for version in definition.spec.versions if version.served and not version.storage]
    if not others:
        return []
    return [
        f"spec.conversion.strategy: conversion webhooks are not called by this server: {', '.join(others)} "
        "will not be served, only the version that is stored"
    ]
