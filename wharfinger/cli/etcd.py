"""``wharf etcd``: the care of the etcd behind the apiservers, through them: no etcd certificate is needed here."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import grpc.aio

from wharfinger.cli.columns import print_columns
from wharfinger.cli.failures import SilentExit, complain
from wharfinger.cli.helping import Group
from wharfinger.cli.session import Session, command
from wharfinger.proto.native import etcd_v1_pb2 as care
from wharfinger.proto.native import etcd_v1_pb2_grpc

if TYPE_CHECKING:
    from wharfinger.client import Client

T = TypeVar("T")


@click.group(cls=Group, name="etcd")
def etcd() -> None:
    """Look after the etcd behind the apiservers.

    \b
    When etcd is out of space ("mvcc: database space exceeded"):
      wharf etcd compact && wharf etcd defrag && wharf etcd disarm
    """


def size(count: int) -> str:
    """Return a number of bytes for people: ``1.5 MiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable: GiB is the last unit")


async def _call(client: Client, function: Callable[[Any], Awaitable[T]]) -> T:
    """Make a call on the Etcd service of the apiserver in use."""
    return await client.transport.write(
        lambda endpoint: function(etcd_v1_pb2_grpc.EtcdStub(endpoint.channel))  # type: ignore[no-untyped-call]
    )


@command(name="status")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]))
async def status(session: Session, *, output: str | None) -> None:
    """Show each member: version, size, leader, alarms."""
    async with session.client() as client:
        found: care.EtcdStatus = await _call(
            client, lambda stub: stub.Status(care.EtcdStatusRequest(), metadata=client.transport.metadata)
        )
    if output:
        from google.protobuf.json_format import MessageToDict

        from wharfinger.cli.output import dump_json, dump_yaml

        document = MessageToDict(found, always_print_fields_with_no_presence=True)
        sys.stdout.write(dump_json(document) if output == "json" else dump_yaml(document))
        return
    print_columns(
        ["ENDPOINT", "ID", "NAME", "VERSION", "LEADER", "SIZE", "IN USE", "ALARMS"],
        [
            [
                one.endpoint or "<unknown>", one.id, one.name, one.version, "true" if one.leader else "false",
                size(one.db_size), size(one.db_size_in_use), ",".join(one.alarms) or one.error or "<none>",
            ]
            for one in found.members
        ],
    )  # fmt: skip
    sys.stdout.write(f"\nRevision {found.revision}, compacted up to {found.compacted_revision}\n")
    if any(one.alarms for one in found.members):
        complain("Warning: etcd takes no writes: free space with 'wharf etcd compact', 'defrag', then 'disarm'.")


@command(name="compact")
@click.option("--revision", type=click.IntRange(0), default=0, help="Forget what is older (0: all but the newest).")
async def compact(session: Session, *, revision: int) -> None:
    """Forget old revisions. Watches that were not looked at since then start anew."""
    async with session.client() as client:
        result: care.EtcdCompactResult = await _call(
            client,
            lambda stub: stub.Compact(
                care.EtcdCompactRequest(revision=revision), metadata=client.transport.metadata
            ),
        )  # fmt: skip
    sys.stdout.write(f"etcd compacted up to revision {result.revision}\n")


@command(name="defrag")
async def defrag(session: Session) -> None:
    """Give free space back to the disk, member by member; each is silent for a moment."""
    failed = False
    async with session.client() as client:
        endpoint = client.transport.endpoint()
        stub: Any = etcd_v1_pb2_grpc.EtcdStub(endpoint.channel)  # type: ignore[no-untyped-call]
        call = stub.Defrag(care.EtcdDefragRequest(), metadata=client.transport.metadata)
        try:
            async for one in call:
                if one.error:
                    failed = True
                    complain(f"error: {one.endpoint}: {one.error}")
                else:
                    sys.stdout.write(
                        f"{one.endpoint} defragmented: {size(one.size_before)} to {size(one.size_after)} "
                        f"in {one.seconds:.1f}s\n"
                    )
                    sys.stdout.flush()
        except grpc.aio.AioRpcError as error:
            raise client.transport.translate(endpoint, error) from error
    if failed:
        raise SilentExit


@command(name="disarm")
async def disarm(session: Session) -> None:
    """End the space alarm, after space has been freed."""
    async with session.client() as client:
        result: care.EtcdDisarmResult = await _call(
            client, lambda stub: stub.Disarm(care.EtcdDisarmRequest(), metadata=client.transport.metadata)
        )
    for alarm in result.alarms:
        sys.stdout.write(f"{alarm} disarmed\n")
    if not result.alarms:
        sys.stdout.write("no alarms\n")


for _command in (status, compact, defrag, disarm):
    etcd.add_command(_command)
