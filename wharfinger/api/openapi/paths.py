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
_JSON_PATCH = "application/json-patch+json"
_CUSTOM_PATCHES = (_JSON_PATCH, "application/merge-patch+json", "application/apply-patch+yaml")
_PATCHES = (*_CUSTOM_PATCHES, "application/strategic-merge-patch+json")
_CREATING = ("post", "put", "patch")
"""Actions that may make an object: an update does so for kinds that allow it, an apply patch for all."""
Model: TypeAlias = "type[Message] | CustomModel"
_TRAVELS: dict[str, type[Message]] = {
    "scale": autoscaling_v1.Scale,
    "binding": core.Binding,
    "eviction": policy.Eviction,
    "token": authentication.TokenRequest,
}
_SUB_VERBS = {
    "finalize": ("put",),
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
_LOG = (
    ("container", "string", "Which container; needed where there are several."),
    ("follow", "boolean", "Go on with what is written from now on."),
    ("limitBytes", "integer", "At most this many bytes."),
    ("previous", "boolean", "Of the container before the last restart."),
    ("sinceSeconds", "integer", "Only what was written in the last so many seconds."),
    ("sinceTime", "string", "Only what was written since a time (RFC 3339)."),
    ("tailLines", "integer", "Only so many lines from the end."),
    ("timestamps", "boolean", "Begin each line with its time."),
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
                kind, "deletecollection", "deleteCollection", meta.Status, (*_DELETE, *_LIST), otherwise=everything
            )
        if collection:
            found[f"{scope}/{kind.resource}"] = self._item(collection, namespace=kind.namespaced)
        single = {method: verb for verb, method in _METHODS.items() if verb in kind.verbs}
        if single:
            found[f"{scope}/{kind.resource}/{{name}}"] = self._single(kind, tuple(single), whole, "")
        for sub in kind.subresources:
            if sub in _STREAMS:
                continue
            if sub == "log":
                found[f"{scope}/{kind.resource}/{{name}}/log"] = self._log(kind)
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
                gone = method == "delete"
                reply = meta.Status if gone else message
                made[method] = self._operation(
                    kind, action, verb, reply, _DELETE if gone else (), otherwise=message if gone else None
                )
            else:
                parameters = (*_WRITE, *_FORCE) if method == "patch" else _WRITE
                made[method] = self._operation(kind, action, verb, message, parameters, body=message, travels=message)
        return self._item(made, namespace=kind.namespaced, name=True)

    def _log(self, kind: Kind) -> dict[str, Any]:
        made = self._operation(kind, "get", "getLog", meta.Status, _LOG)
        text = {"type": "string"}
        if self._v3:
            made["responses"]["200"] = {"description": "OK", "content": {"text/plain": {"schema": text}}}
        else:
            made["produces"].append("text/plain")
            made["responses"]["200"] = {"description": "OK", "schema": text}
        return self._item({"get": made}, namespace=kind.namespaced, name=True)

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
        otherwise: Model | None = None,
    ) -> dict[str, Any]:
        """`otherwise` is what the reply may be instead; only version 3 can say so."""
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
        types: tuple[str, ...] = answered
        if action == "patch":
            types = _PATCHES if kind.described else _CUSTOM_PATCHES
        schema = self._reference(reply)
        if self._v3:
            told = schema if otherwise is None else {"anyOf": [schema, self._reference(otherwise)]}
            content = {item: {"schema": told} for item in answered}
            error = {item: {"schema": self._reference(meta.Status)} for item in answered}
            replies: dict[str, Any] = {
                "200": {"description": "OK", "content": content},
                **({"201": {"description": "Created", "content": content}} if action in _CREATING else {}),
                "401": {"description": "Unauthorized"},
                "default": {"description": "Why it was not done", "content": error},
            }
            made["responses"] = replies
            if body is not None:
                reference = self._reference(body)
                sent = {item: {"schema": _patch(item) if action == "patch" else reference} for item in types}
                made["requestBody"] = {"required": True, "content": sent}
            return made
        made["produces"] = list(answered)
        made["consumes"] = list(types)
        made["responses"] = {"200": {"description": "OK", "schema": schema}, "401": {"description": "Unauthorized"}}
        if body is not None:
            plain = {"type": "object"} if action == "patch" else self._reference(body)
            made["parameters"].append({"name": "body", "in": "body", "required": True, "schema": plain})
        return made


def _patch(media: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object"}} if media == _JSON_PATCH else {"type": "object"}


def _models(kind: Kind) -> tuple[Model, Model | None]:
    """Return what an object and a list of them are."""
    if isinstance(kind, CustomKind):
        return CustomModel(kind), CustomModel(kind, whole_list=True)
    return kind.message, kind.list_message


def _descriptor(message: type[Message]) -> Any:
    return message.DESCRIPTOR
