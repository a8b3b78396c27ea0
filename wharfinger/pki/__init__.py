"""A small certificate authority on disk: everything TLS that a cluster needs before it runs.

Identity in Kubernetes' API is a client certificate's subject: the common name is the user, each organisation a group.
This module makes such certificates, serving certificates with their names and addresses, and kubeconfig files.

Three decisions:

* **Files are the state.** A pair is ``<stem>.crt`` (0644) and ``<stem>.key`` (0600), PEM, the layout of kubeadm, so an
  operator can look at it with openssl and replace any part of it by the certificates of a real authority.
* **``ensure_*`` is idempotent.** A certificate that says what is asked, is signed by this authority and lives long
  enough is kept; anything else is issued anew. An *authority* is never replaced: that would cut off everyone who
  trusts it, so a broken or expired one is an error with a remedy.
* **Clocks differ.** Certificates are valid from a day before their making, so that hosts whose clocks are hours behind,
  or set to another zone's time, accept them at once.

Keys are ECDSA P-256: small, fast in handshakes, and understood by etcd, Go's TLS and gRPC.
"""

from wharfinger.pki.issuing import (
    BACKDATE,
    CA_LIFETIME,
    LIFETIME,
    Request,
    issue,
    issue_client,
    issue_server,
    sign,
)
from wharfinger.pki.keeping import Made, ensure, ensure_ca, ensure_client, ensure_server, ensure_signing_key
from wharfinger.pki.kubeconfigs import GRPC_EXTENSION, write_kubeconfig
from wharfinger.pki.pairs import (
    CA,
    Pair,
    PKIError,
    alternative_names,
    identity,
    load_ca,
    read_ca,
    read_pair,
    signed_by,
    write_pair,
)

__all__ = [
    "BACKDATE",
    "CA",
    "CA_LIFETIME",
    "GRPC_EXTENSION",
    "LIFETIME",
    "Made",
    "PKIError",
    "Pair",
    "Request",
    "alternative_names",
    "ensure",
    "ensure_ca",
    "ensure_client",
    "ensure_server",
    "ensure_signing_key",
    "identity",
    "issue",
    "issue_client",
    "issue_server",
    "load_ca",
    "read_ca",
    "read_pair",
    "sign",
    "signed_by",
    "write_kubeconfig",
    "write_pair",
]
