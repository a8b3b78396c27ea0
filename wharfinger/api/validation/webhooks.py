"""What asks others before it admits an object: webhooks, admission policies, and aggregated API services.

Rules: the API references of ``ValidatingWebhookConfiguration``, ``MutatingWebhookConfiguration``,
``ValidatingAdmissionPolicy``, its binding, and ``APIService``. Expressions are not compiled here, only required.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from wharfinger.api.types import admissionregistration, apiregistration
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import label_selector, one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules, status_metadata

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
SIDE_EFFECTS = ("None", "NoneOnDryRun")
REINVOCATIONS = ("IfNeeded", "Never")
REVIEW_VERSIONS = ("v1", "v1beta1")
ACTIONS = ("Audit", "Deny", "Warn")
NOT_FOUND_ACTIONS = ("Allow", "Deny")
_MAX_SECONDS = 30
_MAX_CONDITIONS = 64
_MAX_ANNOTATIONS = 20
_MAX_GROUP_PRIORITY = 20000
_MAX_VERSION_PRIORITY = 1000

Configuration = (
    admissionregistration.ValidatingWebhookConfiguration | admissionregistration.MutatingWebhookConfiguration
)


def _create(config: Configuration, errors: Errors) -> None:
    metadata.validate_kind(config.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    seen: set[str] = set()
    webhooks: Iterable[Any] = config.webhooks
    for index, webhook in enumerate(webhooks):
        path = f"webhooks[{index}]"
        _validate_webhook(webhook, errors, path)
        if webhook.name in seen:
            errors.duplicate(f"{path}.name", webhook.name)
        if webhook.name:
            seen.add(webhook.name)
        validate_review_versions(webhook.admissionReviewVersions, errors, f"{path}.admissionReviewVersions")


def _validate_webhook(webhook: Any, errors: Errors, path: str) -> None:
    if not webhook.name:
        errors.required(f"{path}.name")
    else:
        errors.complaints(f"{path}.name", webhook.name, names.fully_qualified(webhook.name))
    for index, rule in enumerate(webhook.rules):
        _validate_rule(rule, errors, f"{path}.rules[{index}]")
    if webhook.HasField("failurePolicy"):
        one_of(errors, f"{path}.failurePolicy", webhook.failurePolicy, FAILURE_POLICIES)
    if webhook.HasField("matchPolicy"):
        one_of(errors, f"{path}.matchPolicy", webhook.matchPolicy, MATCH_POLICIES)
    if not webhook.HasField("sideEffects"):
        errors.required(f"{path}.sideEffects", f"must specify one of {', '.join(SIDE_EFFECTS)}")
    else:
        one_of(errors, f"{path}.sideEffects", webhook.sideEffects, SIDE_EFFECTS)
    if webhook.HasField("timeoutSeconds") and not 1 <= webhook.timeoutSeconds <= _MAX_SECONDS:
        errors.invalid(f"{path}.timeoutSeconds", webhook.timeoutSeconds, "must be between 1 and 30 seconds")
    if isinstance(webhook, admissionregistration.MutatingWebhook) and webhook.HasField("reinvocationPolicy"):
        one_of(errors, f"{path}.reinvocationPolicy", webhook.reinvocationPolicy, REINVOCATIONS)
    for field in ("namespaceSelector", "objectSelector"):
        if webhook.HasField(field):
            label_selector(getattr(webhook, field), errors, f"{path}.{field}")
    validate_client(webhook.clientConfig, errors, f"{path}.clientConfig")
    _validate_conditions(webhook.matchConditions, errors, f"{path}.matchConditions")


def _validate_rule(rule: admissionregistration.RuleWithOperations, errors: Errors, path: str) -> None:
    if not rule.operations:
        errors.required(f"{path}.operations")
    if len(rule.operations) > 1 and "*" in rule.operations:
        errors.invalid(f"{path}.operations", list(rule.operations), "if '*' is present, it must stand alone")
    for index, operation in enumerate(rule.operations):
        if operation not in OPERATIONS:
            errors.not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)
    its = rule.rule
    for field in ("apiGroups", "apiVersions"):
        values = getattr(its, field)
        if not values:
            errors.required(f"{path}.{field}")
        if len(values) > 1 and "*" in values:
            errors.invalid(f"{path}.{field}", list(values), "if '*' is present, it must stand alone")
    for index, version in enumerate(its.apiVersions):
        if not version:
            errors.required(f"{path}.apiVersions[{index}]")
    _validate_resources(its.resources, errors, f"{path}.resources")
    if its.HasField("scope") and its.scope not in SCOPES:
        errors.not_supported(f"{path}.scope", its.scope, SCOPES)


def _validate_resources(resources: Sequence[str], errors: Errors, path: str) -> None:
    if not resources:
        errors.required(path)
    whole: set[str] = set()
    everywhere: set[str] = set()
    for index, resource in enumerate(resources):
        at = f"{path}[{index}]"
        if not resource:
            errors.required(at)
            continue
        parent, slash, part = resource.partition("/")
        if not slash:
            continue
        if parent in whole:
            errors.invalid(at, resource, f"if '{parent}/*' is present, must not specify {resource}")
        if part in everywhere:
            errors.invalid(at, resource, f"if '*/{part}' is present, must not specify {resource}")
        if part == "*":
            whole.add(parent)
        if parent == "*":
            everywhere.add(part)
    if len(resources) > 1 and "*/*" in resources:
        errors.invalid(path, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and any(resource != "*" and "/" not in resource for resource in resources):
        errors.invalid(
            path, list(resources), "if '*' is present, must not specify other resources without subresources"
        )


def validate_client(client: Any, errors: Errors, path: str) -> None:
    """Judge how a webhook is reached."""
    if client.HasField("url") == client.HasField("service"):
        errors.required(path, "exactly one of url or service is required")
    elif client.HasField("url"):
        validate_url(client.url, errors, f"{path}.url")
    else:
        validate_service(client.service, errors, f"{path}.service")


def validate_url(url: str, errors: Errors, path: str) -> None:
    """Judge where a webhook is called."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError as error:
        errors.required(path, f"url must be a valid URL: {error}")
        return
    if parts.scheme != "https":
        errors.invalid(path, parts.scheme, "'https' is the only allowed URL scheme")
    if not host:
        errors.invalid(path, host, "host must be specified")
    if "@" in parts.netloc:
        errors.invalid(path, "", "user information is not permitted in the URL")
    if parts.fragment:
        errors.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        errors.invalid(path, parts.query, "query parameters are not permitted in the URL")


