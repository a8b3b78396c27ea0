"""Defaulting and validation against what a real kube-apiserver answered, without any server.

Each recorded conversation is played against a server of a few lines: decode, default, prepare (the apiserver's own
strategies), validate, keep. Compared are the status code, the causes' fields and reasons in their order, the number
of warnings, and for the defaults area the whole body. What the few lines cannot know (admission, allocation,
authorisation) is listed with its reason in ``golden_rules_exceptions.yaml``; an exception that no longer applies is a
failure too.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from controlplane.apiserver.strategies import strategy_for
from wharfinger.api import codec, defaults, kinds, times, validation
from wharfinger.api.errors import StatusError
from wharfinger.api.validation import warnings

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("WHARFINGER_SHARED", HERE.parents[3] / "shared"))
CASES = SHARED / "golden" / "api" / "cases"
AREAS = sorted(path.name for path in CASES.iterdir()) if CASES.is_dir() else []
EXCEPTIONS: dict[str, str] = yaml.safe_load((HERE / "golden_rules_exceptions.yaml").read_text())
NAMESPACE = "ns-1"

_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[a-z]))?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?"
)
_SERVER_SET = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def _load(path: Path) -> Any:
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _cases() -> list[Any]:
    if not CASES.is_dir():
        return []
    return [
        pytest.param(path, id=f"{area}/{path.stem}") for area in AREAS for path in sorted((CASES / area).glob("*.yaml"))
    ]


class Refused(Exception):  # noqa: N818
    """An answer that is no object."""

    def __init__(self, code: int, causes: list[tuple[str, str]]) -> None:
        super().__init__(code, causes)
        self.code, self.causes = code, causes


class Unknown(Exception):  # noqa: N818
    """A request that the few lines do not play."""


class Server:
    """Decode, default, prepare, validate, keep."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.answers: dict[str, Any] = {}
        self.request: Any = SimpleNamespace(
            user=SimpleNamespace(name="admin", uid="", groups=["system:masters"], extra={}), warnings=[]
        )
        self.count = 0

    def play(self, step: dict[str, Any]) -> Any:
        request = self._fill(step["request"])
        found = _PATH.fullmatch(request["path"].partition("?")[0])
        if found is None or request.get("as") not in (None, "admin"):
            raise Unknown
        kind = kinds.by_resource(found["group"] or "", found["core"] or found["version"], found["resource"])
        if kind is None or request.get("query"):
            raise Unknown
        namespace = (found["namespace"] or "") if kind.namespaced else ""
        method, body = request["method"], request.get("body")
        if "from" in request:
            if request["from"] not in self.answers:
                raise Unknown
            body = _merge(self.answers[request["from"]], body)
        if method == "POST" and not found["sub"]:
            answer = self._create(kind, namespace, body)
        elif method == "PUT":
            answer = self._update(kind, namespace, found["name"], found["sub"] or "", body)
        elif method == "PATCH":
            key = (kind.group_resource, namespace, found["name"])
            if key not in self.objects:
                raise Unknown
            content = (request.get("headers") or {}).get("Content-Type", "")
            patched = self._patched(key, content, body)
            try:
                answer = self._update(kind, namespace, found["name"], found["sub"] or "", patched)
            except Refused as refused:
                if refused.code == 400:  # the patch was wrong, not the object
                    raise Unknown from refused
                raise
        elif method == "GET" and not found["sub"] and found["name"]:
            answer = self.objects.get((kind.group_resource, namespace, found["name"]))
            if answer is None:
                raise Unknown
        else:
            raise Unknown
        self.answers[step["id"]] = codec.to_json(answer)
        return answer

    def _fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._fill(key): self._fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        return re.sub(r"\$\{([^}]+)\}", self._variable, value) if isinstance(value, str) else value

    def _variable(self, match: re.Match[str]) -> str:
        if match[1] == "ns":
            return NAMESPACE
        step, *path = match[1].split(".")
        value = self.answers.get(step)
        for part in path:
            if value is None:
                raise Unknown
            value = value[int(part)] if isinstance(value, list) else value.get(part)
        if value is None:
            raise Unknown
        return str(value)

    def _patched(self, key: tuple[str, str, str], content: str, body: Any) -> Any:
        old = self.objects[key]
        document = codec.to_json(old)
        if isinstance(body, str):
            try:
                body = json.loads(body)
            except ValueError:
                raise Unknown from None
        try:
            from wharfinger.api import patch
        except ImportError:
            raise Unknown from None
        try:
            if content == "application/json-patch+json":
                return patch.json_patch(document, body)
            if content == "application/merge-patch+json":
                return patch.merge_patch(document, body)
            if content == "application/strategic-merge-patch+json":
                return patch.strategic_merge(document, body, type(old))
        except StatusError as error:
            raise Unknown from error  # patches have tests of their own
        raise Unknown

    def _decode(self, kind: kinds.Kind, body: Any) -> Any:
        if not isinstance(body, dict):
            raise Unknown
        try:
            decoded = codec.from_json(json.dumps(body).encode(), kind.message, validation="Warn")
        except StatusError as error:
            raise Refused(error.code, []) from error
        obj = decoded.message
        defaults.apply(obj)
        said = warnings.deprecation(kind.message)
        self.request.warnings[:] = [*map(str, decoded.issues), *filter(None, [said])]
        return obj

    def _create(self, kind: kinds.Kind, namespace: str, body: Any) -> Any:
        obj = self._decode(kind, body)
        metadata = obj.metadata
        self.count += 1
        metadata.namespace = namespace
        metadata.uid = f"00000000-0000-4000-8000-{self.count:012}"
        metadata.creationTimestamp.CopyFrom(times.now())
        metadata.ClearField("deletionTimestamp")
        if metadata.generateName and not metadata.name:
            metadata.name = metadata.generateName[:58] + "x2b4z"
        if not kind.stored:
            metadata.Clear()
            metadata.namespace = namespace
            _refuse(validation.validate_create(obj))
            raise Unknown
        strategy_for(kind).prepare_for_create(obj, self.request)
        if hasattr(obj, "spec") and kind.resource == "pods" and not obj.spec.serviceAccountName:
            obj.spec.serviceAccountName = obj.spec.serviceAccount = "default"
        _refuse(validation.validate_create(obj))
        self.request.warnings += warnings.creating(obj)
        key = (kind.group_resource, namespace, metadata.name)
        if key in self.objects:
            raise Refused(409, [])
        metadata.resourceVersion = str(self.count)
        self.objects[key] = obj
        return obj

    def _update(self, kind: kinds.Kind, namespace: str, name: str, sub: str, body: Any) -> Any:
        old = self.objects.get((kind.group_resource, namespace, name))
        if old is None or sub not in ("", "status", "ephemeralcontainers", "resize", "approval"):
            raise Unknown
        obj = self._decode(kind, body)
        metadata = obj.metadata
        strategy = strategy_for(kind)
        if sub in ("status", "approval"):
            strategy.prepare_for_status_update(obj, old, self.request)
        elif not sub:
            strategy.prepare_for_update(obj, old, self.request)
        elif sub == "resize":
            _keep_only_resources(obj, old)
        metadata.namespace = metadata.namespace or namespace
        metadata.uid = metadata.uid or old.metadata.uid
        metadata.creationTimestamp.CopyFrom(old.metadata.creationTimestamp)
        metadata.generation = max(metadata.generation, old.metadata.generation)
        _refuse(validation.validate_update(obj, old, subresource=sub))
        if not sub:
            self.request.warnings += warnings.updating(obj, old)
        self.count += 1
        metadata.resourceVersion = str(self.count)
        self.objects[kind.group_resource, namespace, name] = obj
        return obj


