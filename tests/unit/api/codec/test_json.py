from __future__ import annotations

import json
from typing import Any

import pytest

from wharfinger.api import codec
from wharfinger.api.codec.text import MAX_DEPTH
from wharfinger.api.errors import BadRequestError, RequestTooLargeError
from wharfinger.api.types import admissionregistration, apiextensions, apps, authentication, autoscaling_v1, core, meta


def _read(document: dict[str, Any], message_class: Any = core.Pod) -> Any:
    return codec.from_json(document, message_class, validation="Strict").message


# --- what is written --------------------------------------------------------------------------------------------------


def test_kinds_come_first_and_empty_messages_stay() -> None:
    assert list(codec.to_json(core.Pod())) == ["kind", "apiVersion", "metadata", "spec", "status"]
    assert codec.to_json(core.Pod()) == {
        "kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"containers": None}, "status": {},
    }  # fmt: skip


def test_lists_name_their_kind_but_their_items_do_not() -> None:
    found = codec.to_json(core.ConfigMapList(items=[core.ConfigMap(data={"b": "2", "a": "1"})]))
    assert found["kind"] == "ConfigMapList"
    assert found["items"] == [{"metadata": {}, "data": {"a": "1", "b": "2"}}]
    assert list(found["items"][0]["data"]) == ["a", "b"]


def test_special_forms() -> None:
    pod = _read(
        {
            "metadata": {"name": "a", "creationTimestamp": "2026-01-02T05:04:05+02:00", "deletionTimestamp": None},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "resources": {"limits": {"cpu": 0.5, "memory": "1024Ki", "x/y": 3}},
                        "livenessProbe": {"httpGet": {"port": "http"}},
                        "readinessProbe": {"tcpSocket": {"port": 80}},
                    }
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        }
    )
    found = codec.to_json(pod)
    assert found["metadata"] == {"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z"}
    (container,) = found["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "500m", "memory": "1Mi", "x/y": "3"}}
    assert container["livenessProbe"]["httpGet"]["port"] == "http"
    assert container["readinessProbe"]["tcpSocket"]["port"] == 80
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert json.loads(codec.to_json_bytes(pod)) == found


def test_bytes_raw_json_and_lists_in_messages() -> None:
    secret = _read({"data": {"b": "AAE=", "a": ""}}, core.Secret)
    assert codec.to_json(secret)["data"] == {"a": "", "b": "AAE="}
    revision = _read({"data": {"spec": {"x": [1, 2.5, None]}}, "revision": 3}, apps.ControllerRevision)
    assert codec.to_json(revision)["data"] == {"spec": {"x": [1, 2.5, None]}}
    assert json.loads(codec.to_json_bytes(revision))["data"] == {"spec": {"x": [1, 2.5, None]}}
    review = _read({"spec": {}, "status": {"user": {"extra": {"k": ["a", "b"]}}}}, authentication.TokenReview)
    assert codec.to_json(review)["status"]["user"]["extra"] == {"k": ["a", "b"]}
    webhook = _read({"webhooks": [{"name": "w", "clientConfig": {"caBundle": "AA=="}, "rules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    ]}]}, admissionregistration.MutatingWebhookConfiguration)  # fmt: skip
    assert codec.to_json(webhook)["webhooks"][0]["rules"][0]["apiGroups"] == [""]


def test_json_schemas() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "string", "maxLength": 5}},
            "b": {"additionalProperties": {"type": "integer", "default": 0}},
            "c": {"additionalProperties": False, "enum": ["x", 1, None]},
        },
        "$ref": "#/x",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    validation = _read({"openAPIV3Schema": schema}, apiextensions.CustomResourceValidation)
    assert codec.to_json(validation) == {"openAPIV3Schema": schema}
    again = type(validation).FromString(codec.canonical_bytes(validation))
    assert codec.to_json(again) == {"openAPIV3Schema": schema}


def test_zero_times_are_null_or_left_out() -> None:
    event = codec.to_json(core.Event())
    assert (event["eventTime"], event["firstTimestamp"]) == (None, None)
    assert "creationTimestamp" not in event["metadata"]
    assert codec.to_json(core.Event(eventTime=meta.MicroTime(seconds=0, nanos=5000)))["eventTime"] == (
        "1970-01-01T00:00:00.000005Z"
    )


# --- what is read -----------------------------------------------------------------------------------------------------


def test_null_is_as_good_as_absent() -> None:
    document = {"metadata": None, "spec": {"containers": [None, {"name": None, "args": ["a", None]}], "nodeName": None}}
    pod = _read(document)
    assert len(pod.spec.containers) == 2
    assert list(pod.spec.containers[1].args) == ["a", ""]
    assert not pod.HasField("metadata")
    assert _read({"data": {"a": None}}, core.ConfigMap).data["a"] == ""


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"spec": []}, "spec"),
        ({"spec": {"containers": {}}}, "spec.containers"),
        ({"spec": {"containers": [{"name": "a"}, {"name": 5}]}}, "spec.containers[1].name"),
        ({"spec": {"containers": ["x"]}}, "spec.containers[0]"),
        ({"spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}}, "spec.containers[0].ports[0].containerPort"),
        ({"spec": {"containers": [{"ports": [{"containerPort": 80.5}]}]}}, "spec.containers[0].ports[0].containerPort"),
        ({"spec": {"containers": [{"ports": [{"hostPort": 2**31}]}]}}, "spec.containers[0].ports[0].hostPort"),
        ({"spec": {"priority": True}}, "spec.priority"),
        ({"spec": {"hostNetwork": "true"}}, "spec.hostNetwork"),
        ({"spec": {"hostNetwork": 1}}, "spec.hostNetwork"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels.a"),
        ({"metadata": {"labels": ["a"]}}, "metadata.labels"),
        ({"metadata": {"creationTimestamp": "yesterday"}}, "metadata.creationTimestamp"),
        ({"metadata": {"creationTimestamp": 5}}, "metadata.creationTimestamp"),
        (
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}},
            "spec.containers[0].resources.limits.cpu",
        ),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": ""}}}]}}, "spec.containers[0].resources.limits.cpu"),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": {}}}}]}}, "spec.containers[0].resources.limits.cpu"),
        (
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]}},
            "spec.containers[0].livenessProbe.httpGet.port",
        ),
        ({"spec": {"containers": [{"args": ["a", 1]}]}}, "spec.containers[0].args[1]"),
        ({"spec": {"containers": [{"args": "a"}]}}, "spec.containers[0].args"),
        ({"kind": 5}, "kind"),
        ({"spec": {"priority": 10**30}}, "spec.priority"),
        ({"spec": {"priority": 1e30}}, "spec.priority"),
    ],
)
def test_wrong_types_name_their_path(document: dict[str, Any], path: str) -> None:
    for data in (document, json.dumps(document).encode()):
        with pytest.raises(BadRequestError) as raised:
            codec.from_json(data, core.Pod, validation="Ignore")  # type: ignore[arg-type]
        assert str(raised.value).startswith(f"{path}: cannot use ")


