"""Certificates: what they say, that good ones are kept, that openssl agrees, that TLS works with them."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from wharfinger import pki


def test_client_certificate_says_user_and_groups(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    pair = pki.issue_client(ca, "alice", ["b", "a"])
    assert pki.identity(pair.certificate) == ("alice", ["a", "b"])
    assert pki.signed_by(pair.certificate, ca.certificate)
    assert pair.certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=4)


def test_openssl_accepts_the_chain(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    made = pki.ensure_server(ca, tmp_path, "api", name="api", dns=["localhost"], ips=["127.0.0.1", "::1"])
    for purpose, code in (("sslserver", 0), ("sslclient", 2)):
        result = subprocess.run(
            ["openssl", "verify", "-purpose", purpose, "-CAfile", ca.path, made.cert_path],
            capture_output=True, check=False,
        )  # fmt: skip
        assert result.returncode == code, result


def test_keys_are_private(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    made = pki.ensure_client(ca, tmp_path, "alice", name="alice")
    for path in (made.key_path, tmp_path / "ca.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_good_files_are_kept_and_others_replaced(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    first = pki.ensure_server(ca, tmp_path, "api", name="api", dns=["a"])
    assert first.reason == "new"
    again = pki.ensure_server(pki.ensure_ca(tmp_path, "test-ca"), tmp_path, "api", name="api", dns=["a"])
    assert again.kept
    assert again.pair.cert == first.pair.cert
    more = pki.ensure_server(ca, tmp_path, "api", name="api", dns=["a"], ips=["10.0.0.1"])
    assert more.reason == "does not name 10.0.0.1"
    assert pki.ensure_server(ca, tmp_path, "api", name="api", dns=["a"], client=True).reason == "is for another use"
    other = pki.ensure_ca(tmp_path / "other", "other-ca")
    assert "another authority" in pki.ensure_server(other, tmp_path, "api", name="api", dns=["a"]).reason
    (tmp_path / "api.crt").write_bytes(b"rubbish")
    assert pki.ensure_server(other, tmp_path, "api", name="api", dns=["a"]).reason == "unreadable"


def test_certificates_near_their_end_are_renewed(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    pki.write_pair(tmp_path, "alice", pki.issue_client(ca, "alice", lifetime=timedelta(seconds=30)))
    assert pki.ensure_client(ca, tmp_path, "alice", name="alice").reason == "expires in 0 days"
    assert pki.ensure_client(ca, tmp_path, "alice", name="alice").kept


def test_an_authority_is_never_replaced(tmp_path: Path) -> None:
    pki.ensure_ca(tmp_path, "test-ca")
    (tmp_path / "ca.key").unlink()
    with pytest.raises(pki.PKIError, match=r"ca\.key is missing"):
        pki.ensure_ca(tmp_path, "test-ca")
    pki.ensure_ca(tmp_path / "other", "other")
    (tmp_path / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(pki.PKIError, match="is not the key of"):
        pki.ensure_ca(tmp_path, "test-ca")
    pki.ensure_ca(tmp_path / "old", "old", lifetime=timedelta(seconds=-1))
    with pytest.raises(pki.PKIError, match="expired on"):
        pki.ensure_ca(tmp_path / "old", "old")


def test_bad_addresses_are_named(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    with pytest.raises(pki.PKIError, match=r"'10\.0\.0\.300' is not an IP address"):
        pki.issue_server(ca, "api", ips=["10.0.0.300"])


def test_pairs_serve_and_authenticate(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    server = pki.ensure_server(ca, tmp_path, "api", name="api", ips=["127.0.0.1"])
    client = pki.ensure_client(ca, tmp_path, "alice", name="alice", groups=["dev"])
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ca.path))
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.load_cert_chain(server.cert_path, server.key_path)
    asking = ssl.create_default_context(cafile=str(ca.path))
    asking.load_cert_chain(client.cert_path, client.key_path)
    a_in, a_out, b_in, b_out = (ssl.MemoryBIO() for _ in range(4))
    one = asking.wrap_bio(a_in, a_out, server_hostname="127.0.0.1")
    two = serving.wrap_bio(b_in, b_out, server_side=True)
    open_ends = {one, two}
    for _ in range(10):
        for end in (one, two):
            try:
                end.do_handshake()
                open_ends.discard(end)
            except ssl.SSLWantReadError:
                pass
        b_in.write(a_out.read())
        a_in.write(b_out.read())
    assert not open_ends
    subject = dict(item[0] for item in two.getpeercert()["subject"])  # type: ignore[index]
    assert subject == {"organizationName": "dev", "commonName": "alice"}


def test_kubeconfig(tmp_path: Path) -> None:
    path = pki.write_kubeconfig(
        tmp_path / "deep" / "kubeconfig", server="https://127.0.0.1:6443", grpc_endpoints=["127.0.0.1:6444"],
        ca=b"PEM", cert=tmp_path / "a.crt", key=b"KEY", namespace="shop",
    )  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    cluster = config["clusters"][0]["cluster"]
    assert cluster["certificate-authority-data"] == "UEVN"
    assert cluster["extensions"] == [{"name": "wharfinger.dev/grpc", "extension": {"endpoints": ["127.0.0.1:6444"]}}]
    assert config["users"][0]["user"] == {"client-certificate": str(tmp_path / "a.crt"), "client-key-data": "S0VZ"}
    assert config["contexts"][0]["context"]["namespace"] == "shop"
    assert config["current-context"] == "admin@wharfinger"


def test_renewal_before_a_margin_of_days(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca")
    first = pki.ensure_client(ca, tmp_path, "alice", name="alice", lifetime=timedelta(days=10))
    kept = pki.ensure_client(
        ca, tmp_path, "alice", name="alice", lifetime=timedelta(days=10), renew_before=timedelta(days=5)
    )
    assert kept.kept
    anew = pki.ensure_client(
        ca, tmp_path, "alice", name="alice", lifetime=timedelta(days=20), renew_before=timedelta(days=15)
    )
    assert anew.reason == "expires in 9 days"
    assert anew.pair.key != first.pair.key
