"""Which cluster, which user, which namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wharfinger import pki
from wharfinger.cli.failures import CommandError
from wharfinger.cli.session import Session


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def _write(path: Path, *, cluster: str = "one", **fields: Any) -> Path:
    values: dict[str, Any] = {
        "server": f"https://{cluster}:6443", "grpc_endpoints": [f"{cluster}:6444"],
        "grpc_token_endpoints": [f"{cluster}:6445"], "ca": b"CA", "cert": b"CERT", "key": b"KEY", "cluster": cluster,
    }  # fmt: skip
    return pki.write_kubeconfig(path, **{**values, **fields})


def test_the_checkouts_own_cluster_is_found_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / ".local" / "kubeconfig")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert Session({}).config.endpoints == ["one:6444"]


def test_the_variable_and_the_flag_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / ".local" / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(_write(tmp_path / "two", cluster="two")))
    assert Session({}).config.endpoints == ["two:6444"]
    flag = str(_write(tmp_path / "three", cluster="three"))
    assert Session({"kubeconfig": flag}).config.endpoints == ["three:6444"]


def test_home_comes_last(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no kubeconfig found"):
        _ = Session({}).config
    _write(tmp_path / "home" / ".kube" / "config", cluster="home", namespace="mine")
    assert Session({}).config.endpoints == ["home:6444"]
    assert Session({}).namespace == "mine"
    assert Session({"namespace": "other"}).namespace == "other"


def test_several_files_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [_write(tmp_path / name, cluster=name, user=f"user-{name}") for name in ("one", "two")]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    assert Session({}).config.endpoints == ["one:6444"]
    assert Session({"context": "user-two@two"}).config.endpoints == ["two:6444"]
    mixed = Session({"cluster": "two"}).config
    assert (mixed.endpoints, mixed.cert) == (["two:6444"], b"CERT")


def test_flags_replace_parts(tmp_path: Path) -> None:
    _write(tmp_path / ".local" / "kubeconfig")
    assert Session({"server": "grpc://x:1"}).config.endpoints == ["x:1"]
    with pytest.raises(CommandError, match="speaks gRPC"):
        _ = Session({"server": "https://x:6443"}).config
    with_token = Session({"token": "secret"}).config
    assert (with_token.endpoints, with_token.token, with_token.cert) == (["one:6445"], "secret", None)
    with pytest.raises(CommandError, match="no user named 'nobody'"):
        _ = Session({"user": "nobody"}).config


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("clusters: [")
    with pytest.raises(CommandError, match="is not YAML"):
        _ = Session({"kubeconfig": str(path)}).config
