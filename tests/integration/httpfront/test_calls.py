"""Verbs over HTTP: codes, bodies, options, warnings."""

from __future__ import annotations

from typing import Any

from tests.integration.httpfront.conftest import Http


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_an_object_lives_and_dies(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    made = await http.ask("POST", maps, config_map("a", k="v"))
    assert (made.status, made.json["kind"], made.json["data"]) == (201, "ConfigMap", {"k": "v"})
    assert made.json["metadata"]["uid"]
    again = await http.ask("POST", maps, config_map("a"))
    assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
    changed = made.json | {"data": {"k": "w"}}
    put = await http.ask("PUT", f"{maps}/a", changed)
    assert (put.status, put.json["data"]) == (200, {"k": "w"})
    stale = await http.ask("PUT", f"{maps}/a", changed)
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    patched = await http.ask(
        "PATCH", f"{maps}/a", {"data": {"x": "1", "k": None}}, Content_Type="application/merge-patch+json"
    )
    assert patched.json["data"] == {"x": "1"}
    gone = await http.ask("DELETE", f"{maps}/a", {"propagationPolicy": "Background"})
    assert (gone.status, gone.json["status"], gone.json["details"]["name"]) == (200, "Success", "a")
    missing = await http.ask("GET", f"{maps}/a")
    assert (missing.status, missing.json["details"]) == (404, {"name": "a", "kind": "configmaps"})


async def test_lists_page_and_select(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in "abc":
        body = config_map(name)
        body["metadata"]["labels"] = {"odd": str(name != "b")}
        assert (await http.ask("POST", maps, body)).status == 201
    first = (await http.ask("GET", f"{maps}?limit=2")).json
    assert ([item["metadata"]["name"] for item in first["items"]], first["metadata"]["remainingItemCount"]) == (
        ["a", "b"],
        1,
    )
    assert "kind" not in first["items"][0]
    rest = (await http.ask("GET", f"{maps}?limit=2&continue={first['metadata']['continue']}")).json
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    odd = (await http.ask("GET", f"{maps}?labelSelector=odd%3DTrue")).json
    assert [item["metadata"]["name"] for item in odd["items"]] == ["a", "c"]
    assert (await http.ask("GET", f"{maps}?limit=many")).status == 400
    swept = (await http.ask("DELETE", f"{maps}?labelSelector=odd%3DTrue")).json
    assert [item["metadata"]["name"] for item in swept["items"]] == ["a", "c"]


async def test_options_of_writes_are_checked(http: Http, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    dry = await http.ask("POST", f"{maps}?dryRun=All", config_map("dry"))
    assert dry.status == 201
    assert (await http.ask("GET", f"{maps}/dry")).status == 404
    for query, field in (
        ("dryRun=some", "dryRun"),
        ("fieldValidation=Sometimes", "fieldValidation"),
        (f"fieldManager={'m' * 129}", "fieldManager"),
    ):
        refused = await http.ask("POST", f"{maps}?{query}", config_map("no"))
        causes = [cause["field"] for cause in refused.json["details"]["causes"]]
        assert (refused.status, causes) == (422, [field])
    odd = config_map("odd") | {"dataa": {}}
    warned = await http.ask("POST", maps, odd)
    assert warned.status == 201
    assert warned.headers["Warning"] == '299 - "unknown field \\"dataa\\""'
    strict = await http.ask("POST", f"{maps}?fieldValidation=Strict", odd)
    assert (strict.status, strict.json["reason"]) == (400, "BadRequest")


async def test_who_asks_matters(http: Http, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert (await http.ask("GET", pods, token=None)).status == 403
    assert (await http.ask("GET", pods, token="nobody")).status == 401
    assert (await http.ask("GET", pods, token="alice-token")).status == 403
    assert (await http.ask("GET", "/api", token=None)).status == 403
    assert (await http.ask("GET", "/version", token=None)).json["minor"] == "36"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = await http.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, token="alice-token")
    assert who.json["status"]["userInfo"]["username"] == "alice"
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answers = [(await http.ask("POST", reviews, asked, token=f"{user}-token")).json for user in ("admin", "alice")]
    assert [answer["status"]["allowed"] for answer in answers] == [True, False]


async def test_old_and_new_autoscalers_are_one_object(http: Http, namespace: str) -> None:
    old, new = (f"/apis/autoscaling/{v}/namespaces/{namespace}/horizontalpodautoscalers" for v in ("v1", "v2"))
    spec: dict[str, Any] = {
        "maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "metrics": [
            {"type": "Resource", "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": n}}}
            for name, n in (("cpu", 50), ("memory", 70))
        ],
    }
    made = await http.ask("POST", new, {"metadata": {"name": "h"}, "spec": spec})
    assert made.status == 201, made.body
    seen = (await http.ask("GET", f"{old}/h")).json
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 50
    seen["spec"]["targetCPUUtilizationPercentage"] = 60
    assert (await http.ask("PUT", f"{old}/h", seen)).status == 200
    now = (await http.ask("GET", f"{new}/h")).json
    used = {metric["resource"]["name"]: metric["resource"]["target"] for metric in now["spec"]["metrics"]}
    assert {name: target["averageUtilization"] for name, target in used.items()} == {"cpu": 60, "memory": 70}
    assert "annotations" not in now["metadata"]