def validate_service(service: Any, errors: Errors, path: str) -> None:
    """Judge the service behind which a webhook is called."""
    if not service.name:
        errors.required(f"{path}.name", "service name is required")
    if not service.namespace:
        errors.required(f"{path}.namespace", "service namespace is required")
    if service.HasField("port"):
        errors.complaints(f"{path}.port", service.port, names.port_number(service.port))
    if not service.HasField("path"):
        return
    url = service.path
    at = f"{path}.path"
    if url in ("", "/"):
        return
    if url == "//":
        errors.invalid(at, url, "segment[0] may not be empty")
        return
    if not url.startswith("/"):
        errors.invalid(at, url, "must start with a '/'")
    for number, segment in enumerate(url.removeprefix("/").removesuffix("/").split("/")):
        if not segment:
            errors.invalid(at, url, f"segment[{number}] may not be empty")
        else:
            errors.complaints(at, url, names.dns1123_subdomain(segment))


def _validate_conditions(conditions: Sequence[admissionregistration.MatchCondition], errors: Errors, path: str) -> None:
    if len(conditions) > _MAX_CONDITIONS:
        errors.too_many(path, len(conditions), _MAX_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at = f"{path}[{index}]"
        if not condition.expression.strip():
            errors.required(f"{at}.expression")
        if not condition.name:
            errors.required(f"{at}.name")
            continue
        errors.complaints(f"{at}.name", condition.name, names.qualified_name(condition.name))
        if condition.name in seen:
            errors.duplicate(f"{at}.name", condition.name)
        seen.add(condition.name)


def validate_review_versions(versions: Sequence[str], errors: Errors, path: str) -> None:
    """Judge the versions of the questions that a webhook understands."""
    if not versions:
        errors.required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        errors.complaints(f"{path}[{index}]", version, names.dns1035_label(version))
    if not any(version in REVIEW_VERSIONS for version in versions):
        errors.invalid(path, list(versions), f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def _update(config: Configuration, old: Configuration, errors: Errors) -> None:
    metadata.validate_kind_update(config.metadata, old.metadata, errors)
    _create(config, errors)


def _create_policy(policy: admissionregistration.ValidatingAdmissionPolicy, errors: Errors) -> None:
    metadata.validate_kind(policy.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    spec = policy.spec
    if not spec.HasField("failurePolicy"):
        errors.required("spec.failurePolicy")
    elif spec.failurePolicy not in FAILURE_POLICIES:
        errors.not_supported("spec.failurePolicy", spec.failurePolicy, FAILURE_POLICIES)
    if spec.HasField("paramKind"):
        _validate_param_kind(spec.paramKind, errors, "spec.paramKind")
    if not spec.HasField("matchConstraints"):
        errors.required("spec.matchConstraints")
    else:
        _validate_match(spec.matchConstraints, errors, "spec.matchConstraints", needs_rules=True)
    _validate_conditions(spec.matchConditions, errors, "spec.matchConditions")
    _validate_variables(spec.variables, errors, "spec.variables")
    if not spec.validations and not spec.auditAnnotations:
        errors.required("spec.validations", "validations or auditAnnotations must contain at least one item")
    for index, validation in enumerate(spec.validations):
        at = f"spec.validations[{index}]"
        if not validation.expression.strip():
            errors.required(f"{at}.expression", "expression is not specified")
        if validation.HasField("messageExpression") and not validation.messageExpression.strip():
            errors.invalid(f"{at}.messageExpression", "", "must be non-empty if specified")
    if len(spec.auditAnnotations) > _MAX_ANNOTATIONS:
        errors.too_many("spec.auditAnnotations", len(spec.auditAnnotations), _MAX_ANNOTATIONS)
    seen: set[str] = set()
    for index, annotation in enumerate(spec.auditAnnotations):
        at = f"spec.auditAnnotations[{index}]"
        if not annotation.key:
            errors.required(f"{at}.key")
        else:
            errors.complaints(f"{at}.key", annotation.key, names.qualified_name(annotation.key))
            if annotation.key in seen:
                errors.duplicate(f"{at}.key", annotation.key)
            seen.add(annotation.key)
        if not annotation.valueExpression.strip():
            errors.required(f"{at}.valueExpression", "valueExpression is not specified")


def _validate_param_kind(kind: admissionregistration.ParamKind, errors: Errors, path: str) -> None:
    for field in ("apiVersion", "kind"):
        value = getattr(kind, field)
        if not value:
            errors.required(f"{path}.{field}")
        elif field == "kind":
            errors.complaints(f"{path}.{field}", value, names.dns1035_label(value.lower()))
        elif value.count("/") > 1 or names.dns1035_label(value.rpartition("/")[2]):
            errors.invalid(f"{path}.{field}", value, "must be a group and a version, or a version")


def _validate_variables(variables: Sequence[admissionregistration.Variable], errors: Errors, path: str) -> None:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        at = f"{path}[{index}]"
        if not variable.name:
            errors.required(f"{at}.name", "name is not specified")
        elif names.c_identifier(variable.name):
            errors.invalid(f"{at}.name", variable.name, "name is not a valid CEL identifier")
        elif variable.name in seen:
            errors.duplicate(f"{at}.name", variable.name)
        seen.add(variable.name)
        if not variable.expression.strip():
            errors.required(f"{at}.expression", "expression is not specified")


def _validate_match(
    match: admissionregistration.MatchResources, errors: Errors, path: str, *, needs_rules: bool
) -> None:
    if not match.HasField("matchPolicy"):
        errors.required(f"{path}.matchPolicy")
    elif match.matchPolicy not in MATCH_POLICIES:
        errors.not_supported(f"{path}.matchPolicy", match.matchPolicy, MATCH_POLICIES)
    for selector in ("namespaceSelector", "objectSelector"):
        if not match.HasField(selector):
            errors.required(f"{path}.{selector}")
        else:
            label_selector(getattr(match, selector), errors, f"{path}.{selector}")
    for index, named in enumerate(match.resourceRules):
        _validate_named(named, errors, f"{path}.resourceRules[{index}]")
    for index, named in enumerate(match.excludeResourceRules):
        _validate_named(named, errors, f"{path}.excludeResourceRules[{index}]")
    if needs_rules and not match.resourceRules:
        errors.required(f"{path}.resourceRules")


def _validate_named(named: admissionregistration.NamedRuleWithOperations, errors: Errors, path: str) -> None:
    seen: set[str] = set()
    for index, name in enumerate(named.resourceNames):
        at = f"{path}.resourceNames[{index}]"
        errors.complaints(at, name, names.path_segment(name))
        if name in seen:
            errors.duplicate(at, name)
        seen.add(name)
    _validate_rule(named.ruleWithOperations, errors, path)


def _update_policy(
    policy: admissionregistration.ValidatingAdmissionPolicy,
    old: admissionregistration.ValidatingAdmissionPolicy,
    errors: Errors,
) -> None:
    metadata.validate_kind_update(policy.metadata, old.metadata, errors)
    _create_policy(policy, errors)


def _create_binding(binding: admissionregistration.ValidatingAdmissionPolicyBinding, errors: Errors) -> None:
    metadata.validate_kind(binding.metadata, errors, namespaced=False, name=names.dns1123_subdomain)
    spec = binding.spec
    if not spec.policyName:
        errors.required("spec.policyName")
    else:
        errors.complaints("spec.policyName", spec.policyName, names.dns1123_subdomain(spec.policyName))
    if spec.HasField("paramRef"):
        _validate_param_ref(spec.paramRef, errors, "spec.paramRef")
    if spec.HasField("matchResources"):
        _validate_match(spec.matchResources, errors, "spec.matchResources", needs_rules=False)
    _validate_actions(spec.validationActions, errors, "spec.validationActions")


def _validate_param_ref(ref: admissionregistration.ParamRef, errors: Errors, path: str) -> None:
    if ref.name:
        errors.complaints(f"{path}.name", ref.name, names.path_segment(ref.name))
        if ref.HasField("selector"):
            errors.forbidden(f"{path}.name", "name and selector are mutually exclusive")
    if ref.HasField("selector"):
        label_selector(ref.selector, errors, f"{path}.selector")
        if ref.name:
            errors.forbidden(f"{path}.selector", "name and selector are mutually exclusive")
    if not ref.name and not ref.HasField("selector"):
        errors.required(path, "one of name or selector must be specified")
    if not ref.parameterNotFoundAction:
        errors.required(f"{path}.parameterNotFoundAction")
    elif ref.parameterNotFoundAction not in NOT_FOUND_ACTIONS:
        errors.not_supported(f"{path}.parameterNotFoundAction", ref.parameterNotFoundAction, NOT_FOUND_ACTIONS)


def _validate_actions(actions: Iterable[str], errors: Errors, path: str) -> None:
    seen: set[str] = set()
    for index, action in enumerate(actions):
        if action not in ACTIONS:
            errors.not_supported(f"{path}[{index}]", action, ACTIONS)
        if action in seen:
            errors.duplicate(f"{path}[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        errors.invalid(path, sorted(seen), "must not contain both Deny and Warn")
    if not seen:
        errors.required(path, "at least one validation action is required")


def _update_binding(
    binding: admissionregistration.ValidatingAdmissionPolicyBinding,
    old: admissionregistration.ValidatingAdmissionPolicyBinding,
    errors: Errors,
) -> None:
    metadata.validate_kind_update(binding.metadata, old.metadata, errors)
    _create_binding(binding, errors)


def _create_service(service: apiregistration.APIService, errors: Errors) -> None:
    spec = service.spec
    required = f"{spec.version}.{spec.group}"

    def name(text: str) -> names.Complaints:
        complaints = names.path_segment(text)
        return complaints or (() if text == required else (f"must be `spec.version+'.'+spec.group`: {required!r}",))

    metadata.validate_kind(service.metadata, errors, namespaced=False, name=name)
    if not spec.group and spec.version != "v1":
        errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if spec.group:
        errors.complaints("spec.group", spec.group, names.dns1123_subdomain(spec.group))
    errors.complaints("spec.version", spec.version, names.dns1035_label(spec.version))
    if not 0 < spec.groupPriorityMinimum <= _MAX_GROUP_PRIORITY:
        errors.invalid("spec.groupPriorityMinimum", spec.groupPriorityMinimum, "must be positive and less than 20000")
    if not 0 < spec.versionPriority <= _MAX_VERSION_PRIORITY:
        errors.invalid("spec.versionPriority", spec.versionPriority, "must be positive and less than 1000")
    if not spec.HasField("service"):
        if spec.caBundle:
            errors.invalid("spec.caBundle", len(spec.caBundle), "local APIServices may not have a caBundle")
        if spec.insecureSkipTLSVerify:
            errors.invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")
        return
    if not spec.service.namespace:
        errors.required("spec.service.namespace")
    if not spec.service.name:
        errors.required("spec.service.name")
    if spec.service.HasField("port"):
        errors.complaints("spec.service.port", spec.service.port, names.port_number(spec.service.port))
    if spec.insecureSkipTLSVerify and spec.caBundle:
        errors.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _update_service(service: apiregistration.APIService, old: apiregistration.APIService, errors: Errors) -> None:
    metadata.validate_kind_update(service.metadata, old.metadata, errors)
    _create_service(service, errors)


RULES = {
    admissionregistration.ValidatingWebhookConfiguration: Rules(create=_create, update=_update),
    admissionregistration.MutatingWebhookConfiguration: Rules(create=_create, update=_update),
    admissionregistration.ValidatingAdmissionPolicy: Rules(
        create=_create_policy, update=_update_policy, subresources={"status": status_metadata}
    ),
    admissionregistration.ValidatingAdmissionPolicyBinding: Rules(create=_create_binding, update=_update_binding),
    apiregistration.APIService: Rules(
        create=_create_service, update=_update_service, subresources={"status": status_metadata}
    ),
}
