"""Stock kubectl, the oldest and the newest of the machine, on a custom kind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance.conftest import kubectl_binaries
from tests.integration.custom.conftest import Pair

_FOUND = kubectl_binaries()
_TRIED = sorted({_FOUND[0], _FOUND[-1]}) if _FOUND else []

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: {plural}, singular: {plural}-one, kind: Kubelamp, shortNames: [lp], categories: [all]}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}, scale: {{specReplicasPath: .spec.count, statusReplicasPath: .status.count}}}}
    additionalPrinterColumns:
    - {{name: Watts, type: integer, jsonPath: .spec.watts}}
    schema:
      openAPIV3Schema:
        type: object
        description: A lamp of the tests.
        properties:
          spec:
            type: object
            properties:
              count: {{type: integer}}
              watts: {{type: integer, minimum: 1, description: How bright it is.}}
              hue: {{type: string, default: warm}}
          status: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
LAMP = "apiVersion: {group}/v1\nkind: Kubelamp\nmetadata: {{name: {name}}}\nspec: {{count: 1, watts: {watts}}}\n"


@pytest.mark.skipif(not _TRIED, reason="needs kubectl on the path")
@pytest.mark.parametrize("binary", _TRIED, ids=lambda path: path.name)
def test_kubectl(binary: Path, pair: Pair, tmp_path: Path) -> None:
    group = f"{binary.name.replace('.', '-')}.example.com"
    plural = f"lamps{binary.name.rpartition('.')[2]}"  # explain wants a name that no other group has
    full, one = f"{plural}.{group}", f"kubelamp.{group}"
    server = pair.one

    def kubectl(*arguments: str, stdin: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [binary, f"--server=https://127.0.0.1:{server.secure_port}", "--token=admin-token",
             f"--certificate-authority={server.folder}/ca.crt", *arguments],
            input=stdin, capture_output=True, text=True, check=False, timeout=60,
            env={**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""},
        )  # fmt: skip
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def lamp(name: str, watts: object) -> str:
        return LAMP.format(group=group, name=name, watts=watts)

    kubectl("apply", "-f", "-", stdin=DEFINITION.format(group=group, plural=plural))
    kubectl("wait", "--for=condition=Established", f"crd/{full}", "--timeout=10s")
    assert kubectl("apply", "-f", "-", stdin=lamp("a", 5)) == f"{one}/a created\n"
    assert kubectl("apply", "-f", "-", stdin=lamp("a", 6)) == f"{one}/a configured\n"
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=lamp("b", 7))
    assert [line.split() for line in kubectl("get", full).splitlines()] == [
        ["NAME", "WATTS"], ["a", "6"], ["b", "7"],
    ]  # fmt: skip
    assert "How bright it is." in kubectl("explain", f"{plural}.spec.watts", f"--api-version={group}/v1")
    assert "spec.watts" in kubectl("apply", "-f", "-", stdin=lamp("c", 0), code=1)
    assert "unknown field" in kubectl("apply", "-f", "-", stdin=lamp("c", "1, what: 2"), code=1)
    assert "watts: 9" in kubectl("diff", "-f", "-", stdin=lamp("a", 9), code=1)
    kubectl("scale", full, "a", "--replicas=4")
    assert kubectl("get", full, "a", "-o", "jsonpath={.spec.count} {.spec.hue}") == "4 warm"
    kubectl("patch", full, "a", "--type=merge", "-p", '{"spec":{"hue":"cold"}}')
    assert "cold" in kubectl("describe", full, "a")
    assert "lp" in kubectl("api-resources", f"--api-group={group}")
    kubectl("delete", "crd", full)
    assert "doesn't have a resource type" in kubectl("get", full, code=1)
