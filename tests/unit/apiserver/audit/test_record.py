"""A record from its beginning to its end, without a server around it."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from controlplane.apiserver import audit
from controlplane.apiserver.audit import Auditor, Source, policy, source
from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.request import User
from wharfinger.api import configfile, errors
from wharfinger.api.types import authentication, core

ASKED = Attributes(User("alice"), "create", "", "pods", "", "default", "", version="v1")


class Lines:
    """What would be a file."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def append(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        self.events.append(orjson.loads(line))


def auditor(level: str, lines: Lines) -> Auditor:
    text = f"{{apiVersion: audit.k8s.io/v1, kind: Policy, omitManagedFields: true, rules: [{{level: {level}}}]}}"
    read = policy.read(configfile.parse(text.encode(), api_version=policy.API_VERSION, kind="Policy"))
    return Auditor(read, lines)  # type: ignore[arg-type]


def begin(level: str = "Metadata") -> Lines:
    lines = Lines()
    auditor(level, lines).begin(ASKED, lambda: Source("/api/v1/namespaces/default/pods", ("192.0.2.1",), "agent", "id"))
    return lines


def test_a_success() -> None:
    lines = begin()
    audit.done()
    audit.end()
    audit.end()  # once more does nothing
    received, complete = lines.events
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert "responseStatus" not in received
    assert complete["responseStatus"] == {"metadata": {}, "code": 200}
    assert audit.current() is None


def test_an_error_that_nobody_foresaw_is_a_panic() -> None:
    lines = begin()
    audit.failed(errors.InternalError("an error on the server"), unforeseen=True)
    audit.end()
    assert lines.events[-1]["stage"] == "Panic"
    assert lines.events[-1]["responseStatus"]["code"] == 500


def test_a_client_that_went_away() -> None:
    lines = begin()
    audit.end()
    assert lines.events[-1]["responseStatus"]["message"] == "Connection closed early"


def test_the_body_fills_in_what_the_address_lacks() -> None:
    lines = begin("Request")
    pod = core.Pod()
    pod.metadata.name, pod.metadata.namespace = "web", "other"
    pod.metadata.managedFields.add(manager="m")
    record = audit.current()
    assert record is not None
    record.requested(pod)
    pod.metadata.name = "changed later on"
    audit.end()
    event = lines.events[-1]
    assert event["objectRef"] == {"resource": "pods", "namespace": "default", "name": "web", "apiVersion": "v1"}
    assert event["requestObject"]["metadata"] == {"name": "web", "namespace": "other"}


@pytest.mark.parametrize(
    ("patch", "wanted"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'[{"op": "remove", "path": "/a"}]', [{"op": "remove", "path": "/a"}]),
        (b"kind: Pod\nspec: {}\n", {"kind": "Pod", "spec": {}}),
        (b"\xff{", "\ufffd{"),
    ],
)
def test_patches_are_shown_as_json(patch: bytes, wanted: object) -> None:
    lines = begin("Request")
    record = audit.current()
    assert record is not None
    record.patched(patch)
    audit.end()
    assert lines.events[-1]["requestObject"] == wanted


def test_no_token_is_shown() -> None:
    lines = begin("RequestResponse")
    record = audit.current()
    assert record is not None
    review = authentication.TokenReview()
    review.spec.token = "hunter2"
    record.requested(review)
    audit.end()
    assert lines.events[-1]["requestObject"]["spec"]["token"] == "(a token)"
    assert review.spec.token == "hunter2"


def test_the_first_annotation_stands_and_a_no_outweighs_a_yes() -> None:
    lines = begin()
    audit.annotate("a", "first")
    audit.annotate("a", "second")
    record = audit.current()
    assert record is not None
    record.authorized(allowed=True, reason="one")
    record.authorized(allowed=True, reason="two")
    assert record.annotations["authorization.k8s.io/reason"] == "one"
    record.authorized(allowed=False, reason="three")
    record.authorized(allowed=True, reason="four")
    audit.end()
    wanted = {"a": "first", "authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": "three"}
    assert lines.events[-1]["annotations"] == wanted


def test_what_is_known_before_there_is_a_record() -> None:
    audit.annotate_early("early", "yes")
    lines = begin()
    audit.end()
    assert lines.events[-1]["annotations"] == {"early": "yes"}
    assert "annotations" not in begin().events[-1]
    audit.end()
    audit.annotate_early("early", "yes")
    begin("None")
    audit.end()
    assert "annotations" not in begin().events[-1]
    audit.end()


async def test_each_task_has_its_own_record() -> None:
    lines = Lines()
    made = auditor("Metadata", lines)

    async def one(name: str) -> None:
        made.begin(ASKED, lambda: Source(name))
        await asyncio.sleep(0)
        audit.annotate("name", name)
        await asyncio.sleep(0)
        audit.end()

    await asyncio.gather(*(one(str(number)) for number in range(20)))
    ended = [event for event in lines.events if event["stage"] == "ResponseComplete"]
    assert len(ended) == 20
    assert all(event["annotations"] == {"name": event["requestURI"]} for event in ended)
    assert audit.current() is None


def test_what_cannot_be_written_loses_its_line_and_nothing_else() -> None:
    lines = Lines()
    made = auditor("Metadata", lines)
    made.begin(ASKED, lambda: Source("/\udcff"))
    audit.end()
    assert (lines.events, made.broken) == ([], 2)


def test_where_a_request_came_from() -> None:
    assert source.addresses("::1") == ("::1",)
    assert source.addresses("10.0.0.1", "192.0.2.1, nonsense, 192.0.2.2", "192.0.2.3") == (
        "192.0.2.1", "192.0.2.2", "192.0.2.3", "10.0.0.1",
    )  # fmt: skip
    assert source.addresses("10.0.0.1", "192.0.2.1, 10.0.0.1") == ("192.0.2.1", "10.0.0.1")
    assert source.audit_id("mine") == "mine"
    assert source.audit_id("x" * 65) != "x" * 65
    assert source.audit_id("a\nb") != "a\nb"
    assert source.agent("x" * 2000) == "x" * 1024 + "...TRUNCATED"
