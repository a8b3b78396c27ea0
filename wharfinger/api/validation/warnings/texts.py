"""What several kinds of objects are warned about: addresses in odd notations, labels and amounts of older days."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from wharfinger.api import quantity
from wharfinger.api.types import core
from wharfinger.api.types import quantity as messages
from wharfinger.api.validation import names
from wharfinger.api.validation.common import is_plain_ip, parse_cidr, parse_ip

_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
}
_WHOLE_BYTES = ("memory", "ephemeral-storage")
_UNIT = 1_000_000_000
"""Quantities count in billionths."""


def node_label(key: str, path: str) -> list[str]:
    """Return a warning when a label of nodes has a newer name."""
    return [f"{path}: {_NODE_LABELS[key]}"] if key in _NODE_LABELS else []


def node_labels(labels: Iterable[str], path: str) -> list[str]:
    """Return warnings for those labels of nodes in a map that have newer names."""
    return [warning for key in labels for warning in node_label(key, f"{path}[{key}]")]


def node_terms(terms: Iterable[tuple[str, core.NodeSelectorTerm]]) -> list[str]:
    """Return warnings for the labels that terms, each with its path, look at."""
    found = []
    for path, term in terms:
        for index, requirement in enumerate(term.matchExpressions):
            found += node_label(requirement.key, f"{path}.matchExpressions[{index}].key")
    return found


def amounts(resources: Mapping[str, messages.Quantity], path: str, of: Iterable[str] = _WHOLE_BYTES) -> list[str]:
    """Return warnings for bytes that are no whole bytes, such as ``memory: 100m``."""
    found = []
    for name in of:
        if name not in resources:
            continue
        text = resources[name].string
        try:
            whole = not text or quantity.parse(text).nanos % _UNIT == 0
        except ValueError:
            whole = True
        if not whole:
            found.append(f'{path}[{name}]: fractional byte value "{text}" is invalid, must be an integer')
    return found


def address(text: str, path: str) -> list[str]:
    """Return a warning when an address is not in its canonical form."""
    parsed = parse_ip(text) if text else None
    if parsed is None:
        return []
    if not is_plain_ip(text):
        plain = getattr(parsed, "ipv4_mapped", None) or parsed
        return [f'{path}: "{text}" will be invalid in a future version of Kubernetes; use "{plain}"']
    if parsed.version == 6 and str(parsed) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{parsed}")']
    return []


def network(text: str, path: str) -> list[str]:
    """Return a warning when a network is not in its canonical form or names a host."""
    parsed = parse_cidr(text) if text else None
    if parsed is None:
        return []
    start, _, bits = text.partition("/")
    host = parse_ip(start)
    if not is_plain_ip(start) or (len(bits) > 1 and bits.startswith("0")):
        return [f'{path}: "{text}" will be invalid in a future version of Kubernetes; use "{parsed}"']
    if host != parsed.network_address:
        return [f'{path}: CIDR value "{text}" is ambiguous in this context; use "{parsed}" or "{host}/{_all(host)}"']
    if parsed.version == 6 and str(parsed) != text:
        return [f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{parsed}")']
    return []


def _all(host: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> int:
    return 32 if host is not None and host.version == 4 else 128


def host_name(name: str) -> list[str]:
    """Return a warning when pods of that name get an odd host name."""
    complaints = names.dns1123_label(name)
    if not complaints:
        return []
    return [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: {', '.join(complaints)}"
    ]
