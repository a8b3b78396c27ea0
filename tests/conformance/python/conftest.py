"""The apiserver that the Python packages `kubernetes` and `lightkube`, unchanged, do their usual things with.

Everything goes over TLS with a client certificate out of a kubeconfig, as a user of those packages would have it. What
needs containers (exec, port-forward) is in ``test_python_streams.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd
from wharfinger import pki

_numbers = itertools.count(1)
_REASON = "needs the extra `test` (pip install -e .[test])"


@pytest.fixture(scope="package")
def server() -> Iterator[Apiserver]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd:
        for number in range(3):
            etcd.ctl("put", "/elsewhere", str(number))
        etcd.ctl("compact", "3")  # so that there is a past which nobody knows any more
        with Apiserver(etcd.endpoint) as running:
            yield running


@pytest.fixture(scope="package")
def kubeconfig(server: Apiserver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    server.config()  # makes the admin's certificate
    pair = pki.read_pair(server.folder, "admin")
    return pki.write_kubeconfig(
        tmp_path_factory.mktemp("python") / "kubeconfig",
        server=f"https://127.0.0.1:{server.secure_port}", ca=pki.load_ca(server.folder).cert,
        cert=pair.cert, key=pair.key, user="admin", cluster="test", context="test",
    )  # fmt: skip


@pytest.fixture(scope="package")
def api(kubeconfig: Path) -> Iterator[Any]:
    """The package's client, also as its default: watches and locks make one of their own."""
    pytest.importorskip("kubernetes", reason=_REASON)
    from kubernetes import client as k8s
    from kubernetes import config as k8s_config

    k8s_config.load_kube_config(str(kubeconfig))
    with k8s.ApiClient() as made:
        yield made


@pytest.fixture(scope="package")
def core(api: Any) -> Any:
    from kubernetes import client as k8s

    return k8s.CoreV1Api(api)


@pytest.fixture(scope="package")
def apps(api: Any) -> Any:
    from kubernetes import client as k8s

    return k8s.AppsV1Api(api)


@pytest.fixture
def namespace(core: Any) -> str:
    from kubernetes import client as k8s

    name = f"py{next(_numbers)}"
    core.create_namespace(k8s.V1Namespace(metadata=k8s.V1ObjectMeta(name=name)))
    core.create_namespaced_service_account(name, k8s.V1ServiceAccount(metadata=k8s.V1ObjectMeta(name="default")))
    return name
