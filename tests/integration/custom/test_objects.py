"""What can be done with custom objects: schemas, subresources, tables, selectors, apply, formats."""

from __future__ import annotations

from typing import Any

from tests.integration.custom.conftest import DEFINITIONS, Http, definition, lamp, spec, version

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def path(group: str, name: str = "", version: str = "v1") -> str:
    return f"/apis/{group}/{version}/namespaces/default/lamps{'/' if name else ''}{name}"


async def test_schema(http: Http, group: str) -> None:
    properties = {
        "watts": {"type": "integer", "minimum": 1, "maximum": 100},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "when": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 3},
        "parts": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
        },
        "either": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                   "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "maybe": {"type": "string", "nullable": True},
        "kind_": {"type": "string", "enum": ["x", "y"], "default": "x"},
        "inner": {
            "type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }  # fmt: skip
    await http.create(DEFINITIONS, definition(group, version(schema=spec(properties, required=["watts"]))))
    good = {
        "watts": 5, "name": "abc", "when": "2026-01-01T00:00:00Z", "port": "http", "tags": ["a", "b"],
        "parts": [{"id": "1"}], "either": {"a": 1}, "maybe": None, "labels": {"k": "v"},
        "inner": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "free": 1},
    }  # fmt: skip
    made = await http.create(path(group), lamp(group, "good", spec={**good, "unknown": 1}))
    assert made["spec"] == {**good, "kind_": "x"}

    async def wrong(value: Any) -> dict[str, str]:
        reply = await http.ask("POST", path(group), lamp(group, "bad", spec=value))
        assert reply.status == 422, reply.body
        return reply.causes

    assert await wrong({}) == {"spec.watts": "FieldValueRequired"}
    assert await wrong({"watts": 0}) == {"spec.watts": "FieldValueInvalid"}
    assert await wrong({"watts": "5"}) == {"spec.watts": "FieldValueTypeInvalid"}
    assert await wrong({"watts": 1, "name": "ABC"}) == {"spec.name": "FieldValueInvalid"}
    assert await wrong({"watts": 1, "name": "abcdef"}) == {"spec.name": "FieldValueTooLong"}
    assert await wrong({"watts": 1, "when": "yesterday"}) == {"spec.when": "FieldValueTypeInvalid"}
    assert await wrong({"watts": 1, "port": True}) == {"spec.port": "FieldValueTypeInvalid"}
    assert await wrong({"watts": 1, "tags": ["a", "a"]}) == {"spec.tags[1]": "FieldValueDuplicate"}
    assert await wrong({"watts": 1, "tags": ["a", "b", "c", "d"]}) == {"spec.tags": "FieldValueTooMany"}
    assert await wrong({"watts": 1, "parts": [{"id": "1"}, {"id": "1"}]}) == {"spec.parts[1]": "FieldValueDuplicate"}
    assert await wrong({"watts": 1, "parts": [{}]}) == {"spec.parts[0].id": "FieldValueRequired"}
    assert await wrong({"watts": 1, "kind_": "z"}) == {"spec.kind_": "FieldValueNotSupported"}
    assert await wrong({"watts": 1, "labels": {"k": 1}}) == {"spec.labels.k": "FieldValueTypeInvalid"}
    assert await wrong({"watts": 1, "inner": {"kind": "Thing"}}) == {"spec.inner.apiVersion": "FieldValueRequired"}
    assert "<nil>" in await wrong({"watts": 1, "either": {"a": 1, "b": 2}})
    strict = await http.ask(
        "POST", path(group) + "?fieldValidation=Strict", lamp(group, "s", spec={"watts": 1, "q": 1})
    )
    assert strict.status == 400
    assert 'unknown field "spec.q"' in strict.json["message"]


async def test_ratcheting(http: Http, group: str) -> None:
    """What was stored under a laxer schema may stay while something else changes."""
    await http.create(
        DEFINITIONS, definition(group, version(schema=spec({"a": {"type": "string"}, "b": {"type": "string"}})))
    )
    await http.create(path(group), lamp(group, "x", spec={"a": "long enough", "b": "1"}))
    found = await http.get(f"{DEFINITIONS}/lamps.{group}")
    inner = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    inner["a"]["maxLength"] = 3
    assert (await http.ask("PUT", f"{DEFINITIONS}/lamps.{group}", found)).status == 200
    kept = await http.ask("PATCH", path(group, "x"), {"spec": {"b": "2"}}, Content_Type=MERGE)
    assert kept.status == 200, kept.body
    changed = await http.ask("PATCH", path(group, "x"), {"spec": {"a": "also long"}}, Content_Type=MERGE)
    assert changed.causes == {"spec.a": "FieldValueTooLong"}


