"""What the kinds of the smaller groups mean where they are silent: roles, policies, autoscalers, extensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.api.types import (
    admissionregistration,
    apiextensions,
    apiregistration,
    autoscaling,
    autoscaling_v1,
    flowcontrol,
    networking,
    rbac,
)

_RBAC = "rbac.authorization.k8s.io"
_HTTPS = 443


def apply_binding(binding: rbac.RoleBinding | rbac.ClusterRoleBinding) -> None:
    """Fill in a role binding."""
    if not binding.roleRef.apiGroup:
        binding.roleRef.apiGroup = _RBAC
    for subject in binding.subjects:
        if not subject.apiGroup and subject.kind in ("User", "Group"):
            subject.apiGroup = _RBAC


def apply_network_policy(policy: networking.NetworkPolicy) -> None:
    """Fill in a network policy."""
    spec = policy.spec
    ports = [port for rule in spec.ingress for port in rule.ports]
    ports += [port for rule in spec.egress for port in rule.ports]
    for port in ports:
        if not port.HasField("protocol"):
            port.protocol = "TCP"
    if not spec.policyTypes:
        spec.policyTypes.append("Ingress")
        if spec.egress:
            spec.policyTypes.append("Egress")


def apply_ingress_class(cls: networking.IngressClass) -> None:
    """Fill in an ingress class."""
    if cls.spec.HasField("parameters") and not cls.spec.parameters.HasField("scope"):
        cls.spec.parameters.scope = "Cluster"


def apply_autoscaler(scaler: autoscaling.HorizontalPodAutoscaler) -> None:
    """Fill in an autoscaler: by default it keeps processors 80 % busy."""
    spec = scaler.spec
    if not spec.HasField("minReplicas"):
        spec.minReplicas = 1
    if not spec.metrics:
        metric = spec.metrics.add(type="Resource")
        metric.resource.name = "cpu"
        metric.resource.target.type = "Utilization"
        metric.resource.target.averageUtilization = 80
    if not spec.HasField("behavior"):
        return
    behavior = spec.behavior
    _apply_rules(behavior.scaleUp, (("Pods", 4), ("Percent", 100)))
    if not behavior.scaleUp.HasField("stabilizationWindowSeconds"):
        behavior.scaleUp.stabilizationWindowSeconds = 0
    _apply_rules(behavior.scaleDown, (("Percent", 100),))


def _apply_rules(rules: autoscaling.HPAScalingRules, policies: Iterable[tuple[str, int]]) -> None:
    rules.SetInParent()
    if not rules.HasField("selectPolicy"):
        rules.selectPolicy = "Max"
    if not rules.policies:
        for kind, value in policies:
            rules.policies.add(type=kind, value=value, periodSeconds=15)


def apply_old_autoscaler(scaler: autoscaling_v1.HorizontalPodAutoscaler) -> None:
    """Fill in an autoscaler of the older version."""
    if not scaler.spec.HasField("minReplicas"):
        scaler.spec.minReplicas = 1


def _apply_webhook(webhook: Any) -> None:
    if not webhook.HasField("failurePolicy"):
        webhook.failurePolicy = "Fail"
    if not webhook.HasField("matchPolicy"):
        webhook.matchPolicy = "Equivalent"
    for field in ("namespaceSelector", "objectSelector"):
        if not webhook.HasField(field):
            getattr(webhook, field).SetInParent()
    if not webhook.HasField("timeoutSeconds"):
        webhook.timeoutSeconds = 10
    for rule in webhook.rules:
        _apply_scope(rule.rule)
    if webhook.clientConfig.HasField("service") and not webhook.clientConfig.service.HasField("port"):
        webhook.clientConfig.service.port = _HTTPS


def _apply_scope(rule: admissionregistration.Rule) -> None:
    if not rule.HasField("scope"):
        rule.scope = "*"


def apply_mutating_webhooks(config: admissionregistration.MutatingWebhookConfiguration) -> None:
    """Fill in mutating webhooks."""
    for webhook in config.webhooks:
        _apply_webhook(webhook)
        if not webhook.HasField("reinvocationPolicy"):
            webhook.reinvocationPolicy = "Never"


def apply_validating_webhooks(config: admissionregistration.ValidatingWebhookConfiguration) -> None:
    """Fill in validating webhooks."""
    for webhook in config.webhooks:
        _apply_webhook(webhook)


def _apply_match_resources(match: admissionregistration.MatchResources) -> None:
    if not match.HasField("matchPolicy"):
        match.matchPolicy = "Equivalent"
    for field in ("namespaceSelector", "objectSelector"):
        if not match.HasField(field):
            getattr(match, field).SetInParent()
    for named in (*match.resourceRules, *match.excludeResourceRules):
        _apply_scope(named.ruleWithOperations.rule)


def apply_admission_policy(policy: admissionregistration.ValidatingAdmissionPolicy) -> None:
    """Fill in an admission policy."""
    if not policy.spec.HasField("failurePolicy"):
        policy.spec.failurePolicy = "Fail"
    if policy.spec.HasField("matchConstraints"):
        _apply_match_resources(policy.spec.matchConstraints)


def apply_admission_binding(binding: admissionregistration.ValidatingAdmissionPolicyBinding) -> None:
    """Fill in the binding of an admission policy."""
    if binding.spec.HasField("matchResources"):
        _apply_match_resources(binding.spec.matchResources)


def apply_api_service(service: apiregistration.APIService) -> None:
    """Fill in an API service."""
    if service.spec.HasField("service") and not service.spec.service.HasField("port"):
        service.spec.service.port = _HTTPS


def apply_flow_schema(schema: flowcontrol.FlowSchema) -> None:
    """Fill in a flow schema."""
    if not schema.spec.matchingPrecedence:
        schema.spec.matchingPrecedence = 1000


def apply_priority_level(level: flowcontrol.PriorityLevelConfiguration) -> None:
    """Fill in a priority level."""
    spec = level.spec
    if spec.HasField("exempt"):
        for field in ("nominalConcurrencyShares", "lendablePercent"):
            if not spec.exempt.HasField(field):
                setattr(spec.exempt, field, 0)
    if spec.HasField("limited"):
        limited = spec.limited
        if not limited.HasField("nominalConcurrencyShares"):
            limited.nominalConcurrencyShares = 30
        if not limited.HasField("lendablePercent"):
            limited.lendablePercent = 0
        if limited.limitResponse.HasField("queuing"):
            queuing = limited.limitResponse.queuing
            queuing.queues = queuing.queues or 64
            queuing.handSize = queuing.handSize or 8
            queuing.queueLengthLimit = queuing.queueLengthLimit or 50


def apply_definition(definition: apiextensions.CustomResourceDefinition) -> None:
    """Fill in the definition of a custom resource."""
    spec = definition.spec
    names = spec.names
    if not names.singular:
        names.singular = names.kind.lower()
    if not names.listKind and names.kind:
        names.listKind = names.kind + "List"
    if not spec.HasField("conversion"):
        spec.conversion.strategy = "None"
    if spec.conversion.HasField("webhook") and spec.conversion.webhook.clientConfig.HasField("service"):
        service = spec.conversion.webhook.clientConfig.service
        if not service.HasField("port"):
            service.port = _HTTPS
