"""``wharf pki``: the cluster's authorities, certificates and kubeconfig files, without openssl.

``init`` makes the folder that ``./dev`` and the playbooks start from; its layout is kubeadm's, so its files can be
handed to a real kube-apiserver as they are. All commands may be run again: what is still good is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from wharfinger.api.tables.text import duration
from wharfinger.cli.accountkeys import service_account
from wharfinger.cli.encryption import encryption
from wharfinger.cli.failures import CommandError
from wharfinger.cli.helping import Group

#: stem, user, groups: the client certificates of a control plane (signed by ca).
CLIENTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("admin", "kubernetes-admin", ("system:masters",)),
    ("scheduler", "system:kube-scheduler", ()),
    ("controller-manager", "system:kube-controller-manager", ()),
    ("apiserver-kubelet-client", "system:apiserver", ("system:masters",)),
)


@click.group(cls=Group)
def pki() -> None:
    """Make and look at the cluster's certificates."""


_directory = click.option(
    "-d", "--dir", "directory", type=click.Path(file_okay=False, path_type=Path), default=Path("pki"),
    show_default=True, help="Folder of the certificates.",
)  # fmt: skip
_dns = click.option("--dns", multiple=True, metavar="NAME", help="A DNS name to serve under (again for more).")
_ips = click.option("--ip", "ips", multiple=True, metavar="ADDRESS", help="An address to serve under (again for more).")
_days = click.option("--days", type=click.IntRange(1, 36500), default=365, show_default=True, help="Life in days.")
_renew = click.option(
    "--renew-before", type=click.IntRange(0, 36500), metavar="DAYS",
    help="Issue anew what has fewer days left (if not given: less than a fifth of its life).",
)  # fmt: skip


@pki.command()
@_directory
@_dns
@_ips
@_days
@_renew
def init(directory: Path, dns: Sequence[str], ips: Sequence[str], days: int, renew_before: int | None) -> None:
    """Make both authorities and the control plane's certificates.

    The serving certificates are for localhost and 127.0.0.1 and for the names and addresses given.
    """
    from wharfinger import pki as authority

    life = timedelta(days=days)
    margin = None if renew_before is None else timedelta(days=renew_before)
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", *dns]
    addresses = ["127.0.0.1", "::1", *ips]
    try:
        ca = authority.ensure_ca(directory, "wharfinger-ca")
        etcd_ca = authority.ensure_ca(directory / "etcd", "etcd-ca")
        made = [
            authority.ensure_server(
                ca, directory, "apiserver", name="kube-apiserver", dns=names, ips=addresses, lifetime=life,
                renew_before=margin,
            ),
            *(
                authority.ensure_client(ca, directory, stem, name=user, groups=groups, lifetime=life,
                                        renew_before=margin)
                for stem, user, groups in CLIENTS
            ),
            authority.ensure_client(
                etcd_ca, directory, "apiserver-etcd-client", name="kube-apiserver-etcd-client",
                lifetime=life, renew_before=margin,
            ),
            # etcd calls itself through its serving certificate, so that one is for both uses.
            *(
                authority.ensure_server(
                    etcd_ca, directory / "etcd", stem, name="etcd", dns=["localhost", *dns], ips=addresses,
                    client=True, lifetime=life, renew_before=margin,
                )
                for stem in ("server", "peer")
            ),
        ]  # fmt: skip
        signing = authority.ensure_signing_key(directory)
    except authority.PKIError as error:
        raise CommandError(str(error)) from error
    click.echo(f"{directory / 'sa.key'} {'written (new)' if signing else 'kept'}")
    for one in made:
        click.echo(f"{one.cert_path} {'kept' if one.kept else 'written (' + one.reason + ')'}")


