from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.message import Message

from wharfinger import encryptionkeys
from wharfinger.api import codec, encryption, kinds, storage, storagecheck, storedjson
from wharfinger.api.encryption import Transformer
from wharfinger.api.errors import InternalError
from wharfinger.api.types import apiextensions, core, meta

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[4] / "shared"))
CORPUS = SHARED / "golden" / "api" / "storage.jsonl"
needs_corpus = pytest.mark.skipif(not CORPUS.is_file(), reason="the golden corpus is not beside this checkout")


def _lines() -> list[bytes]:
    return CORPUS.read_bytes().splitlines() if CORPUS.is_file() else []


@needs_corpus
@pytest.mark.parametrize("line", _lines(), ids=lambda line: json.loads(line)["key"])
def test_recorded_object(line: bytes) -> None:
    (outcome,) = storagecheck.check_lines([line])
    assert outcome.problems == []


@needs_corpus
def test_presence_that_clients_leave_out_is_filled_in() -> None:
    for line in _lines():
        entry = json.loads(line)
        value = base64.b64decode(entry["value"])
        if storage.is_custom(value) or value[:1] == b"{":
            continue
        message = storage.decode(value)
        before = message.SerializeToString(deterministic=True)
        _drop_zeros(message)
        assert storage.encode(message) == value
        assert message.SerializeToString(deterministic=True) != before  # the object itself is left alone


def _drop_zeros(message: Message) -> None:
    """Clear every field that is zero and not a pointer, as a client that knows no presence would send it."""
    for field in codec.schema.info_of(codec.schema.descriptor_of(message)).fields:
        value = getattr(message, field.name)
        if field.is_map:
            if field.message is not None:
                for item in value.values():
                    _drop_zeros(item)
        elif field.repeated:
            if field.message is not None:
                for item in value:
                    _drop_zeros(item)
        elif message.HasField(field.name):
            if field.message is not None:
                _drop_zeros(value)
                if not field.pointer and not value.ListFields():
                    message.ClearField(field.name)
            elif not field.pointer and not value and field.scalar != "bytes" and message.DESCRIPTOR.name != "Time":
                message.ClearField(field.name)


def _corpus_line(message: Message) -> dict[str, object]:
    value = storage.encode(message)
    return {"key": "k", "value": base64.b64encode(value).decode(), "json": codec.to_json(message)}


def _pod() -> core.Pod:
    return codec.from_json(
        {
            "metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        },
        core.Pod,
    ).message


def test_the_check_finds_what_is_wrong(tmp_path: Path) -> None:
    good = _corpus_line(_pod())
    wrong_json = json.loads(json.dumps(good))
    wrong_json["json"]["spec"]["containers"][0]["name"] = "d"
    wrong_bytes = {**good, "value": base64.b64encode(storage.wrap("v1", "Pod", _pod().SerializeToString())).decode()}
    unknown = {**good, "value": base64.b64encode(storage.wrap("v9", "Pot", b"")).decode()}
    file = tmp_path / "corpus.jsonl"
    lines = [json.dumps(line) for line in (good, wrong_json, wrong_bytes, unknown)]
    file.write_text("\n".join([*lines, "{", ""]))
    command = [sys.executable, "-m", "wharfinger.api.storage", "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "1 passed, 4 failed"
    file.write_text(json.dumps(good))
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "1 passed, 0 failed\n"
    assert storagecheck.main(["check", str(tmp_path / "none")]) == 2
    assert storagecheck.main([]) == 2


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind.stored], ids=lambda kind: kind.kind)
def test_every_kind_survives_storage(kind: kinds.Kind) -> None:
    message = kind.message()
    message.metadata.name = "a"  # type: ignore[attr-defined]
    value = storage.encode(message)
    again = storage.decode(value)
    if value[:1] != b"{":
        assert storage.unwrap(value)[:2] == (kind.api_version, kind.kind)
    assert storage.encode(again) == value
    assert codec.to_json(again) == codec.to_json(message)


