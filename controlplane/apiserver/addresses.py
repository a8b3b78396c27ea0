"""Cluster addresses and node ports of services: handed out, checked, and given back.

Nothing routes to them yet, but manifests name them, and what is wrong about a given one must be said. An address is
taken by its IPAddress object, a node port by a key of ours; both are compared as absent and written in the transaction
that stores the service, so no two services get the same, over all apiservers. They go in the transaction that deletes
the service or changes its type. (A real kube-apiserver on the same etcd counts node ports in a bitmap, which its repair
loop makes anew from the services.) What services already use is read from the watch cache. One family only.
"""

from __future__ import annotations

import ipaddress
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from controlplane.apiserver.registry import names
from controlplane.apiserver.store import Compare, Put
from wharfinger.api import kinds, storage
from wharfinger.api.errors import FieldError
from wharfinger.api.types import networking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.apiserver.store import Cache
    from wharfinger.api.types import core

NONE = "None"
SERVICES = "/registry/services/specs/"
_ADDRESS = kinds.of(networking.IPAddress)
_random = random.SystemRandom()


class Changes(NamedTuple):
    """What is written along with a service."""

    compares: list[Compare]
    puts: list[Put]
    deletes: list[str]


def needs_address(service: core.Service) -> bool:
    """Whether a service has a cluster address of its own or says that it has none."""
    return service.spec.type != "ExternalName"


def needs_ports(service: core.Service) -> bool:
    """Whether a service has node ports."""
    spec = service.spec
    if spec.type == "LoadBalancer":
        return not spec.HasField("allocateLoadBalancerNodePorts") or spec.allocateLoadBalancerNodePorts
    return spec.type == "NodePort"


def _needs_health_port(service: core.Service) -> bool:
    return service.spec.type == "LoadBalancer" and service.spec.externalTrafficPolicy == "Local"


def _held_addresses(service: Any | None) -> set[str]:
    return {ip for ip in service.spec.clusterIPs if ip and ip != NONE} if service is not None else set()


def _held_ports(service: Any | None) -> set[int]:
    if service is None:
        return set()
    return {port.nodePort for port in service.spec.ports if port.nodePort} | (
        {service.spec.healthCheckNodePort} - {0} if service.spec.healthCheckNodePort else set()
    )


def _port_key(port: int) -> str:
    return f"/wharfinger/nodeports/{port}"


def released(service: Any) -> list[str]:
    """Return the keys that go with a deleted service."""
    keys = [_ADDRESS.etcd_key(ip) for ip in sorted(_held_addresses(service))]
    return keys + [_port_key(port) for port in sorted(_held_ports(service))]