@pki.command()
@click.argument("name")
@_directory
@click.option("-g", "--group", "groups", multiple=True, help="A group of the user (again for more).")
@click.option("--server", is_flag=True, help="A serving certificate instead of a client's.")
@click.option("--both", is_flag=True, help="For serving and as a client (node agents, etcd members).")
@_dns
@_ips
@_days
@_renew
@click.option("--stem", help="Name of the files without .crt and .key; NAME if not given.")
@click.option("--ca", "ca_directory", type=click.Path(file_okay=False, path_type=Path), help="Folder of the authority.")
def issue(
    name: str, directory: Path, groups: Sequence[str], server: bool, both: bool, dns: Sequence[str],
    ips: Sequence[str], days: int, renew_before: int | None, stem: str | None, ca_directory: Path | None,
) -> None:  # fmt: skip
    """Issue a certificate for NAME, signed by the folder's authority.

    \b
    A user:        wharf pki issue alice -g developers
    A node agent:  wharf pki issue system:node:n1 -g system:nodes --both --dns n1 --ip 10.0.0.7
    """
    from wharfinger import pki as authority

    if (dns or ips) and not (server or both):
        raise CommandError("--dns and --ip are for serving certificates: give --server or --both")
    if (server or both) and not (dns or ips):
        raise CommandError("a serving certificate needs at least one --dns or --ip")
    try:
        ca = authority.load_ca(ca_directory or directory)
        request = authority.Request(
            name, tuple(groups), tuple(dns), tuple(ips), client=both or not server, server=server or both,
            lifetime=timedelta(days=days),
            renew_before=None if renew_before is None else timedelta(days=renew_before),
        )  # fmt: skip
        made = authority.ensure(ca, directory, stem or name.replace(":", "-").replace("/", "-"), request)
    except authority.PKIError as error:
        raise CommandError(str(error)) from error
    click.echo(f"{made.cert_path} {'kept' if made.kept else 'written (' + made.reason + ')'}")


@pki.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@_directory
def show(paths: Sequence[Path], directory: Path) -> None:
    """Show certificates: whose, signed by whom, for which names, until when.

    PATHS are files or folders; without any, the folder of --dir.
    """
    from cryptography import x509

    from wharfinger import pki as authority
    from wharfinger.cli.columns import print_columns

    files: list[Path] = []
    for path in paths or (directory,):
        files += sorted(path.rglob("*.crt")) if path.is_dir() else [path]
    if not files:
        raise CommandError(f"no certificates (*.crt) in {directory}")
    now = datetime.now(UTC)
    rows = []
    for file in files:
        try:
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
        except ValueError as error:
            raise CommandError(f"{file} is not a PEM certificate: {error}") from error
        user, groups = authority.identity(certificate)
        dns, ips = authority.alternative_names(certificate)
        left = certificate.not_valid_after_utc - now
        rows.append(
            [
                str(file), user, ",".join(groups) or "<none>",
                certificate.issuer.rfc4514_string().removeprefix("CN="), ",".join([*dns, *ips]) or "<none>",
                duration(left.total_seconds()) if left.total_seconds() > 0 else "EXPIRED",
            ]
        )  # fmt: skip
    print_columns(["FILE", "USER", "GROUPS", "SIGNED BY", "SERVES", "LEFT"], rows)


@pki.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@_directory
@click.option("--https", "server", default="https://127.0.0.1:6443", show_default=True, help="The HTTP address.")
@click.option("--grpc", "endpoints", multiple=True, default=("127.0.0.1:6444",), show_default=True,
              help="A gRPC endpoint, host:port (again for more).")  # fmt: skip
@click.option("--token-grpc", "token_endpoints", multiple=True, help="The same, for those with a token (6445).")
@click.option("--stem", default="admin", show_default=True, help="Which client certificate of the folder.")
@click.option("--token", default="", help="A bearer token instead of a certificate.")
@click.option("--user", default="admin", show_default=True, help="Name of the user entry.")
@click.option("--cluster", default="wharfinger", show_default=True, help="Name of the cluster entry.")
def kubeconfig(
    path: Path,
    directory: Path,
    server: str,
    endpoints: Sequence[str],
    token_endpoints: Sequence[str],
    stem: str,
    token: str,
    user: str,
    cluster: str,
) -> None:
    """Write a kubeconfig with the certificates embedded."""
    from wharfinger import pki as authority

    try:
        ca = (directory / "ca.crt").read_bytes()
        pair = None if token else authority.read_pair(directory, stem)
    except OSError as error:
        raise CommandError(f"{error}; run 'wharf pki init --dir {directory}' first") from error
    authority.write_kubeconfig(
        path, server=server, grpc_endpoints=endpoints, grpc_token_endpoints=token_endpoints, ca=ca,
        cert=pair.cert if pair else None, key=pair.key if pair else None, token=token, user=user, cluster=cluster,
    )  # fmt: skip
    click.echo(f"{path} written")


pki.add_command(encryption)
pki.add_command(service_account)