def test_bytes_must_be_base64() -> None:
    with pytest.raises(BadRequestError, match=r"data\.a: cannot use .*base64"):
        codec.from_json({"data": {"a": "***"}}, core.Secret)
    assert _read({"data": {"a": "AA\n=="}}, core.Secret).data["a"] == b"\0"


def test_whole_floats_are_numbers() -> None:
    assert _read({"spec": {"priority": 5.0}}).spec.priority == 5


def test_the_kind_must_be_the_one_wanted() -> None:
    with pytest.raises(BadRequestError, match="a Node of v1, but a Pod of v1 is wanted"):
        codec.from_json({"kind": "Node", "apiVersion": "v1"}, core.Pod)
    with pytest.raises(BadRequestError, match="a Pod of v2"):
        codec.from_json({"kind": "Pod", "apiVersion": "v2"}, core.Pod)
    assert codec.read_object(b'{"kind":"Scale","apiVersion":"autoscaling/v1"}').message == autoscaling_v1.Scale()
    with pytest.raises(BadRequestError, match="no kind"):
        codec.read_object({"kind": "Pot", "apiVersion": "v1"})
    with pytest.raises(BadRequestError, match="both apiVersion and kind"):
        codec.read_object({"kind": "Pod"})


# --- unknown and duplicate fields -------------------------------------------------------------------------------------

ODD = (
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","weird":1,"labels":{"x":"1","x":"2"}},'
    b'"spec":{"containers":[{"name":"c","Image":"i"},{"name":"d","name":"e"}],"nodeName":"n","nodeName":"m"},"top":{}}'
)
ODD_ISSUES = [
    'unknown field "metadata.weird"',
    'duplicate field "metadata.labels.x"',
    'duplicate field "spec.nodeName"',
    'unknown field "spec.containers[0].Image"',
    'duplicate field "spec.containers[1].name"',
    'unknown field "top"',
]


