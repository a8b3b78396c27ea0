"""What a stranger on the hosts' network gets from them: every open TCP port, and what it answers to who shows nothing.

Runs as a process of its own, since the hosts are reachable from the controller's network namespace only:

    python -m tests.support.portscan AUTHORITIES.pem ADDRESS...

It prints one line of JSON: by ``address:port`` what was answered to a plain request, to HTTPS by path (the status, or
"" when the connection was refused or ended) and to gRPC by method (the code). With ``--cert`` and ``--key`` it shows a
certificate.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import socket
import ssl
from pathlib import Path

import grpc

PATHS = ("/", "/api", "/apis", "/api/v1/secrets", "/openapi/v2", "/metrics", "/pods", "/logs/", "/v2/keys", "/health",
         "/debug/pprof/")  # fmt: skip
METHODS = ("/wharfinger.v1.Resources/Get", "/wharfinger.v1.Server/Discover", "/wharfinger.v1.Streams/Usage",
           "/wharfinger.v1.Scheduling/Pending", "/wharfinger.v1.Etcd/Status",
           "/etcdserverpb.Cluster/MemberList")  # fmt: skip
SECONDS = 5.0


def open_ports(address: str) -> list[int]:
    """Try every port: a closed one says so at once."""
    found = []
    for port in range(1, 65536):
        with socket.socket() as one:
            one.settimeout(SECONDS)
            if one.connect_ex((address, port)) == 0:
                found.append(port)
    return found


def plain(address: str, port: int) -> str:
    """Return what is answered to HTTP without TLS, in its first hundred characters."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), SECONDS) as one:
        one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return one.recv(100).decode("latin-1")
    return ""


def https(address: str, port: int, pair: tuple[str, str] | None) -> dict[str, str]:
    """Return the status of each path."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # a stranger does not care whom it robs
    if pair is not None:
        context.load_cert_chain(*pair)
    answers = {}
    for path in PATHS:
        connection = http.client.HTTPSConnection(address, port, timeout=SECONDS, context=context)
        try:
            connection.request("GET", path)
            answers[path] = str(connection.getresponse().status)
        except (OSError, http.client.HTTPException):
            answers[path] = ""
        finally:
            connection.close()
    return answers


def grpc_codes(address: str, port: int, authorities: bytes, pair: tuple[str, str] | None) -> dict[str, str]:
    """Return the code of each method, called with an empty message."""
    cert, key = (Path(file).read_bytes() for file in pair) if pair else (None, None)
    credentials = grpc.ssl_channel_credentials(authorities, key, cert)
    answers = {}
    with grpc.secure_channel(f"{address}:{port}", credentials) as channel:
        for method in METHODS:
            try:
                channel.unary_unary(method)(b"", timeout=SECONDS)
                answers[method] = "OK"
            except grpc.RpcError as error:
                answers[method] = error.code().name  # type: ignore[attr-defined]  # what a call raises is a Call, too
    return answers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("authorities", type=Path)
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    options = parser.parse_args()
    pair = (options.cert, options.key) if options.cert else None
    found = {}
    for address in options.addresses:
        for port in open_ports(address):
            found[f"{address}:{port}"] = {"plain": plain(address, port)} if port == 22 else {
                "plain": plain(address, port),
                "https": https(address, port, pair),
                "grpc": grpc_codes(address, port, options.authorities.read_bytes(), pair),
            }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
