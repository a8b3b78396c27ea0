"""Ingresses, their classes, and network policies.

Rules: "Ingress" and "Network Policies" in Kubernetes' documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.api.types import core, networking
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import (
    PROTOCOLS,
    is_cidr,
    label_selector,
    one_of,
    parse_cidr,
    parse_ip,
    port_or_name,
)
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules, status_metadata

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
_MAX_CONTROLLER = 250


def _create(ingress: networking.Ingress, errors: Errors) -> None:
    _validate_ingress(ingress, errors)
    annotated = ingress.metadata.annotations.get(_CLASS_ANNOTATION)
    if annotated is not None and ingress.spec.HasField("ingressClassName"):
        errors.invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, "can not be set when the class field is also set")


def _validate_ingress(ingress: networking.Ingress, errors: Errors) -> None:
    metadata.validate_kind(ingress.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    spec = ingress.spec
    if not spec.rules and not spec.HasField("defaultBackend"):
        errors.invalid("spec", [], "either `defaultBackend` or `rules` must be specified")
    if spec.HasField("defaultBackend"):
        _validate_backend(spec.defaultBackend, errors, "spec.defaultBackend")
    for index, rule in enumerate(spec.rules):
        path = f"spec.rules[{index}]"
        if rule.host:
            if parse_ip(rule.host) is not None:
                errors.invalid(f"{path}.host", rule.host, "must be a DNS name, not an IP address")
            errors.complaints(f"{path}.host", rule.host, _host(rule.host))
        value = rule.ingressRuleValue
        if value.HasField("http"):
            _validate_paths(value.http.paths, errors, f"{path}.http.paths")
    for index, tls in enumerate(spec.tls):
        path = f"spec.tls[{index}]"
        for number, host in enumerate(tls.hosts):
            errors.complaints(f"{path}.hosts[{number}]", host, _host(host))
        if tls.secretName:
            errors.complaints(f"{path}.secretName", tls.secretName, names.dns1123_subdomain(tls.secretName))
    if spec.HasField("ingressClassName"):
        errors.complaints(
            "spec.ingressClassName", spec.ingressClassName, names.dns1123_subdomain(spec.ingressClassName)
        )


def _host(host: str) -> names.Complaints:
    return names.wildcard_dns1123_subdomain(host) if "*" in host else names.dns1123_subdomain(host)


def _validate_paths(paths: Sequence[networking.HTTPIngressPath], errors: Errors, path: str) -> None:
    if not paths:
        errors.required(path)
    for index, entry in enumerate(paths):
        at = f"{path}[{index}]"
        if not entry.HasField("pathType"):
            errors.required(f"{at}.pathType", "pathType must be specified")
            return
        kind, text = entry.pathType, entry.path
        if kind in ("Exact", "Prefix"):
            if not text.startswith("/"):
                errors.invalid(f"{at}.path", text, "must be an absolute path")
            for sequence in _BAD_SEQUENCES:
                if sequence in text:
                    errors.invalid(f"{at}.path", text, f"must not contain '{sequence}'")
            for end in _BAD_ENDS:
                if text.endswith(end):
                    errors.invalid(f"{at}.path", text, f"cannot end with '{end}'")
        elif kind == "ImplementationSpecific":
            if text and not text.startswith("/"):
                errors.invalid(f"{at}.path", text, "must be an absolute path")
        else:
            errors.not_supported(f"{at}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix"))
        _validate_backend(entry.backend, errors, f"{at}.backend")


def _validate_backend(backend: networking.IngressBackend, errors: Errors, path: str) -> None:
    has_resource, has_service = backend.HasField("resource"), backend.HasField("service")
    if has_resource and has_service:
        errors.invalid(path, "", "cannot set both resource and service backends")
    elif has_resource:
        _validate_reference(backend.resource, errors, f"{path}.resource")
    elif has_service:
        service = backend.service
        if not service.name:
            errors.required(f"{path}.service.name")
        else:
            errors.complaints(f"{path}.service.name", service.name, names.dns1123_label(service.name))
        port = service.port
        if port.name and port.number:
            errors.invalid(path, "", "cannot set both port name & port number")
        elif port.name:
            errors.complaints(f"{path}.service.port.name", port.name, names.port_name(port.name))
        elif port.number:
            errors.complaints(f"{path}.service.port.number", port.number, names.port_number(port.number))
        else:
            errors.required(path, "port name or number is required")
    else:
        errors.invalid(path, "", "resource or service backend is required")


def _validate_reference(
    reference: core.TypedLocalObjectReference | networking.IngressClassParametersReference, errors: Errors, path: str
) -> None:
    if reference.HasField("apiGroup"):
        errors.complaints(f"{path}.apiGroup", reference.apiGroup, names.dns1123_subdomain(reference.apiGroup))
    for field in ("kind", "name"):
        value = getattr(reference, field)
        if not value:
            errors.required(f"{path}.{field}")
        else:
            errors.complaints(f"{path}.{field}", value, names.path_segment(value))


def _update(ingress: networking.Ingress, old: networking.Ingress, errors: Errors) -> None:
    metadata.validate_kind_update(ingress.metadata, old.metadata, errors)
    _validate_ingress(ingress, errors)


def _create_class(cls: networking.IngressClass, errors: Errors) -> None:
    metadata.validate_kind(cls.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    _validate_class_spec(cls.spec, errors)


def _validate_class_spec(spec: networking.IngressClassSpec, errors: Errors) -> None:
    if len(spec.controller) > _MAX_CONTROLLER:
        errors.too_long("spec.controller", _MAX_CONTROLLER)
    errors.complaints("spec.controller", spec.controller, names.domain_prefixed_path(spec.controller))
    if not spec.HasField("parameters"):
        return
    parameters = spec.parameters
    _validate_reference(parameters, errors, "spec.parameters")
    if not parameters.HasField("scope"):
        errors.required("spec.parameters.scope")
        return
    one_of(errors, "spec.parameters.scope", parameters.scope, ("Cluster", "Namespace"))
    if parameters.scope == "Namespace":
        if not parameters.namespace:
            errors.required("spec.parameters.namespace", "must be set when scope is Namespace")
        else:
            errors.complaints(
                "spec.parameters.namespace", parameters.namespace, names.dns1123_label(parameters.namespace)
            )
    elif parameters.HasField("namespace"):
        errors.forbidden("spec.parameters.namespace", "must not be set when scope is Cluster")


def _update_class(cls: networking.IngressClass, old: networking.IngressClass, errors: Errors) -> None:
    metadata.validate_kind_update(cls.metadata, old.metadata, errors)
    metadata.immutable(errors, "spec.controller", cls.spec.controller, old.spec.controller)
    _create_class(cls, errors)


def _create_policy(policy: networking.NetworkPolicy, errors: Errors) -> None:
    metadata.validate_kind(policy.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    spec = policy.spec
    label_selector(spec.podSelector, errors, "spec.podSelector")
    for index, ingress in enumerate(spec.ingress):
        path = f"spec.ingress[{index}]"
        _validate_policy_ports(ingress.ports, errors, f"{path}.ports")
        _validate_peers(getattr(ingress, "from"), errors, f"{path}.from")
    for index, egress in enumerate(spec.egress):
        path = f"spec.egress[{index}]"
        _validate_policy_ports(egress.ports, errors, f"{path}.ports")
        _validate_peers(egress.to, errors, f"{path}.to")
    if len(spec.policyTypes) > 2:
        errors.invalid("spec.policyTypes", list(spec.policyTypes), "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(spec.policyTypes):
        one_of(errors, f"spec.policyTypes[{index}]", kind, ("Egress", "Ingress"))


def _validate_policy_ports(ports: Sequence[networking.NetworkPolicyPort], errors: Errors, path: str) -> None:
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if port.HasField("protocol"):
            one_of(errors, f"{at}.protocol", port.protocol, PROTOCOLS)
        if port.HasField("port"):
            port_or_name(port.port, errors, f"{at}.port")
            if port.HasField("endPort"):
                if port.port.type == 1:
                    errors.invalid(f"{at}.endPort", port.endPort, "may not be specified when `port` is non-numeric")
                else:
                    if port.endPort < port.port.intVal:
                        errors.invalid(f"{at}.endPort", port.endPort, "must be greater than or equal to `port`")
                    errors.complaints(f"{at}.endPort", port.endPort, names.port_number(port.endPort))
        elif port.HasField("endPort"):
            errors.invalid(f"{at}.endPort", port.endPort, "may not be specified when `port` is not specified")


def _validate_peers(peers: Sequence[networking.NetworkPolicyPeer], errors: Errors, path: str) -> None:
    for index, peer in enumerate(peers):
        at = f"{path}[{index}]"
        count = 0
        for field in ("podSelector", "namespaceSelector"):
            if peer.HasField(field):
                count += 1
                label_selector(getattr(peer, field), errors, f"{at}.{field}")
        if peer.HasField("ipBlock"):
            if count:
                errors.forbidden(at, "may not specify both ipBlock and another peer")
            _validate_block(peer.ipBlock, errors, f"{at}.ipBlock")
        elif not count:
            errors.required(at, "must specify a peer")


def _validate_block(block: networking.IPBlock, errors: Errors, path: str) -> None:
    if not block.cidr:
        errors.required(f"{path}.cidr")
        return
    is_cidr(errors, f"{path}.cidr", block.cidr)
    whole = parse_cidr(block.cidr)
    for index, text in enumerate(getattr(block, "except")):
        at = f"{path}.except[{index}]"
        is_cidr(errors, at, text)
        part = parse_cidr(text)
        if whole is None or part is None:
            continue
        inside = part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen
        if not inside:
            errors.invalid(at, text, f"must be a strict subset of `{block.cidr}`")


def _update_policy(policy: networking.NetworkPolicy, old: networking.NetworkPolicy, errors: Errors) -> None:
    metadata.validate_kind_update(policy.metadata, old.metadata, errors)
    _create_policy(policy, errors)


def _create_address(address: networking.IPAddress, errors: Errors) -> None:
    metadata.validate(address.metadata, errors, namespaced=False, name=_address_name)
    if not address.spec.HasField("parentRef"):
        errors.required("spec.parentRef")
        return
    parent = address.spec.parentRef
    if parent.group:
        errors.complaints("spec.parentRef.group", parent.group, names.dns1123_subdomain(parent.group))
    for field in ("resource", "name"):
        value = getattr(parent, field)
        if not value:
            errors.required(f"spec.parentRef.{field}")
        else:
            errors.complaints(f"spec.parentRef.{field}", value, names.path_segment(value))
    if parent.namespace:
        errors.complaints("spec.parentRef.namespace", parent.namespace, names.path_segment(parent.namespace))


def _address_name(name: str) -> names.Complaints:
    parsed = parse_ip(name)
    return () if parsed is not None and str(parsed) == name else ("must be an IP address in its canonical form",)


def _update_address(address: networking.IPAddress, old: networking.IPAddress, errors: Errors) -> None:
    metadata.validate_update(address.metadata, old.metadata, errors)
    if not semantic_equal(address.spec, old.spec):
        errors.invalid("spec.parentRef", "changed", metadata.IMMUTABLE)


def _create_range(found: networking.ServiceCIDR, errors: Errors) -> None:
    metadata.validate(found.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    networks = found.spec.cidrs
    if not networks:
        errors.required("spec.cidrs", "at least one CIDR required")
        return
    if len(networks) > 2:
        errors.invalid("spec.cidrs", list(networks), "may only hold up to 2 values")
    families = [parsed.version for parsed in map(parse_cidr, networks) if parsed is not None]
    if len(networks) == 2 and len(families) == 2 and families[0] == families[1]:
        errors.invalid("spec.cidrs", list(networks), "may specify no more than one IP for each IP family")
    for index, network in enumerate(networks):
        is_cidr(errors, f"spec.cidrs[{index}]", network)


def _update_range(found: networking.ServiceCIDR, old: networking.ServiceCIDR, errors: Errors) -> None:
    metadata.validate_update(found.metadata, old.metadata, errors)
    before = list(old.spec.cidrs)
    if before and list(found.spec.cidrs[: len(before)]) != before:
        errors.invalid("spec.cidrs", list(found.spec.cidrs), metadata.IMMUTABLE)
        return
    _create_range(found, errors)


RULES = {
    networking.ServiceCIDR: Rules(create=_create_range, update=_update_range, subresources={"status": status_metadata}),
    networking.Ingress: Rules(create=_create, update=_update, subresources={"status": status_metadata}),
    networking.IngressClass: Rules(create=_create_class, update=_update_class),
    networking.NetworkPolicy: Rules(create=_create_policy, update=_update_policy),
    networking.IPAddress: Rules(create=_create_address, update=_update_address),
}
