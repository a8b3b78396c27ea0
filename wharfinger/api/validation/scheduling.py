"""What decides where pods run: node selectors, affinities, tolerations, taints, topology spread.

Rules: "Assigning Pods to Nodes", "Taints and Tolerations" and "Pod Topology Spread Constraints" in Kubernetes'
documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wharfinger.api.types import core, meta
from wharfinger.api.validation import names
from wharfinger.api.validation.common import NOT_POSITIVE, label_selector, one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.metadata import validate_label_name

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS = ("Equal", "Exists")


def validate_affinity(affinity: core.Affinity, errors: Errors, path: str) -> None:
    """Judge the affinities of a pod."""
    if affinity.HasField("nodeAffinity"):
        node = affinity.nodeAffinity
        at = f"{path}.nodeAffinity"
        if node.HasField("requiredDuringSchedulingIgnoredDuringExecution"):
            validate_node_selector(
                node.requiredDuringSchedulingIgnoredDuringExecution,
                errors,
                f"{at}.requiredDuringSchedulingIgnoredDuringExecution",
            )
        for index, term in enumerate(node.preferredDuringSchedulingIgnoredDuringExecution):
            preferred = f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            _validate_weight(term.weight, errors, preferred)
            # Wrong values are let pass here, as ever: a preference nobody meets does no harm.
            _validate_node_term(term.preference, errors, f"{preferred}.preference", check_values=False)
    if affinity.HasField("podAffinity"):
        _validate_pod_affinity(affinity.podAffinity, errors, f"{path}.podAffinity")
    if affinity.HasField("podAntiAffinity"):
        _validate_pod_affinity(affinity.podAntiAffinity, errors, f"{path}.podAntiAffinity")


def _validate_weight(weight: int, errors: Errors, path: str) -> None:
    if not 1 <= weight <= 100:
        errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def validate_node_selector(selector: core.NodeSelector, errors: Errors, path: str) -> None:
    """Judge a required choice of nodes."""
    terms = selector.nodeSelectorTerms
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        _validate_node_term(term, errors, f"{path}.nodeSelectorTerms[{index}]", check_values=True)


def _validate_node_term(term: core.NodeSelectorTerm, errors: Errors, path: str, *, check_values: bool) -> None:
    for index, requirement in enumerate(term.matchExpressions):
        _validate_node_expression(requirement, errors, f"{path}.matchExpressions[{index}]", check_values=check_values)
    for index, requirement in enumerate(term.matchFields):
        _validate_node_field(requirement, errors, f"{path}.matchFields[{index}]")


def _validate_node_expression(
    requirement: core.NodeSelectorRequirement, errors: Errors, path: str, *, check_values: bool
) -> None:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.required(f"{path}.values", "must be a single value when `operator` is 'Lt' or 'Gt'")
    else:
        errors.invalid(f"{path}.operator", operator, "must be In, NotIn, Exists, DoesNotExist, Gt or Lt")
    validate_label_name(requirement.key, errors, f"{path}.key")
    if check_values:
        for index, value in enumerate(values):
            errors.complaints(f"{path}.values[{index}]", value, names.label_value(value))


def _validate_node_field(requirement: core.NodeSelectorRequirement, errors: Errors, path: str) -> None:
    if requirement.operator not in ("In", "NotIn"):
        errors.invalid(f"{path}.operator", requirement.operator, "must be In or NotIn")
    elif len(requirement.values) != 1:
        errors.required(f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for a field")
    if requirement.key != "metadata.name":
        errors.invalid(f"{path}.key", requirement.key, "must be metadata.name")
        return
    for index, value in enumerate(requirement.values):
        errors.complaints(f"{path}.values[{index}]", value, names.dns1123_subdomain(value))


def _validate_pod_affinity(affinity: core.PodAffinity | core.PodAntiAffinity, errors: Errors, path: str) -> None:
    for index, term in enumerate(affinity.requiredDuringSchedulingIgnoredDuringExecution):
        _validate_pod_term(term, errors, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
    for index, weighted in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _validate_weight(weighted.weight, errors, at)
        _validate_pod_term(weighted.podAffinityTerm, errors, f"{at}.podAffinityTerm")


def _validate_pod_term(term: core.PodAffinityTerm, errors: Errors, path: str) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        if term.HasField(field):
            label_selector(getattr(term, field), errors, f"{path}.{field}")
    for namespace in term.namespaces:
        errors.complaints(f"{path}.namespace", namespace, names.dns1123_label(namespace))
    selector = term.labelSelector if term.HasField("labelSelector") else None
    _validate_label_keys(term.matchLabelKeys, selector, errors, f"{path}.matchLabelKeys")
    _validate_label_keys(term.mismatchLabelKeys, selector, errors, f"{path}.mismatchLabelKeys")
    if selector is not None and term.matchLabelKeys:
        positions = {key: index for index, key in enumerate(term.matchLabelKeys)}
        known = set(selector.matchLabels)
        for expression in selector.matchExpressions:
            if expression.key in positions and expression.key in known:
                errors.invalid(
                    f"{path}[{positions[expression.key]}]",
                    expression.key,
                    "exists in both matchLabelKeys and labelSelector",
                )
            known.add(expression.key)
    for index, key in enumerate(term.matchLabelKeys):
        if key in term.mismatchLabelKeys:
            errors.invalid(
                f"{path}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys"
            )
    if not term.topologyKey:
        errors.required(f"{path}.topologyKey", "can not be empty")
    validate_label_name(term.topologyKey, errors, f"{path}.topologyKey")


def _validate_label_keys(keys: Sequence[str], selector: meta.LabelSelector | None, errors: Errors, path: str) -> None:
    if keys and selector is None:
        errors.forbidden(path, "must not be specified when labelSelector is not set")
        return
    for index, key in enumerate(keys):
        validate_label_name(key, errors, f"{path}[{index}]")


def validate_tolerations(tolerations: Iterable[core.Toleration], errors: Errors, path: str) -> None:
    """Judge tolerations."""
    for index, toleration in enumerate(tolerations):
        key, operator, effect = toleration.key, toleration.operator, toleration.effect
        if key:
            complaints = names.qualified_name(key)
            if complaints:
                errors.complaints(f"{path}[{index}].key", key, complaints)
        elif operator != "Exists":
            errors.invalid(
                f"{path}[{index}].operator", operator, "must be Exists when `key` is empty, which means all keys"
            )
        if effect != "NoExecute" and toleration.HasField("tolerationSeconds"):
            errors.invalid(f"{path}[{index}].effect", effect, "must be 'NoExecute' when `tolerationSeconds` is set")
        value = toleration.value
        if operator == "Exists":
            if value:
                errors.invalid(f"{path}[{index}].operator", value, "value must be empty when `operator` is 'Exists'")
        elif operator in ("", "Equal"):
            complaints = names.label_value(value)
            if complaints:
                errors.invalid(f"{path}[{index}].operator", value, "; ".join(complaints))
        else:
            errors.not_supported(f"{path}[{index}].operator", operator, TOLERATION_OPERATORS)
        if effect and effect not in TAINT_EFFECTS:
            errors.not_supported(f"{path}[{index}].effect", effect, TAINT_EFFECTS)


def validate_taints(taints: Iterable[core.Taint], errors: Errors, path: str) -> None:
    """Judge the taints of a node."""
    seen = set()
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        validate_label_name(taint.key, errors, f"{at}.key")
        complaints = names.label_value(taint.value)
        if complaints:
            errors.invalid(f"{at}.value", taint.value, "; ".join(complaints))
        one_of(errors, f"{at}.effect", taint.effect, TAINT_EFFECTS, required=True)
        if (taint.key, taint.effect) in seen:
            errors.duplicate(at, f"{taint.key}:{taint.effect}")
        seen.add((taint.key, taint.effect))


def validate_topology_spread(constraints: Sequence[core.TopologySpreadConstraint], errors: Errors, path: str) -> None:
    """Judge how a pod wants to be spread over failure domains."""
    last = {(other.topologyKey, other.whenUnsatisfiable): index for index, other in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        if constraint.maxSkew <= 0:
            errors.invalid(f"{at}.maxSkew", constraint.maxSkew, NOT_POSITIVE)
        if not constraint.topologyKey:
            errors.required(f"{at}.topologyKey", "can not be empty")
        action = constraint.whenUnsatisfiable
        one_of(errors, f"{at}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        if last[constraint.topologyKey, action] > index:
            errors.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{constraint.topologyKey}, {action}}}")
        if constraint.HasField("minDomains"):
            if constraint.minDomains <= 0:
                errors.invalid(f"{at}.minDomains", constraint.minDomains, NOT_POSITIVE)
            if action != "DoNotSchedule":
                errors.invalid(f"{at}.minDomains", constraint.minDomains, "needs whenUnsatisfiable=DoNotSchedule")
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.HasField(field):
                one_of(errors, f"{at}.{field}", getattr(constraint, field), ("Honor", "Ignore"))
        _validate_spread_keys(constraint, errors, f"{at}.matchLabelKeys")
        if constraint.HasField("labelSelector"):
            label_selector(constraint.labelSelector, errors, f"{at}.labelSelector")


def _validate_spread_keys(constraint: core.TopologySpreadConstraint, errors: Errors, path: str) -> None:
    if not constraint.matchLabelKeys:
        return
    known: set[str] = set()
    if constraint.HasField("labelSelector"):
        known.update(constraint.labelSelector.matchLabels)
        known.update(expression.key for expression in constraint.labelSelector.matchExpressions)
    else:
        errors.forbidden(path, "must not be specified when labelSelector is not set")
    for index, key in enumerate(constraint.matchLabelKeys):
        validate_label_name(key, errors, f"{path}[{index}]")
        if key in known:
            errors.invalid(f"{path}[{index}]", key, "exists in both matchLabelKeys and labelSelector")
