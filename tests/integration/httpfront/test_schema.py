"""schemathesis on the project's own OpenAPI: requests made from the documents, and others that break them.

No answer is a fault of the server's, and each is of a shape that the document announces. The examples are the same in
every run. A few an operation are tried; ``WHARFINGER_SCHEMA_EXAMPLES=200`` tries that many. For the fuzzer to get
anywhere, names are of a small set, bodies get such a name, and watches end after a second.
"""

from __future__ import annotations

import json
import logging
import os
import ssl
import tempfile
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd
from wharfinger import pki

schemathesis: Any = pytest.importorskip("schemathesis", reason="needs the extra `test` (pip install -e .[test])")

import hypothesis  # noqa: E402
import requests  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402

EXAMPLES = int(os.environ.get("WHARFINGER_SCHEMA_EXAMPLES", "2"))
NAMES = ["fuzz", "kube-system", "default"]
NAMESPACES = ["arena", "default"]
"""They are there, and nothing of the above deletes them."""
JSON = "application/json"
_METHODS = ("get", "put", "post", "delete", "patch")
BODIES = (JSON, "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml")
KUBERNETES_OWN = (
    "resourceVersion: Invalid value",
    "resourceVersion should not be set",
    "$patch",
    "$setElementOrder",
    "lacks",
    "mixes",
    "target.",
)
"""What Kubernetes itself answers with 500: recorded in the golden conversations, so it is 500 here."""


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Apiserver]:
    """A server of its own: what is done to it would hurt other tests."""
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd, tempfile.TemporaryDirectory() as folder:
        pki.ensure_signing_key(folder)
        key = f"{folder}/sa.key"
        with Apiserver(etcd.endpoint, "--service-account-signing-key-file", key) as running:
            yield running


@pytest.fixture(scope="module")
def session(fuzzed: Apiserver) -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.verify = str(fuzzed.folder / "ca.crt")
        made.headers["Authorization"] = "Bearer admin-token"
        made.headers["Accept"] = JSON
        yield made


def _base(server: Apiserver) -> str:
    return f"https://127.0.0.1:{server.secure_port}"


def _documents(server: Apiserver) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))

    def get(path: str) -> Any:
        request = urllib.request.Request(_base(server) + path, headers={"Authorization": "Bearer admin-token"})
        with urllib.request.urlopen(request, context=context) as answer:
            return json.load(answer)

    return {name: get(f"/openapi/v3/{name}") for name in get("/openapi/v3")["paths"]}


def _narrowed(document: Any) -> Any:
    """Return the document with what a fuzzer needs to get somewhere in time."""
    for item in document["paths"].values():
        for parameter in item.get("parameters", []):
            parameter["schema"]["enum"] = NAMESPACES if parameter["name"] == "namespace" else NAMES
        for method in _METHODS:
            if method not in item:
                continue
            operation = item[method]
            operation["parameters"] = [one for one in operation["parameters"] if one["name"] not in ("watch", "follow")]
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]
                operation["requestBody"]["content"] = {kind: content[kind] for kind in content if kind in BODIES}
            for answer in operation["responses"].values():
                kept = {kind: value for kind, value in answer.get("content", {}).items() if "/json" in kind}
                answer["content"] = kept or answer.get("content", {})
    return document


def _named(case: Any, number: int) -> None:
    """Give a body a name that fits its path, in most cases."""
    if isinstance(case.body, dict) and number % 4 and case.method in ("POST", "PUT"):
        metadata = case.body.setdefault("metadata", {})
        if isinstance(metadata, dict):
            metadata["name"] = (case.path_parameters or {}).get("name", NAMES[number % len(NAMES)])
            for field in ("namespace", "uid", "resourceVersion", "generateName"):
                metadata.pop(field, None)


def _allowed(status: int, body: bytes) -> bool:
    if status < 500:
        return True
    found = json.loads(body)
    if status == 504:
        causes = found.get("details", {}).get("causes", [])
        return any(cause["reason"] == "ResourceVersionTooLarge" for cause in causes)
    return status == 500 and "reason" not in found and any(text in found["message"] for text in KUBERNETES_OWN)


def _fuzz(
    operation: Any, mode: GenerationMode, server: Apiserver, session: requests.Session, counts: dict[int, int]
) -> None:
    checks = [schemathesis.checks.CHECKS.get_one("response_schema_conformance")]
    checks.append(schemathesis.checks.CHECKS.get_one("status_code_conformance"))
    checks.append(schemathesis.checks.CHECKS.get_one("content_type_conformance"))

    @hypothesis.settings(
        max_examples=EXAMPLES if mode is GenerationMode.POSITIVE else max(EXAMPLES // 2, 1),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        number = sum(counts.values())
        if mode is GenerationMode.POSITIVE:
            _named(case, number)
        response = case.call(base_url=_base(server), session=session, verify=session.verify, timeout=20)
        counts[response.status_code] = counts.get(response.status_code, 0) + 1
        assert _allowed(response.status_code, response.content), (case.as_curl_command(), response.content[:500])
        if response.status_code < 500:
            case.validate_response(response, checks=checks)

    run()


def test_no_request_that_the_document_can_make_is_a_fault_of_the_server(
    fuzzed: Apiserver, session: requests.Session
) -> None:
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    arena = {"metadata": {"name": NAMESPACES[0]}}
    made = session.post(f"{_base(fuzzed)}/api/v1/namespaces", json=arena, verify=session.verify)
    assert made.status_code == 201
    counts: dict[int, int] = {}
    failures: list[str] = []
    for name, document in _documents(fuzzed).items():
        schema = schemathesis.openapi.from_dict(_narrowed(document))
        for result in schema.get_all_operations():
            operation = result.ok()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                try:
                    _fuzz(operation, mode, fuzzed, session, counts)
                except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  (all are wanted, not only the first)
                    failures.append(f"{name} {operation.method.upper()} {operation.path} {mode}: {error!r}"[:1500])
    log = fuzzed.log.read_text()
    assert not failures, f"{len(failures)} operations:\n" + "\n\n".join(failures[:30])
    assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:3000]
    assert counts.get(200, 0) > 100
    assert counts.get(201, 0) > 10, counts