def _keep_only_resources(obj: Any, old: Any) -> None:
    """Do what the resize subresource does before validation: nothing but resources is taken over."""
    spec = type(old.spec)()
    spec.CopyFrom(old.spec)
    for container, wish in zip(spec.containers, obj.spec.containers, strict=True):
        container.resources.CopyFrom(wish.resources)
    obj.spec.CopyFrom(spec)
    obj.status.CopyFrom(old.status)


def _refuse(causes: list[Any]) -> None:
    if causes:
        raise Refused(422, [(cause.field, cause.reason) for cause in causes])


def _merge(base: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not isinstance(base, dict):
        return base if change is None else change
    merged = dict(base)
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key, {}), value)
        else:
            merged[key] = value
    return merged


def _causes(body: Any) -> list[tuple[str, str]]:
    found = (body.get("details") or {}).get("causes") or []
    return [(cause.get("field", "").replace("${ns}", NAMESPACE), cause.get("reason", "")) for cause in found]


def _strip(body: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the server sets and what admission adds, on either side."""
    body = json.loads(json.dumps(body).replace("${ns}", NAMESPACE))
    metadata = body.get("metadata", {})
    for field in _SERVER_SET:
        metadata.pop(field, None)
    metadata["finalizers"] = [name for name in metadata.get("finalizers", ()) if not name.endswith("-protection")]
    spec = body.get("spec", {})
    if body["kind"] == "Pod":
        for field in ("tolerations", "priority", "preemptionPolicy"):
            spec.pop(field, None)
        for part in (spec.get("volumes", []), *(c.get("volumeMounts", []) for c in spec.get("containers", []))):
            part[:] = [item for item in part if not item["name"].startswith("kube-api-access-")]
        for holder in (spec, *spec.get("containers", [])):
            for field in ("volumes", "volumeMounts"):
                if holder.get(field) == []:
                    del holder[field]
    if body["kind"] == "Node":
        spec.pop("taints", None)
    if body["kind"] == "Service":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec.pop(field, None)
    return body


def _difference(expected: Any, got: Any, path: str = "") -> str:
    if isinstance(expected, str) and re.fullmatch(r"<[a-z]+(#\d+)?>", expected):
        return "" if got not in (None, "") else f"{path}: expected something"
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted(expected.keys() | got.keys()):
            if key not in got or key not in expected:
                return f"{path}.{key}: expected {expected.get(key, 'nothing')!r}, got {got.get(key, 'nothing')!r}"
            found = _difference(expected[key], got[key], f"{path}.{key}")
            if found:
                return found
        return ""
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            found = _difference(one, other, f"{path}[{index}]")
            if found:
                return found
        return ""
    return "" if expected == got else f"{path}: expected {expected!r}, got {got!r}"


def _judge(area: str, step: dict[str, Any], server: Server) -> str:
    """Play one step; return what differs, or nothing."""
    expected = step.get("expect") or {}
    status, body = expected.get("status"), expected.get("body")
    if status not in (200, 201, 422) or not isinstance(body, dict):
        return ""
    try:
        answer = server.play(step)
    except Unknown:
        return ""
    except Refused as refused:
        if status != refused.code:
            return f"expected {status} {_causes(body)}, got {refused.code} {refused.causes}"
        wanted = _causes(body)
        return "" if wanted == refused.causes else f"expected causes {wanted}, got {refused.causes}"
    if status == 422:
        return f"expected causes {_causes(body)}, but it was accepted"
    expected_warnings = (expected.get("headers") or {}).get("warning", [])
    if step["request"]["method"] in ("POST", "PUT") and len(expected_warnings) != len(server.request.warnings):
        return f"expected {len(expected_warnings)} warnings, got {server.request.warnings}"
    if area == "defaults" and step["request"]["method"] == "POST":
        return _difference(_strip(body), _strip(codec.to_json(answer)))
    return ""


@pytest.mark.skipif(not CASES.is_dir(), reason=f"no recorded conversations in {CASES}")
@pytest.mark.parametrize("path", _cases())
def test_recorded_answers(path: Path) -> None:
    server = Server()
    area = path.parent.name
    wrong = []
    for step in _load(path)["steps"]:
        name = f"{area}/{path.stem} {step['id']}"
        difference = _judge(area, step, server)
        if name in EXCEPTIONS:
            if not difference:
                wrong.append(f"{name}: listed as an exception ({EXCEPTIONS[name]}), but it agrees")
        elif difference:
            wrong.append(f"{name}: {difference}")
    assert not wrong, "\n".join(wrong)


def test_exceptions_name_recorded_steps() -> None:
    if not CASES.is_dir():
        pytest.skip(f"no recorded conversations in {CASES}")
    for name in EXCEPTIONS:
        case, _, step = name.partition(" ")
        steps = [entry["id"] for entry in _load(CASES / f"{case}.yaml")["steps"]]
        assert step in steps, name
