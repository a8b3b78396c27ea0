from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build, creating, updating


def _service(**spec: Any) -> Any:
    service = build("v1 Service", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}})
    if not service.spec.clusterIP and service.spec.type != "ExternalName":
        # What the server allocates before validation.
        service.spec.clusterIP = "10.96.0.7"
        service.spec.clusterIPs[:] = ["10.96.0.7"]
        service.spec.ipFamilies[:] = ["IPv4"]
        service.spec.ipFamilyPolicy = "SingleStack"
    return service


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, []),
        ({"ports": []}, ["spec.ports Required"]),
        ({"ports": [], "clusterIP": "None"}, []),
        ({"ports": [{"port": 0}]}, ["spec.ports[0].port Invalid", "spec.ports[0].targetPort Invalid"]),
        ({"ports": [{"port": 80}, {"port": 81}]}, ["spec.ports[0].name Required", "spec.ports[1].name Required"]),
        ({"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]}, ["spec.ports[1].name Duplicate"]),
        ({"ports": [{"port": 80, "protocol": "ICMP"}]}, ["spec.ports[0].protocol NotSupported"]),
        ({"ports": [{"port": 80, "nodePort": 30080}]}, ["spec.ports[0].nodePort Forbidden"]),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}, []),
        ({"type": "Open"}, ["spec.type NotSupported"]),
        ({"type": "ExternalName"}, ["spec.externalName Required"]),
        ({"type": "ExternalName", "externalName": "a.example.com"}, []),
        ({"selector": {"a b": "c"}}, ["spec.selector Invalid"]),
        ({"sessionAffinity": "Sticky"}, ["spec.sessionAffinity NotSupported"]),
        ({"externalIPs": ["127.0.0.1"]}, ["spec.externalIPs[0] Invalid"]),
        ({"externalIPs": ["x"]}, ["spec.externalIPs[0] Invalid"]),
    ],
)
def test_new_services(spec: dict[str, Any], causes: list[str]) -> None:
    assert creating(_service(**spec)) == causes


def test_names_are_dns_labels() -> None:
    service = _service()
    service.metadata.name = "1s"
    assert creating(service) == []
    service.metadata.name = "s.s"
    assert creating(service) == ["metadata.name Invalid"]


def test_the_address_stays() -> None:
    def move(new: Any) -> None:
        new.spec.clusterIP = "10.96.0.8"
        new.spec.clusterIPs[0] = "10.96.0.8"

    assert "spec.clusterIPs[0] Invalid" in updating(_service(), move)
    assert updating(_service(), lambda new: new.spec.ports.add(name="b", port=81, protocol="TCP"))
    assert updating(_service(), lambda new: setattr(new.spec.ports[0], "port", 81)) == []


def _slice(kind: str = "IPv4", *addresses: str) -> Any:
    return build(
        "discovery.k8s.io/v1 EndpointSlice",
        {"metadata": {"name": "e"}, "addressType": kind, "endpoints": [{"addresses": list(addresses)}], "ports": []},
    )


@pytest.mark.parametrize(
    ("kind", "address", "causes"),
    [
        ("IPv4", "10.0.0.1", []),
        ("IPv6", "fd00::1", []),
        ("FQDN", "a.example.com", []),
        ("IPv4", "fd00::1", ["endpoints[0].addresses Invalid"]),
        ("IPv4", "010.0.0.1", ["endpoints[0].addresses[0] Invalid"]),
        ("IPv6", "::ffff:10.0.0.1", ["endpoints[0].addresses[0] Invalid"]),
        ("IPv4", "127.0.0.1", ["endpoints[0].addresses[0] Invalid"]),
        ("IPv4", "here", ["endpoints[0].addresses[0] Invalid"]),
        ("IPX", "1", ["addressType NotSupported"]),
    ],
)
def test_slices(kind: str, address: str, causes: list[str]) -> None:
    assert creating(_slice(kind, address)) == causes


def test_old_addresses_of_slices_may_stay() -> None:
    assert updating(_slice("IPv4", "010.0.0.1"), lambda new: new.metadata.labels.update({"a": "b"})) == []
    assert updating(_slice("IPv4", "10.0.0.1"), lambda new: setattr(new, "addressType", "IPv6"))
