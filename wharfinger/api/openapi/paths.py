"""The operations on one kind, as OpenAPI path items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from wharfinger.api import kinds
from wharfinger.api.custom import CustomKind
from wharfinger.api.openapi.customs import CustomModel
from wharfinger.api.types import authentication, autoscaling_v1, core, meta, policy

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from wharfinger.api.kinds import Kind
    from wharfinger.api.openapi.schemas import Schemas

_JSON, _YAML, _PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
)  # fmt: skip
_CUSTOM_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml",
)  # fmt: skip
Model: TypeAlias = "type[Message] | CustomModel"
_TRAVELS: dict[str, type[Message]] = {
    "scale": autoscaling_v1.Scale,
    "binding": core.Binding,
    "eviction": policy.Eviction,
    "token": authentication.TokenRequest,
}
_SUB_VERBS = {
    "finalize": ("put",),
    "log": ("get",),
    "binding": ("post",),
    "eviction": ("post",),
    "token": ("post",),
}
_STREAMS = ("exec", "attach", "portforward", "proxy")
_METHODS = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_ACTIONS = {"get": "get", "put": "replace", "patch": "patch", "delete": "delete", "post": "post"}

_WRITE = (
    ("dryRun", "string", "All: do everything but store the object."),
    ("fieldManager", "string", "Who makes the change: a short name of the program or person."),
    ("fieldValidation", "string", "What unknown and duplicate fields lead to: Ignore, Warn (default) or Strict."),
)
_DELETE = (
    ("dryRun", "string", "All: do everything but delete the object."),
    ("gracePeriodSeconds", "integer", "Seconds that the object has to end by itself."),
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
)
_LIST = (
    ("allowWatchBookmarks", "boolean", "Also send bookmarks, which only say how far the watch has come."),
    ("continue", "string", "The mark that the page before ended with."),
    ("fieldSelector", "string", "Only objects with these fields."),
    ("labelSelector", "string", "Only objects with these labels."),
    ("limit", "integer", "At most this many objects in one answer."),
    ("resourceVersion", "string", "How new the answer must be, or where a watch begins."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that are there."),
    ("timeoutSeconds", "integer", "Seconds after which a watch ends."),
    ("watch", "boolean", "Send changes as they happen."),
)
_FORCE = (("force", "boolean", "Apply even what others own; for apply patches alone."),)


class Paths:
    """Makes the path items of kinds, in one of the two versions."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._v3 = schemas.v3

    def of_kind(self, kind: Kind) -> dict[str, Any]:
        """Return all paths of a kind."""
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        scope = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
        found: dict[str, Any] = {}
        collection: dict[str, Any] = {}
        whole, everything = _models(kind)
        if "list" in kind.verbs and everything is not None:
            collection["get"] = self._operation(kind, "list", "list", everything, _LIST)
            if kind.namespaced:
                everywhere = self._operation(kind, "list", "listAll", everything, _LIST)
                found[f"{base}/{kind.resource}"] = self._item({"get": everywhere})
        if "create" in kind.verbs:
            collection["post"] = self._operation(kind, "post", "create", whole, _WRITE, body=whole)
        if "deletecollection" in kind.verbs:
            collection["delete"] = self._operation(
                kind, "deletecollection", "deleteCollection", meta.Status, (*_DELETE, *_LIST)
            )
        if collection:
            found[f"{scope}/{kind.resource}"] = self._item(collection, namespace=kind.namespaced)
        single = {method: verb for verb, method in _METHODS.items() if verb in kind.verbs}
        if single:
            found[f"{scope}/{kind.resource}/{{name}}"] = self._single(kind, tuple(single), whole, "")
        for sub in kind.subresources:
            if sub in _STREAMS:
                continue
            message = _TRAVELS.get(sub, whole)
            methods = _SUB_VERBS.get(sub, ("get", "put", "patch"))
            found[f"{scope}/{kind.resource}/{{name}}/{sub}"] = self._single(kind, methods, message, sub)
        return found

    def _single(self, kind: Kind, methods: tuple[str, ...], message: Model, sub: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for method in methods:
            action = _ACTIONS[method]
            verb = f"{action}{sub.capitalize()}"
            if method in ("get", "delete"):
                reply = meta.Status if method == "delete" else message
                made[method] = self._operation(kind, action, verb, reply, _DELETE if method == "delete" else ())
            else:
                parameters = (*_WRITE, *_FORCE) if method == "patch" else _WRITE
                made[method] = self._operation(kind, action, verb, message, parameters, body=message, travels=message)
        return self._item(made, namespace=kind.namespaced, name=True)

    def _reference(self, model: Model) -> dict[str, Any]:
        if isinstance(model, CustomModel):
            return self._schemas.of_custom(model)
        return self._schemas.reference(_descriptor(model))

    def _item(self, operations: dict[str, Any], *, namespace: bool = False, name: bool = False) -> dict[str, Any]:
        parameters = []
        if name:
            parameters.append(self._parameter("name", "string", "The object's name.", place="path"))
        if namespace:
            parameters.append(self._parameter("namespace", "string", "The object's namespace.", place="path"))
        return {**operations, "parameters": parameters} if parameters else operations

    def _parameter(self, name: str, kind: str, text: str, *, place: str = "query") -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "in": place, "description": text}
        if place == "path":
            made["required"] = True
        return {**made, "schema": {"type": kind}} if self._v3 else {**made, "type": kind}

    def _operation(
        self,
        kind: Kind,
        action: str,
        verb: str,
        reply: Model,
        parameters: tuple[tuple[str, str, str], ...],
        *,
        body: Model | None = None,
        travels: Model | None = None,
    ) -> dict[str, Any]:
        own = travels is None or isinstance(travels, CustomModel) or travels is kind.message
        mark = kind if own else kinds.of(travels)  # type: ignore[arg-type]
        group = kind.group.split(".")[0].capitalize() or "Core"
        made: dict[str, Any] = {
            "tags": [f"{kind.group.split('.')[0] or 'core'}_{kind.version}"],
            "operationId": f"{verb}{group}{kind.version.capitalize()}{kind.kind}",
            "parameters": [self._parameter(*parameter) for parameter in parameters],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": mark.group, "kind": mark.kind, "version": mark.version,
            },
        }  # fmt: skip
        answered = (_JSON, _YAML, _PROTOBUF) if kind.described else (_JSON, _YAML)
        types = answered
        if action == "patch":
            types = _PATCHES if kind.described else _CUSTOM_PATCHES
        schema = self._reference(reply)
        if self._v3:
            made["responses"] = {
                "200": {"description": "OK", "content": {item: {"schema": schema} for item in answered}},
                "401": {"description": "Unauthorized"},
            }
            if body is not None:
                sent = {"type": "object"} if action == "patch" else self._reference(body)
                made["requestBody"] = {"required": True, "content": {item: {"schema": sent} for item in types}}
            return made
        made["produces"] = list(answered)
        made["consumes"] = list(types)
        made["responses"] = {"200": {"description": "OK", "schema": schema}, "401": {"description": "Unauthorized"}}
        if body is not None:
            sent = {"type": "object"} if action == "patch" else self._reference(body)
            made["parameters"].append({"name": "body", "in": "body", "required": True, "schema": sent})
        return made


def _models(kind: Kind) -> tuple[Model, Model | None]:
    """Return what an object and a list of them are."""
    if isinstance(kind, CustomKind):
        return CustomModel(kind), CustomModel(kind, whole_list=True)
    return kind.message, kind.list_message


def _descriptor(message: type[Message]) -> Any:
    return message.DESCRIPTOR