async def test_status_and_generation(http: Http, group: str) -> None:
    await http.create(
        DEFINITIONS, definition(group, version(schema=spec({"n": {"type": "integer"}}), subresources={"status": {}}))
    )
    made = await http.create(path(group), lamp(group, "a", spec={"n": 1}, status={"x": 1}))
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    labelled = await http.ask("PATCH", path(group, "a"), {"metadata": {"labels": {"a": "b"}}}, Content_Type=MERGE)
    assert labelled.json["metadata"]["generation"] == 1
    status = await http.ask(
        "PATCH", path(group, "a/status"), {"status": {"x": 1}, "spec": {"n": 9}, "metadata": {"labels": {"c": "d"}}},
        Content_Type=MERGE,
    )  # fmt: skip
    assert status.json["status"] == {"x": 1}
    assert status.json["spec"] == {"n": 1}
    assert status.json["metadata"]["labels"] == {"a": "b"}
    assert status.json["metadata"]["generation"] == 1
    changed = await http.ask("PATCH", path(group, "a"), {"spec": {"n": 2}, "status": {"x": 2}}, Content_Type=MERGE)
    assert changed.json["metadata"]["generation"] == 2
    assert changed.json["status"] == {"x": 1}
    blind = await http.ask("PUT", path(group, "a"), lamp(group, "a", spec={"n": 3}))
    assert blind.status == 422
    assert list(blind.causes) == ["metadata.resourceVersion"]
    stale = {**changed.json, "metadata": {**changed.json["metadata"], "resourceVersion": "1"}}
    assert (await http.ask("PUT", path(group, "a"), stale)).status == 409


