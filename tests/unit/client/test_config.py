import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.client import ClientConfig, ConfigError


def document(**changes: Any) -> dict[str, Any]:
    """Return a kubeconfig with a certificate user and a token user."""
    cluster = {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "extensions": [
            {
                "name": "wharfinger.dev/grpc",
                "extension": {"endpoints": ["10.0.0.1:6444", "10.0.0.2:6444"], "tokenEndpoints": ["10.0.0.1:6445"]},
            }
        ],
    }
    with_cert = {"client-certificate-data": base64.b64encode(b"CERT").decode(), "client-key": "key.pem"}
    return {
        "current-context": "main",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": with_cert}, {"name": "robot", "user": {"token": "t0ken"}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "here", "user": "me", "namespace": "shop"}},
            {"name": "robots", "context": {"cluster": "here", "user": "robot"}},
        ],
        **changes,
    }


def write(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def test_certificate_users_take_the_endpoints_and_files_are_relative(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(b"KEY")
    config = ClientConfig.load(write(tmp_path / "config", document()))
    assert (config.ca, config.cert, config.key) == (b"CA", b"CERT", b"KEY")
    assert config.endpoints == ["10.0.0.1:6444", "10.0.0.2:6444"]
    assert config.namespace == "shop"
    assert "KEY" not in repr(config)


def test_token_users_take_the_token_endpoints(tmp_path: Path) -> None:
    config = ClientConfig.load(write(tmp_path / "config", document()), context="robots")
    assert (config.token, config.endpoints, config.namespace) == ("t0ken", ["10.0.0.1:6445"], "default")
    assert "t0ken" not in repr(config)


def test_several_files_merge_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key.pem").write_bytes(b"KEY")
    first = write(tmp_path / "first", {"current-context": "robots"})
    second = write(tmp_path / "second", document())
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{first}:{second}")
    assert ClientConfig.load().token == "t0ken"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"current-context": ""}, "current-context"),
        ({"current-context": "other"}, "no context named 'other'"),
        ({"clusters": []}, "no cluster named 'here'"),
        ({"users": []}, "no user named 'me'"),
        ({"clusters": [{"name": "here", "cluster": {"server": "x"}}]}, "certificate-authority"),
        (
            {"clusters": [{"name": "here", "cluster": {"certificate-authority-data": "Q0E="}}]},
            "wharfinger.dev/grpc",
        ),
        (
            {"clusters": [{"name": "here", "cluster": {"certificate-authority-data": "%"}}]},
            "not base64",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "key.pem").write_bytes(b"KEY")
    with pytest.raises(ConfigError, match=said):
        ClientConfig.load(write(tmp_path / "config", document(**change)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent does not exist"):
        ClientConfig.load(tmp_path / "absent")


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"key\.pem"):
        ClientConfig.load(write(tmp_path / "config", document()))


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("- a\n- b\n")
    with pytest.raises(ConfigError, match="must hold a mapping"):
        ClientConfig.load(tmp_path / "config")


def without_grpc(**cluster: Any) -> dict[str, Any]:
    made = document()
    del made["clusters"][0]["cluster"]["extensions"]
    made["clusters"][0]["cluster"] |= cluster
    return made


def test_a_cluster_without_our_extension_is_spoken_to_over_http(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(b"KEY")
    path = write(tmp_path / "config", without_grpc(**{"tls-server-name": "api"}))
    config = ClientConfig.load(path, api="auto")
    assert config.http is not None
    assert (config.http.server, config.http.ca, config.http.cert) == ("https://10.0.0.1:6443", b"CA", b"CERT")
    assert (config.http.key, config.http.server_name, config.namespace) == (b"KEY", "api", "shop")
    with pytest.raises(ConfigError, match="has no extension"):
        ClientConfig.load(path)


def test_with_the_extension_it_is_a_choice(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document())
    assert ClientConfig.load(path, "robots", api="auto").http is None
    forced = ClientConfig.load(path, "robots", api="http")
    assert forced.http is not None
    assert forced.http.token == "t0ken"


def test_exec_credentials_and_what_is_not_supported(tmp_path: Path) -> None:
    made = without_grpc()
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token", "args": ["a"],
           "env": [{"name": "A", "value": "b"}]}  # fmt: skip
    made["users"][0]["user"] = {"exec": run}
    config = ClientConfig.load(write(tmp_path / "config", made), api="auto")
    assert config.http is not None
    assert config.http.plugin is not None
    assert (config.http.plugin.command, config.http.plugin.args, dict(config.http.plugin.env)) == (
        "get-token", ("a",), {"A": "b"},
    )  # fmt: skip
    run["apiVersion"] = "client.authentication.k8s.io/v9"
    with pytest.raises(ConfigError, match="v9"):
        ClientConfig.load(write(tmp_path / "config", made), api="auto")
    for cluster, message in (
        ({"proxy-url": "http://p"}, "proxy-url"),
        ({"server": "http://plain"}, "https://"),
        ({"insecure-skip-tls-verify": True}, "exclude each other"),
    ):
        with pytest.raises(ConfigError, match=message):
            ClientConfig.load(write(tmp_path / "config", without_grpc(**cluster)), api="auto")


BROKEN = {
    "no text": b"\xff\xfe", "a list": b"[1]", "clusters a number": b"clusters: 5",
    "a context a list": b"current-context: [a]",
    "a cluster a text": b"clusters: [{name: a, cluster: b}]", "an entry a text": b"users: [a]",
    "a context's cluster a mapping": b"contexts: [{name: a, context: {cluster: {}}}]",
    "extensions a mapping": b"clusters: [{name: a, cluster: {extensions: {}}}]",
    "a token file a list": b"users: [{name: a, user: {tokenFile: [x]}}]",
    "groups a text": b"users: [{name: a, user: {as-groups: x}}]", "no names": b"users: [{user: {}}]",
    "an extension a text": b"""
        {current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], users: [{name: u, user: {}}],
         clusters: [{name: c, cluster: {extensions: [{name: wharfinger.dev/grpc, extension: x}]}}]}""",
    "endpoints a text": b"""
        {current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], users: [{name: u, user: {}}],
         clusters: [{name: c, cluster: {extensions: [{name: wharfinger.dev/grpc, extension: {endpoints: x}}]}}]}""",
}  # fmt: skip


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_broken_files_are_told_of(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"kubeconfig|extension"):
        ClientConfig.load(path)