class Addresses:
    """Hands out what services need.

    `cidr` is the range of cluster addresses, `ports` the first and last node port.
    """

    def __init__(self, cache: Cache, *, cidr: str = "10.96.0.0/16", ports: tuple[int, int] = (30000, 32767)) -> None:
        self._cache = cache
        self.network = ipaddress.ip_network(cidr)
        self.family = f"IPv{self.network.version}"
        self._ports = ports
        if self.network.num_addresses < 8:
            raise ValueError(f"--service-cluster-ip-range: {cidr}: must have at least 8 addresses")
        if not 0 < ports[0] <= ports[1] < 65536:
            raise ValueError(f"--service-node-port-range: {ports[0]}-{ports[1]}: must be two ports, the smaller first")

    # --- before validation ----------------------------------------------------------------------------------------

    def settle(self, new: core.Service, old: core.Service | None) -> None:
        """Keep what a replacement leaves out, and drop what its type has no use for any more."""
        if old is None:
            return
        spec, was = new.spec, old.spec
        if needs_address(old) and needs_address(new):
            if not spec.clusterIP:
                spec.clusterIP = was.clusterIP
            if not spec.clusterIPs and spec.clusterIP == was.clusterIP:
                spec.clusterIPs.extend(was.clusterIPs)
        elif needs_address(old) and spec.clusterIP in ("", was.clusterIP):
            spec.clusterIP = ""
            del spec.clusterIPs[:]
            if list(spec.ipFamilies) == list(was.ipFamilies):
                del spec.ipFamilies[:]
            if spec.ipFamilyPolicy == was.ipFamilyPolicy:
                spec.ClearField("ipFamilyPolicy")
        if needs_ports(old) and needs_ports(new):
            used = {port.nodePort for port in spec.ports if port.nodePort}
            before = {(port.protocol, port.port): port.nodePort for port in was.ports}
            for port in spec.ports:
                kept = before.get((port.protocol, port.port), 0)
                if not port.nodePort and kept not in used:
                    port.nodePort = kept
        elif needs_ports(old):
            held = {port.nodePort for port in was.ports}
            for port in spec.ports:
                if port.nodePort in held:
                    port.nodePort = 0
        if _needs_health_port(old):
            if not _needs_health_port(new) and spec.healthCheckNodePort == was.healthCheckNodePort:
                spec.healthCheckNodePort = 0
            elif not spec.healthCheckNodePort:
                spec.healthCheckNodePort = was.healthCheckNodePort

    # --- after validation -----------------------------------------------------------------------------------------

    def allocate(self, new: core.Service, old: core.Service | None) -> list[FieldError]:
        """Fill in families, addresses and ports; return what is wrong about those that are given."""
        errors: list[FieldError] = []
        if needs_address(new):
            self._families(new, errors)
            if not errors:
                self._address(new, old, errors)
        if not errors:
            self._node_ports(new, old, errors)
        return errors

    def _families(self, service: core.Service, errors: list[FieldError]) -> None:
        spec = service.spec
        headless = spec.clusterIP == NONE
        for index, family in enumerate(spec.ipFamilies):
            if family != self.family and not (headless and not spec.selector):
                detail = "not configured on this cluster"
                errors.append(FieldError.invalid(f"spec.ipFamilies[{index}]", family, detail))
        for index, ip in enumerate(spec.clusterIPs):
            if ip != NONE and f"IPv{ipaddress.ip_address(ip).version}" != self.family:
                detail = f"this cluster has {self.family} addresses only"
                errors.append(FieldError.invalid(f"spec.clusterIPs[{index}]", ip, detail))
        if spec.ipFamilyPolicy == "RequireDualStack" and not (headless and not spec.selector):
            detail = "this cluster is not configured for dual-stack services"
            errors.append(FieldError.invalid("spec.ipFamilyPolicy", spec.ipFamilyPolicy, detail))
        if errors:
            return
        if headless and not spec.selector:
            # Whoever makes the endpoints may use any family.
            if not spec.ipFamilyPolicy:
                spec.ipFamilyPolicy = "SingleStack" if len(spec.ipFamilies) == 1 else "RequireDualStack"
            if not spec.ipFamilies:
                spec.ipFamilies.append(self.family)
            if spec.ipFamilyPolicy != "SingleStack" and len(spec.ipFamilies) == 1:
                spec.ipFamilies.append("IPv6" if spec.ipFamilies[0] == "IPv4" else "IPv4")
            return
        if not spec.ipFamilyPolicy:
            spec.ipFamilyPolicy = "SingleStack"
        if not spec.ipFamilies:
            spec.ipFamilies.append(self.family)

    def _address(self, new: core.Service, old: core.Service | None, errors: list[FieldError]) -> None:
        spec = new.spec
        if spec.clusterIP == NONE:
            if not spec.clusterIPs:
                spec.clusterIPs.append(NONE)
            return
        mine = _held_addresses(old)
        used = self._used(lambda service: _held_addresses(service))
        if spec.clusterIP:
            why = ""
            if ipaddress.ip_address(spec.clusterIP) not in self.network:
                why = f"the provided IP is not in the valid range. The range of valid IPs is {self.network}"
            elif spec.clusterIP not in mine and spec.clusterIP in used:
                why = "provided IP is already allocated"
            if why:
                detail = f"failed to allocate IP {spec.clusterIP}: {why}"
                errors.append(FieldError.invalid("spec.clusterIPs", list(spec.clusterIPs), detail))
            return
        chosen = next((ip for ip in self._candidates() if ip not in used), None)
        if chosen is None:
            detail = f"failed to allocate a serviceIP: range {self.network} is full"
            errors.append(FieldError.invalid("spec.clusterIPs", list(spec.clusterIPs), detail))
            return
        spec.clusterIP = chosen
        del spec.clusterIPs[:]
        spec.clusterIPs.append(chosen)

    def _candidates(self) -> Iterator[str]:
        """Addresses to try: at random, those above the band that people choose from by hand first."""
        size = min(self.network.num_addresses, 1 << 20)
        band = min(max(16, size // 16), 256) if size > 64 else 1
        for _ in range(64):
            yield str(self.network[_random.randrange(band, size - 1)])
        for offset in (*range(band, size - 1), *range(1, band)):
            yield str(self.network[offset])

    def _node_ports(self, new: core.Service, old: core.Service | None, errors: list[FieldError]) -> None:
        wanted = needs_ports(new)
        if not wanted and not _needs_health_port(new):
            return
        mine = _held_ports(old)
        used = self._used(lambda service: _held_ports(service)) - mine
        taken = {port.nodePort for port in new.spec.ports if port.nodePort}
        for index, port in enumerate(new.spec.ports if wanted else ()):
            path = f"spec.ports[{index}].nodePort"
            if port.nodePort:
                self._check_port(port.nodePort, used, mine, path, errors)
            else:
                port.nodePort = self._free_port(used | taken | mine, path, errors)
                taken.add(port.nodePort)
        if _needs_health_port(new):
            path = "spec.healthCheckNodePort"
            if new.spec.healthCheckNodePort:
                self._check_port(new.spec.healthCheckNodePort, used, mine, path, errors)
            else:
                new.spec.healthCheckNodePort = self._free_port(used | taken | mine, path, errors)

    def _check_port(self, port: int, used: set[int], mine: set[int], path: str, errors: list[FieldError]) -> None:
        if port in mine:
            return
        first, last = self._ports
        if not first <= port <= last:
            detail = f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
            errors.append(FieldError.invalid(path, port, detail))
        elif port in used:
            errors.append(FieldError.invalid(path, port, "provided port is already allocated"))

    def _free_port(self, used: set[int], path: str, errors: list[FieldError]) -> int:
        first, last = self._ports
        free = [port for port in range(first, last + 1) if port not in used]
        if not free:
            errors.append(FieldError.invalid(path, 0, f"no port of {first}-{last} is free"))
            return 0
        return _random.choice(free)

    def _used(self, of: Any) -> Any:
        used: set[Any] = set()
        for entry in self._cache.list(SERVICES).entries:
            used |= of(entry.decoded)
        return used

    # --- the transaction ------------------------------------------------------------------------------------------

    def changes(self, new: core.Service, old: core.Service | None) -> Changes:
        """Return what is taken and given back when `new` replaces `old`."""
        compares: list[Compare] = []
        puts: list[Put] = []
        had, has = _held_addresses(old), _held_addresses(new)
        for ip in sorted(has - had):
            key = _ADDRESS.etcd_key(ip)
            compares.append(Compare(key, 0))
            puts.append(Put(key, self._address_object(ip, new)))
        deletes = [_ADDRESS.etcd_key(ip) for ip in sorted(had - has)]
        ports_had, ports_has = _held_ports(old), _held_ports(new)
        for port in sorted(ports_has - ports_had):
            compares.append(Compare(_port_key(port), 0))
            puts.append(Put(_port_key(port), new.metadata.uid.encode()))
        deletes += [_port_key(port) for port in sorted(ports_had - ports_has)]
        return Changes(compares, puts, deletes)

    def _address_object(self, ip: str, service: core.Service) -> bytes:
        made = networking.IPAddress()
        made.metadata.name = ip
        names.fill_system_fields(made.metadata)
        made.metadata.labels["ipaddress.kubernetes.io/ip-family"] = self.family
        made.metadata.labels["ipaddress.kubernetes.io/managed-by"] = "ipallocator.k8s.io"
        reference = made.spec.parentRef
        reference.resource = "services"
        reference.namespace, reference.name = service.metadata.namespace, service.metadata.name
        return storage.encode(made)
