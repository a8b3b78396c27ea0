"""Paths to addresses."""

from __future__ import annotations

import pytest

from controlplane.apiserver.httpfront.routing import Address, address, path_of, segments
from wharfinger.api.errors import BadRequestError, NotFoundError


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/api/v1/pods", Address("", "v1", "pods")),
        ("/api/v1/namespaces", Address("", "v1", "namespaces")),
        ("/api/v1/namespaces/web", Address("", "v1", "namespaces", name="web")),
        ("/api/v1/namespaces/web/finalize", Address("", "v1", "namespaces", name="web", subresource="finalize")),
        ("/api/v1/namespaces/web/pods", Address("", "v1", "pods", "web")),
        ("/api/v1/namespaces/web/pods/", Address("", "v1", "pods", "web")),
        ("/api/v1/namespaces/web/pods/a/log", Address("", "v1", "pods", "web", "a", "log")),
        ("/apis/apps/v1/namespaces/web/deployments/d", Address("apps", "v1", "deployments", "web", "d")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
         Address("rbac.authorization.k8s.io", "v1", "clusterroles", name="system:node")),
        ("/api/v1/watch/namespaces/web/pods", Address("", "v1", "pods", "web", watching=True)),
    ],
)  # fmt: skip
def test_paths_are_read(path: str, found: Address) -> None:
    assert address(segments(path)) == found


@pytest.mark.parametrize("path", ["/api/v1/pods/x/y/z/w", "/api/v1/watch", "/api/v1/namespaces//pods"])
def test_paths_that_lead_nowhere(path: str) -> None:
    with pytest.raises(NotFoundError):
        address(segments(path))


@pytest.mark.parametrize("path", ["/api/v1/pods/a%2Fb", "/api/v1/pods/%ff", "/api/v1/pods/a%00"])
def test_tricks_are_refused(path: str) -> None:
    with pytest.raises(BadRequestError):
        segments(path)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/api/v1/pods?limit=1", "/api/v1/pods"),
        ("http://x/version", "/version"),
        ("HTTPS://x:6443/api?a=b", "/api"),
        ("https://x", "/"),
        ("//x", "//x"),
    ],
)
def test_targets_with_and_without_host(target: str, path: str) -> None:
    assert path_of(target) == path


@pytest.mark.parametrize("target", ["*", "", "x:443", "ftp://x/y", "version"])
def test_targets_that_hold_no_path(target: str) -> None:
    with pytest.raises(BadRequestError):
        path_of(target)