def test_versions_are_overlaid_without_decoding() -> None:
    raw = codec.canonical_bytes(_pod())
    message = core.Pod.FromString(storage.with_resource_version(raw, 12345678901234))
    assert message.metadata.resourceVersion == "12345678901234"
    message.metadata.resourceVersion = ""
    assert message == core.Pod.FromString(raw)


def test_broken_values_are_told() -> None:
    for value in (
        b"",
        b"nonsense",
        b"k8s\0\xff\xff",
        b"k8s\0",
        storage.wrap("v1", "Pod", b"\xff"),
        b"[1]",
        b"{",
        b"{}",
    ):
        with pytest.raises(InternalError, match="stored"):
            storage.decode(value)


def test_go_writes_json_in_its_own_way() -> None:
    value = {
        "b": "<a&b>\u2028é",
        "a": [1.0, 1.5, 1e20, 1e21, 1e-6, 1e-7, -0.0, 123456789.125, 1.5e-5, True, None, 2**63],
    }
    assert storedjson.go_json(value, sort_keys=True) == (
        b'{"a":[1,1.5,100000000000000000000,1e+21,0.000001,1e-7,-0,123456789.125,0.000015,true,null,9223372036854775808],'
        b'"b":"\\u003ca\\u0026b\\u003e\\u2028\xc3\xa9"}\n'
    )


def test_definitions_are_stored_in_their_old_version() -> None:
    column = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema, "additionalPrinterColumns": [column]}
        for name in ("v1", "v2")
    ]
    versions[1]["subresources"] = {"status": {}}
    document = {
        "metadata": {"name": "lamps.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": versions,
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]},
            },
        },
    }
    message = codec.from_json(document, apiextensions.CustomResourceDefinition, validation="Strict").message
    stored = json.loads(storage.encode(message))
    assert stored["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    spec = stored["spec"]
    assert spec["version"] == "v1"
    assert spec["validation"] == schema
    assert spec["additionalPrinterColumns"] == [{"name": "Age", "type": "date", "JSONPath": column["jsonPath"]}]
    assert spec["versions"] == [
        {"name": "v1", "served": True, "storage": True},
        {"name": "v2", "served": True, "storage": False, "subresources": {"status": {}}},
    ]
    assert spec["conversion"] == {
        "strategy": "Webhook",
        "webhookClientConfig": {"url": "https://x"},
        "conversionReviewVersions": ["v1"],
    }
    again = storage.decode(storage.encode(message))
    assert codec.to_json(again) == codec.to_json(message)


def test_times_and_quantities_are_stored_canonically() -> None:
    pod = _pod()
    pod.metadata.deletionTimestamp.CopyFrom(meta.Time(seconds=7, nanos=5))
    pod.spec.containers[0].resources.requests["cpu"].string = "1000m"
    again = storage.decode(storage.encode(pod))
    assert isinstance(again, core.Pod)
    assert again.metadata.deletionTimestamp.nanos == 0
    assert again.spec.containers[0].resources.requests["cpu"].string == "1"
    assert pod.spec.containers[0].resources.requests["cpu"].string == "1000m"


def test_an_encrypted_corpus_is_checked_with_its_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "encryption.yaml"
    encryptionkeys.ensure(config)
    key = "/registry/secrets/default/s"
    secret = core.Secret()
    secret.metadata.name, secret.metadata.namespace = "s", "default"
    secret.data["password"] = b"hunter2"
    sealed = Transformer(encryption.load(config)).seal(key, storage.encode(secret))
    entry = {"key": key, "value": base64.b64encode(sealed).decode(), "json": codec.to_json(secret)}
    corpus = tmp_path / "corpus"
    corpus.write_text(json.dumps(entry))
    flag = "--encryption-provider-config"
    assert storagecheck.main(["check", str(corpus), flag, str(config)]) == 0
    assert storagecheck.main(["check", str(corpus)]) == 1
    assert storagecheck.main(["check", str(corpus), flag, str(corpus)]) == 2
    encryptionkeys.add_key(config)
    encryptionkeys.use_newest(config)
    encryptionkeys.drop_old(config)
    assert storagecheck.main(["check", str(corpus), flag, str(config)]) == 1
    assert f'unable to transform key "{key}"' in capsys.readouterr().out
