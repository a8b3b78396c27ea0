"""ConfigMaps, Secrets and ServiceAccounts."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import core

_DATA = Column("Data", description="How many entries it has.")


def _map_row(obj: core.ConfigMap, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.data) + len(obj.binaryData), text.age(obj, now)]


def _secret_row(obj: core.Secret, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.type, len(obj.data), text.age(obj, now)]


def _account_row(obj: core.ServiceAccount, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.secrets), text.age(obj, now)]


CONFIG_MAPS = Table((NAME, _DATA, AGE), _map_row)
SECRETS = Table((NAME, Column("Type", description="What it is for."), _DATA, AGE), _secret_row)
ACCOUNTS = Table((NAME, Column("Secrets", description="How many secrets it names."), AGE), _account_row)