def test_unknown_and_duplicate_fields_are_found_with_their_paths() -> None:
    decoded = codec.from_json(ODD, core.Pod, validation="Warn")
    assert [str(issue) for issue in decoded.issues] == ODD_ISSUES
    assert (decoded.message.spec.nodeName, decoded.message.spec.containers[1].name) == ("m", "e")
    assert codec.from_json(ODD, core.Pod, validation="Ignore").issues == []
    with pytest.raises(BadRequestError, match="strict decoding error") as raised:
        codec.from_json(ODD, core.Pod, validation="Strict")
    assert all(issue in str(raised.value) for issue in ODD_ISSUES)


def test_compact_and_spaced_text_are_read_alike() -> None:
    document = codec.to_json(_read({"metadata": {"name": "é<&>"}, "spec": {"containers": [{"name": "c"}]}}))
    for text in (json.dumps(document), json.dumps(document, separators=(",", ":")), json.dumps(document, indent=2)):
        decoded = codec.from_json(text.encode(), core.Pod, validation="Strict")
        assert codec.to_json(decoded.message) == document


def test_a_hundred_issues_are_enough() -> None:
    document = {f"x{number}": 1 for number in range(500)}
    assert len(codec.from_json(document, core.Pod).issues) == 100


def test_embedded_kinds_may_name_themselves() -> None:
    claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "data"}}
    found = codec.from_json({"spec": {"volumeClaimTemplates": [claim]}}, apps.StatefulSet, validation="Strict")
    assert found.message.spec.volumeClaimTemplates[0].metadata.name == "data"


# --- hostile bodies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"nul", b"[]", b'"x"', b"5", b"\xff\xfe", b'{"a":"\xff"}', b'{"a":NaN}', b'{"a":Infinity}',
        b'{"a":"\\ud800"}', b'{"metadata":{"name":"\\ud800"}}', b"{}{}", b'{"a":1,}', b'{"a":\x00}',
        b'{"metadata":{"labels":' * 40_000, b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"spec":{"x":' + b"[" * 600 + b"]" * 600 + b"}}",
    ],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_hostile_bodies_are_refused(data: bytes) -> None:
    for validation in ("Ignore", "Strict"):
        with pytest.raises(BadRequestError):
            codec.from_json(data, core.Pod, validation=validation)  # type: ignore[arg-type]


def test_huge_bodies_are_refused() -> None:
    with pytest.raises(RequestTooLargeError, match="4194304 bytes"):
        codec.from_json(b" " * (4 * 1024 * 1024), core.Pod)


def test_halves_of_surrogates_in_plain_values_are_refused() -> None:
    with pytest.raises(BadRequestError, match="surrogate"):
        codec.from_json({"metadata": {"name": "\ud800"}}, core.Pod)
    with pytest.raises(BadRequestError, match=r"spec\.priority") as raised:
        codec.from_json({"spec": {"priority": "\ud800"}}, core.Pod)
    assert raised.value.to_status().message
    with pytest.raises(BadRequestError):
        codec.from_json({"data": {"x": "\ud800"}}, apps.ControllerRevision)


def test_deep_but_allowed_nesting_is_read() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH - 5):
        value = [value]
    assert json.loads(_read({"data": value}, apps.ControllerRevision).data.raw) == value
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    message = _read({"openAPIV3Schema": schema}, apiextensions.CustomResourceValidation)
    assert codec.to_json(message) == {"openAPIV3Schema": schema}


# --- protobuf ---------------------------------------------------------------------------------------------------------


def test_protobuf_is_checked_before_it_is_kept() -> None:
    raw = core.Pod(metadata=meta.ObjectMeta(name="a")).SerializeToString()
    assert codec.from_protobuf(raw + b"\xfa\x7f\x01x", core.Pod).SerializeToString() == raw
    for wrong in (b"\xff", b"\x0a\x03\x0a\x01\xff", b"\x0a\x7f"):
        with pytest.raises(BadRequestError, match="no protobuf Pod"):
            codec.from_protobuf(wrong, core.Pod)
    revision = apps.ControllerRevision()
    revision.data.raw = b"{"
    with pytest.raises(BadRequestError, match="must hold JSON"):
        codec.canonical_bytes(revision)
