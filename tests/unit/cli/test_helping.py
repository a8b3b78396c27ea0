"""What is said of commands, those that are there and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from wharfinger.cli.commands import COMMANDS
from wharfinger.cli.config import config
from wharfinger.cli.helping import unknown_command
from wharfinger.cli.main import wharf


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gte", "Did you mean this?\n\tget"),
        ("descrbe", "Did you mean this?\n\tdescribe"),
        ("rollout", "kubectl has it"),
        ("zzz", 'unknown command "zzz" for "wharf"'),
    ],
)
def test_unknown_commands(name: str, said: str) -> None:
    assert said in unknown_command(name, COMMANDS)


def test_help_is_not_cut_off() -> None:
    shown = CliRunner().invoke(config, ["--help"]).output
    assert "..." not in shown.split("Commands:")[1]
    assert "use-context" in shown


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_with_its_options_explained(name: str) -> None:
    result = CliRunner().invoke(wharf, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"Usage: wharf {name}" in result.output
    assert "..." not in result.output.split("Options:")[-1]


def test_the_page_on_the_command_line_names_every_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    table = page.split("## Commands")[1].split("\n\n`wharf COMMAND")[0]
    assert [name for name in COMMANDS if f"`{name}" not in table] == []
