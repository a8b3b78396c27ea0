"""``wharf`` on kinds that only the server knows."""

from __future__ import annotations

import json

import yaml

from tests.integration.cli.conftest import Wharf

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.cli.example.com}
spec:
  group: cli.example.com
  scope: Namespaced
  names: {plural: lamps, singular: lamp, kind: Lamp, shortNames: [lp], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Watts, type: integer, jsonPath: .spec.watts}
    - {name: Hue, type: string, jsonPath: .spec.hue, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              watts: {type: integer, minimum: 1}
              hue: {type: string, default: warm}
              tags: {type: array, items: {type: string}}
"""
LAMP = """
apiVersion: cli.example.com/v1
kind: Lamp
metadata: {name: %s}
spec: {watts: %s, tags: [a, b]}
"""


def test_custom_kinds(wharf: Wharf) -> None:
    assert 'no matches for kind "Lamp"' in wharf("create", "-f", "-", stdin=LAMP % ("a", 5), code=1)
    assert 'doesn\'t have a resource type "lamps"' in wharf("get", "lamps", code=1)
    created = wharf("apply", "-f", "-", stdin=DEFINITION + "---" + LAMP % ("early", 1))
    assert created == (
        "customresourcedefinition.apiextensions.k8s.io/lamps.cli.example.com created\n"
        "lamp.cli.example.com/early created\n"
    )
    assert wharf("delete", "lamp", "early").startswith('lamp.cli.example.com "early" deleted')
    assert wharf("apply", "-f", "-", stdin=LAMP % ("a", 5)) == "lamp.cli.example.com/a created\n"
    assert wharf("apply", "-f", "-", stdin=LAMP % ("a", 5)) == "lamp.cli.example.com/a unchanged\n"
    assert wharf("apply", "-f", "-", stdin=LAMP % ("a", 7)) == "lamp.cli.example.com/a configured\n"
    header, row = wharf("get", "lp").splitlines()
    assert (header.split(), row.split()[:2]) == (["NAME", "WATTS"], ["a", "7"])
    assert wharf("get", "lamps.cli.example.com", "-o", "wide").splitlines()[0].split() == ["NAME", "WATTS", "HUE"]
    assert yaml.safe_load(wharf("get", "lamp/a", "-o", "yaml"))["spec"]["hue"] == "warm"
    assert wharf("get", "lamp", "a", "-o", "jsonpath={.spec.watts}") == "7"
    assert wharf("get", "all", "-o", "name") == "lamp.cli.example.com/a\n"
    assert "Lamp" in wharf("api-resources")
    assert "FIELD: watts <integer>" in wharf("explain", "lamp.spec.watts")
    refused = wharf("apply", "-f", "-", stdin=LAMP % ("a", 0), code=1)
    assert "spec.watts: Invalid value: 0" in refused
    assert wharf("label", "lamp", "a", "x=y") == "lamp.cli.example.com/a labeled\n"
    patched = wharf("patch", "lamp", "a", "--type=merge", "-p", '{"spec":{"hue":"cold"}}')
    assert patched == "lamp.cli.example.com/a patched\n"
    listed = json.loads(wharf("get", "lamps", "-l", "x=y", "-o", "json"))
    assert [item["spec"]["hue"] for item in listed["items"]] == ["cold"]
    described = wharf("describe", "lamp", "a")
    assert "cold" in described
    assert wharf("delete", "lamps", "--all").count("deleted") == 1
    assert wharf("delete", "crd", "lamps.cli.example.com").count("deleted") == 1
    assert 'doesn\'t have a resource type "lamps"' in wharf("get", "lamps", code=1)