async def test_scale(http: Http, group: str) -> None:
    places = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.selector"}
    await http.create(DEFINITIONS, definition(group, version(subresources={"status": {}, "scale": places})))
    await http.create(path(group), lamp(group, "a", spec={"n": 3}))
    await http.ask("PATCH", path(group, "a/status"), {"status": {"n": 2, "selector": "a=b"}}, Content_Type=MERGE)
    shown = await http.get(path(group, "a/scale"))
    assert (shown["spec"], shown["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    scaled = await http.ask("PATCH", path(group, "a/scale"), {"spec": {"replicas": 5}}, Content_Type=MERGE)
    assert scaled.status == 200, scaled.body
    now = await http.get(path(group, "a"))
    assert (now["spec"]["n"], now["metadata"]["generation"]) == (5, 2)
    shown["spec"]["replicas"] = -1
    del shown["metadata"]["resourceVersion"]
    assert (await http.ask("PUT", path(group, "a/scale"), shown)).status == 422


async def test_columns_and_metadata(http: Http, group: str) -> None:
    columns = [
        {"name": "Watts", "type": "integer", "jsonPath": ".spec.watts"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status', "priority": 1},
        {"name": "Made", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    await http.create(DEFINITIONS, definition(group, version(additionalPrinterColumns=columns)))
    conditions = [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]
    await http.create(path(group), lamp(group, "a", spec={"watts": 5}, status={"conditions": conditions}))
    table = await http.get(path(group), Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Watts", "Ready", "Made"]
    assert table["rows"][0]["cells"][:3] == ["a", 5, "True"]
    partial = await http.get(path(group), Accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    assert [item["metadata"]["name"] for item in partial["items"]] == ["a"]
    assert (await http.ask("GET", path(group, "a"), Accept="application/vnd.kubernetes.protobuf")).status == 406
    sent = await http.ask("POST", path(group), b"k8s\0", Content_Type="application/vnd.kubernetes.protobuf")
    assert sent.status in (400, 415)
    yaml = await http.ask("GET", path(group, "a"), Accept="application/yaml")
    assert yaml.status == 200
    assert b"kind: Lamp" in yaml.body


async def test_selectable_fields(http: Http, group: str) -> None:
    schema = spec({"color": {"type": "string"}, "on": {"type": "boolean"}})
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.on"}]
    await http.create(DEFINITIONS, definition(group, version(schema=schema, selectableFields=fields)))
    await http.create(path(group), lamp(group, "a", spec={"color": "red", "on": True}))
    await http.create(path(group), lamp(group, "b", spec={"color": "blue"}))

    async def names(selector: str) -> list[str]:
        found = await http.get(f"{path(group)}?fieldSelector={selector}")
        return [item["metadata"]["name"] for item in found["items"]]

    assert await names("spec.color=red") == ["a"]
    assert await names("spec.color!=red") == ["b"]
    assert await names("spec.on=true") == ["a"]
    assert (await http.ask("GET", f"{path(group)}?fieldSelector=spec.size=1")).status == 400
    assert (await http.ask("DELETE", f"{path(group)}?fieldSelector=spec.color=red")).status == 200
    assert await names("metadata.name=a") == []


async def test_apply_takes_kinds_of_lists_from_the_schema(http: Http, group: str) -> None:
    parts = {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "proto"],
        "items": {"type": "object", "required": ["id"], "properties": {
            "id": {"type": "string"}, "proto": {"type": "string", "default": "TCP"}, "v": {"type": "integer"}}},
    }  # fmt: skip
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await http.create(DEFINITIONS, definition(group, version(schema=spec({"parts": parts, "free": free}))))

    async def apply(manager: str, value: Any, *, force: bool = False) -> Any:
        return await http.ask(
            "PATCH", path(group, "a") + f"?fieldManager={manager}&force={str(force).lower()}",
            lamp(group, "a", spec=value), Content_Type=APPLY,
        )  # fmt: skip

    first = await apply("one", {"parts": [{"id": "a", "v": 1}], "free": {"x": {"y": 1}}})
    assert first.status == 201, first.body
    owned = first.json["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert 'k:{"id":"a","proto":"TCP"}' in owned["f:parts"]
    second = await apply("two", {"parts": [{"id": "b", "v": 2}], "free": {"x": {"z": 1}}})
    assert [part["id"] for part in second.json["spec"]["parts"]] == ["a", "b"]
    assert second.json["spec"]["free"] == {"x": {"y": 1, "z": 1}}
    clash = await apply("two", {"parts": [{"id": "a", "v": 9}]})
    assert clash.status == 409
    assert list(clash.causes) == ['.spec.parts[id="a",proto="TCP"].v']
    forced = await apply("two", {"parts": [{"id": "a", "v": 9}]}, force=True)
    assert forced.json["spec"]["parts"] == [{"id": "a", "proto": "TCP", "v": 9}]
    assert (await apply("two", {"nothing": 1})).status == 500


async def test_a_dry_run_stores_nothing(http: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group))
    assert (await http.ask("POST", path(group) + "?dryRun=All", lamp(group, "a"))).status == 201
    assert (await http.get(path(group)))["items"] == []


async def test_paging_and_generated_names(http: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group))
    for _ in range(5):
        body = lamp(group, "")
        body["metadata"] = {"generateName": "lamp-"}
        await http.create(path(group), body)
    first = await http.get(path(group) + "?limit=2")
    assert len(first["items"]) == 2
    assert first["metadata"]["remainingItemCount"] == 3
    rest = await http.get(path(group) + f"?limit=10&continue={first['metadata']['continue']}")
    assert len(rest["items"]) == 3
    assert rest["metadata"]["continue"] == ""


async def test_rules_in_cel(http: Http, group: str) -> None:
    rules = [
        {"rule": "self.min <= self.max", "message": "min must not be above max"},
        {
            "rule": "!has(oldSelf.fixed) || self.fixed == oldSelf.fixed", "reason": "FieldValueForbidden",
            "fieldPath": ".fixed",
        },
    ]  # fmt: skip
    schema = spec({"min": {"type": "integer"}, "max": {"type": "integer"}, "fixed": {"type": "string"}})
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.minn > 1"}]
    refused = await http.ask("POST", DEFINITIONS, definition(group, version(schema=schema)))
    place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert refused.causes == {place: "FieldValueInvalid"}
    schema["properties"]["spec"]["x-kubernetes-validations"] = rules
    await http.create(DEFINITIONS, definition(group, version(schema=schema)))
    await http.create(path(group), lamp(group, "a", spec={"min": 1, "max": 2, "fixed": "x"}))
    wrong = await http.ask("PATCH", path(group, "a"), {"spec": {"min": 5}}, Content_Type=MERGE)
    assert wrong.causes == {"spec": "FieldValueInvalid"}
    assert "min must not be above max" in wrong.json["message"]
    changed = await http.ask("PATCH", path(group, "a"), {"spec": {"fixed": "y"}}, Content_Type=MERGE)
    assert changed.causes == {"spec.fixed": "FieldValueForbidden"}


async def test_a_conversion_webhook_is_not_pretended(http: Http, group: str) -> None:
    wanted = definition(group, version("v1"), version("v1beta1", storage=False))
    service = {"service": {"namespace": "default", "name": "converter"}, "caBundle": ""}
    wanted["spec"]["conversion"] = {
        "strategy": "Webhook", "webhook": {"clientConfig": service, "conversionReviewVersions": ["v1"]}
    }  # fmt: skip
    made = await http.ask("POST", DEFINITIONS, wanted)
    assert made.status == 201, made.body
    assert "v1beta1" in made.headers["Warning"]
    assert (await http.ask("GET", path(group))).status == 200
    assert (await http.ask("GET", path(group, version="v1beta1"))).status == 404


async def test_metadata_alone_has_a_protobuf_form(http: Http, group: str) -> None:
    await http.create(DEFINITIONS, definition(group))
    await http.create(path(group), lamp(group, "a"))
    accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    reply = await http.ask("GET", path(group), Accept=accept)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/vnd.kubernetes.protobuf"
    assert reply.body.startswith(b"k8s\0")
