"""What services and endpoints mean where they are silent."""

from __future__ import annotations

from wharfinger.api.types import core, discovery

AFFINITY_SECONDS = 10800


def apply_service(service: core.Service) -> None:
    """Fill in a service, as far as that needs no other object: addresses are handed out by the server."""
    spec = service.spec
    if not spec.sessionAffinity:
        spec.sessionAffinity = "None"
    if spec.sessionAffinity == "None":
        spec.ClearField("sessionAffinityConfig")
    elif spec.sessionAffinity == "ClientIP" and not spec.sessionAffinityConfig.clientIP.HasField("timeoutSeconds"):
        spec.sessionAffinityConfig.clientIP.timeoutSeconds = AFFINITY_SECONDS
    if not spec.type:
        spec.type = "ClusterIP"
    if spec.clusterIP and not spec.clusterIPs:
        spec.clusterIPs.append(spec.clusterIP)
    for port in spec.ports:
        if not port.protocol:
            port.protocol = "TCP"
        target = port.targetPort
        if (target.type == 0 and not target.intVal) or (target.type == 1 and not target.strVal):
            target.type, target.intVal = 0, port.port
            target.ClearField("strVal")
    reachable = spec.type in ("NodePort", "LoadBalancer") or (spec.type == "ClusterIP" and spec.externalIPs)
    if reachable and not spec.externalTrafficPolicy:
        spec.externalTrafficPolicy = "Cluster"
    if not spec.HasField("internalTrafficPolicy") and spec.type in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.internalTrafficPolicy = "Cluster"
    if spec.type == "LoadBalancer":
        if not spec.HasField("allocateLoadBalancerNodePorts"):
            spec.allocateLoadBalancerNodePorts = True
        for ingress in service.status.loadBalancer.ingress:
            if ingress.ip and not ingress.HasField("ipMode"):
                ingress.ipMode = "VIP"


def apply_endpoints(endpoints: core.Endpoints) -> None:
    """Fill in endpoints."""
    for subset in endpoints.subsets:
        for port in subset.ports:
            if not port.protocol:
                port.protocol = "TCP"


def apply_slice(piece: discovery.EndpointSlice) -> None:
    """Fill in an endpoint slice."""
    for port in piece.ports:
        if not port.HasField("name"):
            port.name = ""
        if not port.HasField("protocol"):
            port.protocol = "TCP"
