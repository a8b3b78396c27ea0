"""Rules of schemas in CEL (``x-kubernetes-validations``): checked when a definition is stored, run on its objects.

A rule belongs to a place of the schema; ``self`` is the value there, ``oldSelf`` what it replaces. Rules that name
``oldSelf`` judge changes alone, unless they take it as an optional. What has not changed is not judged again. Strings
with the formats date-time, date, duration and byte are times, spans and bytes for a rule, numbers are doubles.
Source: "Validation rules" in Kubernetes' documentation of CustomResourceDefinitions.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wharfinger.api.cel import CelError, Program, compile_expression
from wharfinger.api.cel.conversions import to_duration, to_timestamp
from wharfinger.api.cel.frame import BUDGET, BudgetError
from wharfinger.api.cel.syntax import parse
from wharfinger.api.cel.values import NONE, Optional
from wharfinger.api.custom.program_fields import undeclared
from wharfinger.api.custom.schema import ABSENT
from wharfinger.api.custom.values import NOWHERE, key_of, same
from wharfinger.api.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.api.custom.schema import Schema
    from wharfinger.api.validation.errors import Errors

OBJECT_BUDGET = 10 * BUDGET
"""Steps of all rules on one object."""
REASONS = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
_VARIABLES = frozenset({"self", "oldSelf"})
_BLOCKING = frozenset({"FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"})
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


@lru_cache(maxsize=4096)
def program(text: str) -> Program:
    """Compile a rule; the same text is compiled once. Raises CelError."""
    return compile_expression(text, _VARIABLES)


# --- in definitions ---------------------------------------------------------------------------------------------------


def check(rules: tuple[Mapping[str, Any], ...], schema: Schema, errors: Errors, path: str, *, correlated: bool) -> None:
    """Judge the rules at one place of a definition; `correlated`: whether old values are known there."""
    for index, rule in enumerate(rules):
        at = f"{path}.x-kubernetes-validations[{index}]"
        text = rule.get("rule", "")
        if not text.strip():
            errors.required(f"{at}.rule", "rule is not specified")
            continue
        names = _compile(text, schema, errors, f"{at}.rule")
        if "oldSelf" in names and not correlated:
            errors.invalid(f"{at}.rule", text, "oldSelf cannot be used below a list or map whose elements have no keys")
        if rule.get("optionalOldSelf") is not None and "oldSelf" not in names:
            errors.invalid(f"{at}.optionalOldSelf", rule["optionalOldSelf"], "may not be set if oldSelf is not used")
        if rule.get("messageExpression"):
            _compile(rule["messageExpression"], schema, errors, f"{at}.messageExpression")
        message = rule.get("message", "")
        if "\n" in text and not message:
            errors.required(f"{at}.message", "message must be specified if rule contains line breaks")
        elif "\n" in message.strip():
            errors.invalid(f"{at}.message", message, "message must not contain line breaks")
        if rule.get("reason") and rule["reason"] not in REASONS:
            errors.not_supported(f"{at}.reason", rule["reason"], REASONS)
        field = rule.get("fieldPath", "")
        if field and not field.startswith((".", "[")):
            errors.invalid(f"{at}.fieldPath", field, "fieldPath must be a valid path, beginning with a dot")


def _compile(text: str, schema: Schema, errors: Errors, path: str) -> frozenset[str]:
    try:
        names = program(text).names
        unknown = undeclared(parse(text), schema)
        if unknown:
            raise CelError(unknown)
    except CelError as error:
        errors.invalid(path, text, f"compilation failed: {error}")
        return frozenset()
    return names


# --- on objects -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Purse:
    left: int = OBJECT_BUDGET


def run(value: dict[str, Any], schema: Schema, errors: Errors, *, old: Any = ABSENT) -> None:
    """Judge an object by all rules of its schema; `old` is the object that it replaces."""
    if not schema.has_rules:
        return
    if any(error.reason in _BLOCKING for error in errors):
        errors.append(FieldError.invalid(NOWHERE, None, _NOT_CHECKED))
        return
    own = value.get("metadata", {})
    shown = {**value, "metadata": {name: own[name] for name in ("name", "generateName") if name in own}}
    try:
        _walk(shown, schema, errors, "", old, _Purse())
    except BudgetError as error:
        errors.append(FieldError.invalid(NOWHERE, "object", f"validation failed: {error}"))


def _walk(value: Any, schema: Schema, errors: Errors, path: str, old: Any, purse: _Purse) -> None:
    if value is None or (path and old is not ABSENT and same(value, old)):
        return
    if schema.rules:
        _judge(value, schema, errors, path, old, purse)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = schema.child(name)
            if child is not None and child.has_rules:
                below = f"{path}.{name}" if path else name
                _walk(item, child, errors, below, before.get(name, ABSENT), purse)
    elif isinstance(value, list) and schema.items is not None and schema.items.has_rules:
        known: dict[bytes, Any] = {}
        if schema.list_type == "map" and isinstance(old, list):
            known = {key_of(item, schema): item for item in old}
        for index, item in enumerate(value):
            was = known.get(key_of(item, schema), ABSENT) if known else ABSENT
            _walk(item, schema.items, errors, f"{path}[{index}]", was, purse)


def _judge(value: Any, schema: Schema, errors: Errors, path: str, old: Any, purse: _Purse) -> None:
    variables: dict[str, Any] = {"self": typed(value, schema)}
    was = ABSENT if old is ABSENT or old is None else typed(old, schema)
    for rule in schema.rules:
        text = rule.get("rule", "")
        try:
            compiled = program(text)
            if "oldSelf" in compiled.names:
                if rule.get("optionalOldSelf"):
                    variables["oldSelf"] = NONE if was is ABSENT else Optional(was)
                elif was is ABSENT:
                    continue
                else:
                    variables["oldSelf"] = was
            result = _spend(compiled, variables, purse)
            if result is True:
                continue
            if result is not False:
                raise CelError("the rule is no truth value")
            message = _message(rule, variables, purse)
        except BudgetError:
            raise
        except CelError as error:
            message = f"rule {text!r} failed: {error}"
        errors.append(_cause(rule, value, schema, path, message))


def _spend(compiled: Program, variables: dict[str, Any], purse: _Purse) -> Any:
    given = min(BUDGET, purse.left)
    result, left = compiled.measure(variables, budget=given)
    purse.left -= given - left
    return result


def _message(rule: Mapping[str, Any], variables: dict[str, Any], purse: _Purse) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            made = _spend(program(expression), variables, purse)
        except BudgetError:
            raise
        except CelError:
            made = None  # as in Kubernetes: the plain message has to do
        if isinstance(made, str) and made.strip() and "\n" not in made:
            return made.strip()
    text = str(rule.get("message") or "").strip()
    return text or f"failed rule: {str(rule.get('rule', '')).strip()}"


def _cause(rule: Mapping[str, Any], value: Any, schema: Schema, path: str, message: str) -> FieldError:
    field = f"{path}{rule.get('fieldPath', '')}".removeprefix(".") or NOWHERE
    match rule.get("reason"):
        case "FieldValueForbidden":
            return FieldError.forbidden(field, message)
        case "FieldValueRequired":
            return FieldError.required(field, message)
        case "FieldValueDuplicate":
            return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {message}")
    shown = schema.type if isinstance(value, (dict, list)) else value
    return FieldError.invalid(field, shown, message)


def typed(value: Any, schema: Schema | None) -> Any:
    """Return a value as rules see it."""
    if schema is None or not schema.converts:
        return value
    if isinstance(value, str):
        return _text(value, schema)
    if isinstance(value, int) and schema.type == "number" and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dict):
        return {name: typed(item, schema.child(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item, schema.items) for item in value]
    return value


def _text(value: str, schema: Schema) -> Any:
    try:
        match schema.source.get("format"):
            case "date-time":
                return to_timestamp(value)
            case "date":
                return to_timestamp(f"{value}T00:00:00Z")
            case "duration":
                return to_duration(value)
            case "byte":
                return base64.b64decode(value)
    except (CelError, ValueError):
        return value  # the format has been told of already
    return value


__all__ = ["check", "program", "run", "typed"]
