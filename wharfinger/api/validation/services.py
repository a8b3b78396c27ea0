"""Services. Rules: the API reference of ``Service``, and "IPv4/IPv6 dual-stack" in Kubernetes' documentation."""

from __future__ import annotations

from wharfinger.api.types import core
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import (
    PROTOCOLS,
    is_cidr,
    is_dual_stack,
    is_ip,
    non_special_ip,
    one_of,
    parse_ip,
    port_or_name,
)
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
MAX_AFFINITY_SECONDS = 86400
_POLICIES = ("Cluster", "Local")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_FOR_BALANCERS = "may only be used when `type` is 'LoadBalancer'"


def is_headless(service: core.Service) -> bool:
    """Whether a service has no address of its own."""
    return list(service.spec.clusterIPs) == ["None"]


def is_externally_accessible(service: core.Service) -> bool:
    """Whether a service can be reached from outside of the cluster."""
    spec = service.spec
    return spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and len(spec.externalIPs) > 0)


def needs_health_check(service: core.Service) -> bool:
    """Whether a balancer asks each node if it has endpoints."""
    return service.spec.type == "LoadBalancer" and service.spec.externalTrafficPolicy == "Local"


def _create(service: core.Service, errors: Errors) -> None:
    metadata.validate_kind(service.metadata, errors, namespaced=True, name=names.dns1123_label)
    marks = service.metadata.annotations
    if _HINTS in marks and _MODE in marks and marks[_HINTS] != marks[_MODE]:
        errors.invalid(f"metadata.annotations[{_MODE}]", marks[_MODE], f"must match annotations[{_HINTS}]")
    spec = service.spec
    if not spec.ports and not is_headless(service) and spec.type != "ExternalName":
        errors.required("spec.ports")
    if spec.type in ("LoadBalancer", "NodePort"):
        if is_headless(service):
            errors.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {spec.type} services")
    elif spec.type == "ExternalName":
        _validate_external_name(spec, errors)
    _validate_ports(spec, errors)
    metadata.validate_labels(spec.selector, errors, "spec.selector")
    _validate_affinity(spec, errors)
    _validate_cluster_ips(service, errors)
    for index, address in enumerate(spec.externalIPs):
        if is_ip(errors, f"spec.externalIPs[{index}]", address):
            non_special_ip(address, errors, f"spec.externalIPs[{index}]")
    one_of(errors, "spec.type", spec.type, TYPES, required=True)
    _validate_port_numbers(spec, errors)
    _validate_source_ranges(service, errors)
    if spec.HasField("allocateLoadBalancerNodePorts"):
        if spec.type != "LoadBalancer":
            errors.forbidden("spec.allocateLoadBalancerNodePorts", _FOR_BALANCERS)
    elif spec.type == "LoadBalancer":
        errors.required("allocateLoadBalancerNodePorts")
    _validate_class(spec, errors)
    _validate_traffic(service, errors)


def _validate_external_name(spec: core.ServiceSpec, errors: Errors) -> None:
    why = "may not be set for ExternalName services"
    if spec.clusterIPs:
        errors.forbidden("spec.clusterIPs", why)
    if spec.ipFamilies:
        errors.forbidden("spec.ipFamilies", why)
    if spec.HasField("ipFamilyPolicy"):
        errors.forbidden("spec.ipFamilyPolicy", why)
    name = spec.externalName.removesuffix(".")
    if not name:
        errors.required("spec.externalName")
    else:
        errors.complaints("spec.externalName", name, names.dns1123_subdomain(name))


def _validate_ports(spec: core.ServiceSpec, errors: Errors) -> None:
    seen: set[str] = set()
    for index, port in enumerate(spec.ports):
        path = f"spec.ports[{index}]"
        if port.name:
            errors.complaints(f"{path}.name", port.name, names.dns1123_label(port.name))
            if port.name in seen:
                errors.duplicate(f"{path}.name", port.name)
            seen.add(port.name)
        elif len(spec.ports) > 1:
            errors.required(f"{path}.name")
        errors.complaints(f"{path}.port", port.port, names.port_number(port.port))
        one_of(errors, f"{path}.protocol", port.protocol, PROTOCOLS, required=True)
        port_or_name(port.targetPort, errors, f"{path}.targetPort")
        if port.HasField("appProtocol"):
            errors.complaints(f"{path}.appProtocol", port.appProtocol, names.qualified_name(port.appProtocol))


