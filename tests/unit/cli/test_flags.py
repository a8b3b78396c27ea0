"""Flags with a value, as kubectl takes them."""

from __future__ import annotations

import click
import pytest

from wharfinger.cli.main import with_plain_flags


@click.command()
@click.option("--wait/--no-wait", default=True)
@click.option("--force", is_flag=True)
@click.option("--label", default="")
def command() -> None:
    pass


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (["--wait=false", "x"], ["--no-wait", "x"]),
        (["--wait=true"], ["--wait"]),
        (["--force=true", "--force=0"], ["--force"]),
        (["--label=true"], ["--label=true"]),
        (["--wait=perhaps"], ["--wait=perhaps"]),
        (["--", "--wait=false"], ["--", "--wait=false"]),
    ],
)
def test_switches_may_have_a_value(given: list[str], plain: list[str]) -> None:
    assert with_plain_flags(command, given) == plain