async def test_schema_and_discovery_name_each_other(http: Http) -> None:
    index = (await http.ask("GET", "/openapi/v3")).json["paths"]
    groups = {item["name"] for item in (await http.ask("GET", "/apis")).json["groups"]}
    assert {path.split("/")[1] for path in index if path.startswith("apis/")} == groups
    document = (await http.ask("GET", index["apis/apps/v1"]["serverRelativeURL"])).json
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {item["name"] for item in patch["parameters"]}
    described = document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]
    assert described["description"]
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    aggregated = await http.ask("GET", "/apis", Accept=wanted)
    assert aggregated.headers["Content-Type"] == wanted
    assert {item["metadata"]["name"] for item in aggregated.json["items"]} == groups


async def test_a_scale_is_applied(http: Http, namespace: str) -> None:
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    body = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }  # fmt: skip
    assert (await http.ask("POST", f"{sets}?fieldManager=maker", body)).status == 201

    def scale(replicas: int) -> dict[str, Any]:
        return {
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "r"}, "spec": {"replicas": replicas},
        }  # fmt: skip

    apply = {"Content_Type": "application/apply-patch+yaml"}
    refused = await http.ask("PATCH", f"{sets}/r/scale?fieldManager=scaler", scale(3), **apply)
    assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (409, ".spec.replicas")
    forced = await http.ask("PATCH", f"{sets}/r/scale?fieldManager=scaler&force=true", scale(3), **apply)
    assert (forced.status, forced.json["kind"], forced.json["spec"]) == (200, "Scale", {"replicas": 3})
    stored = (await http.ask("GET", f"{sets}/r")).json
    assert stored["spec"]["replicas"] == 3
    (mine,) = [owner for owner in stored["metadata"]["managedFields"] if owner["manager"] == "scaler"]
    assert (mine["operation"], mine["subresource"]) == ("Apply", "scale")
    assert mine["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    negative = await http.ask("PATCH", f"{sets}/r/scale?fieldManager=scaler&force=true", scale(-1), **apply)
    assert negative.status == 422
    nameless = await http.ask("PATCH", f"{sets}/r/scale", scale(2), **apply)
    assert nameless.status == 422
    missing = await http.ask(
        "PATCH", f"{sets}/other/scale?fieldManager=scaler", scale(2) | {"metadata": {"name": "other"}}, **apply
    )
    assert missing.status == 404


async def test_usage_can_only_be_read(http: Http, namespace: str) -> None:
    usage = "/apis/metrics.k8s.io/v1beta1"
    for path in (f"{usage}/nodes", f"{usage}/namespaces/{namespace}/pods"):
        listed = await http.ask("GET", path)
        assert (listed.status, listed.json["items"]) == (200, [])
        table = await http.ask("GET", path, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        assert (table.status, table.json["kind"]) == (200, "Table")
        missing = await http.ask("GET", f"{path}/nobody")
        assert (missing.status, missing.json["reason"]) == (404, "NotFound")
        for method in ("POST", "DELETE"):
            refused = await http.ask(method, path, {} if method == "POST" else None)
            assert (refused.status, refused.json["reason"]) == (405, "MethodNotAllowed")