def _validate_affinity(spec: core.ServiceSpec, errors: Errors) -> None:
    one_of(errors, "spec.sessionAffinity", spec.sessionAffinity, ("ClientIP", "None"), required=True)
    path = "spec.sessionAffinityConfig"
    if spec.sessionAffinity == "None":
        if spec.HasField("sessionAffinityConfig"):
            errors.forbidden(path, "must not be set when session affinity is None")
    elif spec.sessionAffinity == "ClientIP":
        config = spec.sessionAffinityConfig
        why = "when session affinity type is ClientIP"
        if not spec.HasField("sessionAffinityConfig"):
            errors.required(path, why)
        elif not config.HasField("clientIP"):
            errors.required(f"{path}.clientIP", why)
        elif not config.clientIP.HasField("timeoutSeconds"):
            errors.required(f"{path}.clientIP.timeoutSeconds", why)
        elif not 0 < config.clientIP.timeoutSeconds <= MAX_AFFINITY_SECONDS:
            errors.invalid(
                f"{path}.clientIP.timeoutSeconds",
                config.clientIP.timeoutSeconds,
                f"must be greater than 0 and at most {MAX_AFFINITY_SECONDS}",
            )


def _validate_cluster_ips(service: core.Service, errors: Errors) -> None:
    spec = service.spec
    if spec.type == "ExternalName":
        return
    addresses = list(spec.clusterIPs)
    path = "spec.clusterIPs"
    if spec.clusterIP:
        if not addresses:
            errors.required(path)
        elif addresses[0] != spec.clusterIP:
            errors.invalid(path, addresses, "first value must match `clusterIP`")
    elif addresses:
        errors.invalid(path, addresses, "must be empty when `clusterIP` is not specified")
    families = list(spec.ipFamilies)
    for index, family in enumerate(families):
        one_of(errors, f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            errors.duplicate(f"spec.ipFamilies[{index}]", family)
    if spec.HasField("ipFamilyPolicy"):
        one_of(errors, "spec.ipFamilyPolicy", spec.ipFamilyPolicy, _FAMILY_POLICIES)
    wrong = False
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                wrong = True
                errors.invalid(path, addresses, "'None' must be the first and only value")
            continue
        wrong = not is_ip(errors, f"{path}[{index}]", address) or wrong
    if len(addresses) > 2:
        errors.invalid(path, addresses, "may only hold up to 2 values")
    if wrong:
        return
    if len(addresses) > 1 and not is_dual_stack(addresses):
        errors.invalid(path, addresses, "may specify no more than one IP for each IP family")
    if addresses and not is_headless(service):
        for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
            parsed = parse_ip(address)
            if family in _FAMILIES and parsed is not None and f"IPv{parsed.version}" != family:
                errors.invalid(
                    f"{path}[{index}]", address, f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                )


def _validate_port_numbers(spec: core.ServiceSpec, errors: Errors) -> None:
    if spec.type == "ClusterIP":
        for index, port in enumerate(spec.ports):
            if port.nodePort:
                errors.forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    taken: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        if port.nodePort:
            if (port.protocol, port.nodePort) in taken:
                errors.duplicate(f"spec.ports[{index}].nodePort", port.nodePort)
            taken.add((port.protocol, port.nodePort))
    taken.clear()
    for index, port in enumerate(spec.ports):
        if (port.protocol, port.port) in taken:
            errors.duplicate(f"spec.ports[{index}]", f"{port.protocol}/{port.port}")
        taken.add((port.protocol, port.port))


def _validate_source_ranges(service: core.Service, errors: Errors) -> None:
    spec = service.spec
    annotated = service.metadata.annotations.get(_RANGES)
    if spec.loadBalancerSourceRanges:
        path = "spec.LoadBalancerSourceRanges"
        if spec.type != "LoadBalancer":
            errors.forbidden(path, _FOR_BALANCERS)
        for index, cidr in enumerate(spec.loadBalancerSourceRanges):
            is_cidr(errors, f"{path}[{index}]", cidr.strip())
    elif annotated is not None:
        path = f"metadata.annotations[{_RANGES}]"
        if spec.type != "LoadBalancer":
            errors.forbidden(path, _FOR_BALANCERS)
        if annotated.strip():
            for cidr in annotated.split(","):
                is_cidr(errors, path, cidr.strip())


def _validate_class(spec: core.ServiceSpec, errors: Errors) -> None:
    if not spec.HasField("loadBalancerClass"):
        return
    if spec.type == "LoadBalancer":
        errors.complaints(
            "spec.loadBalancerClass", spec.loadBalancerClass, names.qualified_name(spec.loadBalancerClass)
        )
    else:
        errors.forbidden("spec.loadBalancerClass", _FOR_BALANCERS)


def _validate_traffic(service: core.Service, errors: Errors) -> None:
    spec = service.spec
    policy = spec.externalTrafficPolicy
    if is_externally_accessible(service):
        one_of(errors, "spec.externalTrafficPolicy", policy, _POLICIES, required=True)
    elif policy:
        errors.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    port = spec.healthCheckNodePort
    if not needs_health_check(service):
        if port:
            errors.invalid(
                "spec.healthCheckNodePort",
                port,
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            )
    elif port:
        errors.complaints("spec.healthCheckNodePort", port, names.port_number(port))
    # Zero is filled in by the server when it hands out node ports.
    if spec.HasField("internalTrafficPolicy"):
        one_of(errors, "spec.internalTrafficPolicy", spec.internalTrafficPolicy, _POLICIES)
    elif spec.type in ("ClusterIP", "NodePort", "LoadBalancer"):
        errors.required("spec.internalTrafficPolicy")
    if spec.HasField("trafficDistribution"):
        one_of(errors, "spec.trafficDistribution", spec.trafficDistribution, _DISTRIBUTIONS)


def _update(service: core.Service, old: core.Service, errors: Errors) -> None:
    metadata.validate_kind_update(service.metadata, old.metadata, errors)
    if "ExternalName" not in (service.spec.type, old.spec.type):
        _validate_address_changes(service, old, errors)
        _validate_family_changes(service, old, errors)
    spec, was = service.spec, old.spec
    if spec.type == was.type == "LoadBalancer" and (
        spec.HasField("loadBalancerClass") != was.HasField("loadBalancerClass")
        or spec.loadBalancerClass != was.loadBalancerClass
    ):
        errors.invalid("spec.loadBalancerClass", spec.loadBalancerClass, "may not change once set")
    _validate_class(spec, errors)
    if (
        needs_health_check(service)
        and needs_health_check(old)
        and (spec.healthCheckNodePort != was.healthCheckNodePort)
    ):
        errors.forbidden("spec.healthCheckNodePort", "field is immutable")
    _create(service, errors)


def _validate_address_changes(service: core.Service, old: core.Service, errors: Errors) -> None:
    if is_headless(service) and is_headless(old):
        return
    now, before = list(service.spec.clusterIPs), list(old.spec.clusterIPs)
    if len(now) == len(before):
        for index, (one, other) in enumerate(zip(now, before, strict=True)):
            if one != other:
                errors.invalid(f"spec.clusterIPs[{index}]", now, "may not change once set")
        return
    if len(now) < len(before) and not now:
        errors.invalid("spec.clusterIPs[0]", now, "primary clusterIP can not be unset")
    if now and before and now[0] != before[0]:
        errors.invalid("spec.clusterIPs[0]", now, "may not change once set")
    if len(now) < len(before) and len(now) == 1 and service.spec.ipFamilyPolicy != "SingleStack":
        errors.invalid(
            "spec.ipFamilyPolicy",
            service.spec.ipFamilyPolicy,
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        )


def _validate_family_changes(service: core.Service, old: core.Service, errors: Errors) -> None:
    if is_headless(service) or is_headless(old):
        return
    now, before = list(service.spec.ipFamilies), list(old.spec.ipFamilies)
    path = "spec.ipFamilies[0]"
    if len(now) == len(before):
        for one, other in zip(now, before, strict=True):
            if one != other:
                errors.invalid(path, now, "may not change once set")
        return
    if len(now) < len(before) and not service.spec.clusterIPs:
        errors.invalid(path, now, "primary ipFamily can not be unset")
    if now and before and now[0] != before[0]:
        errors.invalid(path, now, "may not change once set")
    if len(now) < len(before) and len(now) == 1 and service.spec.ipFamilyPolicy != "SingleStack":
        errors.invalid(
            "spec.ipFamilyPolicy",
            service.spec.ipFamilyPolicy,
            "must be set to 'SingleStack' when releasing the secondary ipFamily",
        )


def _update_status(service: core.Service, old: core.Service, errors: Errors) -> None:
    metadata.validate_kind_update(service.metadata, old.metadata, errors)
    path = "status.loadBalancer.ingress"
    ingresses = service.status.loadBalancer.ingress
    if ingresses and service.spec.type != "LoadBalancer":
        errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, ingress in enumerate(ingresses):
        at = f"{path}[{index}]"
        if ingress.ip:
            is_ip(errors, f"{at}.ip", ingress.ip)
        if not ingress.HasField("ipMode"):
            if ingress.ip:
                errors.required(f"{at}.ipMode", "must be specified when `ip` is set")
        elif not ingress.ip:
            errors.forbidden(f"{at}.ipMode", "may not be specified when `ip` is not set")
        else:
            one_of(errors, f"{at}.ipMode", ingress.ipMode, ("Proxy", "VIP"))
        if ingress.hostname:
            errors.complaints(f"{at}.hostname", ingress.hostname, names.dns1123_subdomain(ingress.hostname))
            if parse_ip(ingress.hostname) is not None:
                errors.invalid(f"{at}.hostname", ingress.hostname, "must be a DNS name, not an IP address")


RULES = {core.Service: Rules(create=_create, update=_update, subresources={"status": _update_status})}
