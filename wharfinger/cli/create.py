"""``wharf create -f``: new objects, as their manifests have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from wharfinger.cli.applied import annotated
from wharfinger.cli.manifests import Broken, Manifest, read_all
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import DRY_RUN, OUTPUT, Reporter, needs, quoted
from wharfinger.cli.selecting import FILES, RECURSIVE
from wharfinger.cli.session import Session, command

VALIDATE = click.option(
    "--validate", type=click.Choice(["strict", "warn", "ignore", "true", "false"]), default="strict", is_flag=False,
    flag_value="strict", help="Unknown fields are an error, a warning, or dropped.",
)  # fmt: skip
FIELD_MANAGER = click.option("--field-manager", default="", metavar="NAME", help="Who manages the fields set here.")
_VALIDATION = {"strict": "Strict", "true": "Strict", "warn": "Warn", "ignore": "Ignore", "false": "Ignore"}


def validation(value: str) -> str:
    """Return the server's word for a ``--validate``."""
    return _VALIDATION[value]


@command(name="create")
@click.argument("arguments", nargs=-1, metavar="[-f FILE | TYPE NAME [-- COMMAND]]")
@FILES
@RECURSIVE
@VALIDATE
@DRY_RUN
@OUTPUT
@FIELD_MANAGER
@click.option("--from-literal", "literals", multiple=True, metavar="KEY=VALUE", help="configmap, secret: an entry.")
@click.option("--from-file", "from_files", multiple=True, metavar="[KEY=]PATH", help="configmap, secret: a file.")
@click.option("--type", default="", metavar="TYPE", help="secret: its type.")
@click.option("--image", "images", multiple=True, metavar="IMAGE", help="deployment: a container's image.")
@click.option("-r", "--replicas", type=click.IntRange(0), help="deployment: how many pods.")
@click.option("--verb", "verbs", multiple=True, metavar="VERB", help="role, clusterrole: what is allowed.")
@click.option("--resource", "resources", multiple=True, metavar="TYPE", help="role, clusterrole: with what (pods/log).")
@click.option("--resource-name", "resource_names", multiple=True, metavar="NAME", help="role, clusterrole: only these.")
@click.option("--non-resource-url", "non_resource_urls", multiple=True, metavar="PATH", help="clusterrole: a path.")
@click.option("--aggregation-rule", "aggregation_rules", multiple=True, metavar="LABEL=VALUE",
              help="clusterrole: the sum of the cluster roles with these labels.")  # fmt: skip
@click.option("--role", default="", metavar="NAME", help="rolebinding: the role that is given.")
@click.option("--clusterrole", default="", metavar="NAME", help="(cluster)rolebinding: the cluster role that is given.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="(cluster)rolebinding: to whom.")
@click.option("--serviceaccount", "serviceaccounts", multiple=True, metavar="NAMESPACE:NAME", help="Likewise.")
@click.option("--hard", multiple=True, metavar="NAME=AMOUNT", help="quota: a bound.")
@click.option("--scopes", multiple=True, metavar="SCOPE", help="quota: what it is about.")
@click.option("--audience", "audiences", multiple=True, metavar="NAME", help="token: whom it is for (the apiserver).")
@click.option("--duration", metavar="TIME", help="token: how long it lives (an hour), at least ten minutes.")
@click.option("--bound-object-kind", default="", metavar="KIND",
              help="token: ends with this Pod, Secret or Node.")  # fmt: skip
@click.option("--bound-object-name", default="", metavar="NAME", help="token: its name.")
@click.option("--bound-object-uid", default="", metavar="UID", help="token: its uid, if it must be just that one.")
@click.option("--save-config", is_flag=True, help="Also note the manifest in the annotation that apply works with.")
async def create(session: Session, **given: Any) -> int:
    """Create objects from files, or small ones by name.

    \b
      wharf create -f pod.yaml
      wharf create namespace shop
      wharf create configmap settings --from-literal=mode=fast
      wharf create -f manifests/ -R
      wharf create deployment web --image=nginx --replicas=3 -- nginx -g "daemon off;"
      wharf create role reader --verb=get,list --resource=pods,pods/log
      wharf create rolebinding reader --role=reader --user=alice --serviceaccount=shop:robot
      wharf create quota small --hard=pods=10,requests.cpu=4
      wharf create token robot --duration=2h
      cat pod.json | wharf create -f -
    """
    files, arguments = given["files"], given["arguments"]
    needs(bool(files) != bool(arguments), "name files with -f, or a TYPE and a NAME")
    if arguments and arguments[0].lower() == "token":
        from wharfinger.cli.createtoken import create_token

        return await create_token(session, arguments[1:], given)
    reporter = Reporter(given["output"], dry_run=given["dry_run"])
    options = {
        "dry_run": reporter.server_dry_run,
        "field_manager": given["field_manager"] or "kubectl-create",
        "field_validation": validation(given["validate"]),
    }
    if arguments:
        from wharfinger.cli.imperative import build

        if arguments[0].lower() in ("rolebinding", "clusterrolebinding"):
            # As with kubectl, --user names here whom the role is given to, not an entry of the kubeconfig.
            user = session.overrides.get("user")
            session = Session({key: value for key, value in session.overrides.items() if key != "user"})
            given["users"] = (user,) if user else ()
        source: Iterable[Manifest | Broken] = [Manifest(build(arguments, given), "")]
    else:
        source = read_all(files, recursive=given["recursive"], verb="create")
    async with session.client() as client:
        for manifest in source:
            if isinstance(manifest, Broken):
                reporter.error(manifest.reason)
            else:
                await _create(session, client, manifest, reporter, options, save_config=given["save_config"])
    return reporter.finish()


async def _create(
    session: Session, client: Any, manifest: Manifest, reporter: Reporter, options: dict[str, Any], *,
    save_config: bool,
) -> None:  # fmt: skip
    from wharfinger.api.errors import ServiceUnavailableError, StatusError
    from wharfinger.cli.failures import CommandError

    try:
        kind = manifest.kind
        namespace = manifest.namespace(session.namespace, explicit=session.explicit_namespace)
    except CommandError as error:
        reporter.error(str(error))
        return
    if save_config:
        manifest = Manifest(annotated(manifest.document, namespace), manifest.source)
    if reporter.dry_run == "client":
        reporter.made(local(manifest.document, namespace), kind)
        return
    try:
        raw = await client.raw(kind).create(manifest.json(), namespace=namespace, **options)
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error, source=f"creating {quoted(manifest.source)}" if manifest.source else "")
        return
    reporter.warnings(raw.warnings)
    document = document_of_raw(raw)
    if document.get("kind") == "Status":
        # Bindings are answered with a Status.
        document = manifest.document
    reporter.made(document, kind)


def local(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a document with its namespace filled in, as it would be sent."""
    metadata = dict(document.get("metadata") or {})
    if namespace:
        metadata["namespace"] = namespace
    return {**document, "metadata": metadata}
