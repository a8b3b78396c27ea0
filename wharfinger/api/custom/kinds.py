"""The kinds that a definition makes: one a served version, with class, schema, columns and selectable fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wharfinger.api import codec
from wharfinger.api.custom.columns import PrinterColumn, table_of
from wharfinger.api.custom.objects import CustomObject
from wharfinger.api.custom.paths import SimplePath
from wharfinger.api.custom.schema import Schema, compile_schema
from wharfinger.api.errors import InternalError
from wharfinger.api.kinds import ALL_VERBS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.protobuf.message import Message

    from wharfinger.api.tables.table import Table
    from wharfinger.api.types import apiextensions

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which Kubernetes names them for custom kinds."""
ENDING_VERBS = ("delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""What can still be done while the definition is being deleted."""


@dataclass(frozen=True)
class ScalePaths:
    """Where the numbers of the scale subresource lie."""

    replicas: SimplePath
    status_replicas: SimplePath
    selector: SimplePath | None


@dataclass(frozen=True, eq=False)
class CustomKind(Kind):
    """A kind that a definition made."""

    singular_name: str = ""
    list_name: str = ""
    storage_version: str = ""
    """In which objects are stored; they are read in any."""
    warning: str = ""
    columns: tuple[PrinterColumn, ...] = ()
    shown: Table | None = None
    selectable: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    scale: ScalePaths | None = None
    written: apiextensions.JSONSchemaProps | None = None
    """The schema as the definition has it; None on the side of clients, which know none."""

    @cached_property
    def schema(self) -> Schema | None:
        """The schema, compiled at first use: many definitions are hardly ever used, and some are large.

        Raises InternalError for one that nobody would have accepted here.
        """
        if self.written is None:
            return None
        try:
            return compile_schema(self.written)
        except ValueError as error:
            raise InternalError(f"the schema of {self.group_resource} cannot be compiled: {error}") from error

    @property
    def source(self) -> dict[str, Any]:
        """The schema as JSON, made anew each time; for OpenAPI."""
        found: dict[str, Any] = codec.to_json(self.written) if self.written is not None else {}
        return found

    @property
    def singular(self) -> str:
        """As the definition says."""
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        """As the definition says."""
        return self.list_name or f"{self.kind}List"

    @property
    def described(self) -> bool:
        """No: there is only JSON."""
        return False

    @property
    def partial(self) -> type[Message]:
        """The object's own class: JSON cannot be read in parts."""
        return self.message

    @property
    def getters(self) -> Mapping[str, Callable[[Any], str]]:
        """The selectable fields of the version."""
        return self.selectable

    @property
    def table(self) -> Table | None:
        """The columns of the version."""
        return self.shown

    @property
    def deprecation(self) -> str:
        """What users of a deprecated version are told."""
        return self.warning

    def __repr__(self) -> str:
        return f"<CustomKind {self.api_version} {self.kind}>"


def kind_of(
    definition: apiextensions.CustomResourceDefinition,
    version: apiextensions.CustomResourceDefinitionVersion,
    *,
    names: apiextensions.CustomResourceDefinitionNames,
    ending: bool = False,
) -> CustomKind:
    """Make the kind of one version. `names` are those that were accepted; `ending`: the definition is being deleted."""
    spec = definition.spec
    subresources = []
    if version.subresources.HasField("status"):
        subresources.append("status")
    if version.subresources.HasField("scale"):
        subresources.append("scale")
    columns = tuple(
        PrinterColumn(item.name, item.type, item.jsonPath, item.format, item.description, item.priority)
        for item in version.additionalPrinterColumns
    )
    made = CustomKind(
        group=spec.group,
        version=version.name,
        kind=names.kind,
        resource=spec.names.plural,
        namespaced=spec.scope == "Namespaced",
        message=CustomObject,  # replaced below: class and kind know each other
        list_message=None,
        short_names=tuple(names.shortNames),
        categories=tuple(names.categories),
        verbs=ENDING_VERBS if ending else VERBS,
        subresources=tuple(subresources),
        etcd_prefix=f"/registry/{spec.group}/{spec.names.plural}",
        singular_name=names.singular,
        list_name=names.listKind,
        storage_version=next((item.name for item in spec.versions if item.storage), version.name),
        warning=_warning(definition, version),
        columns=columns,
        shown=table_of(columns),
        selectable={item.jsonPath[1:]: _getter(item.jsonPath) for item in version.selectableFields},
        scale=_scale(version.subresources.scale) if "scale" in subresources else None,
        written=version.schema.openAPIV3Schema,
    )
    return _bind(made)


def bare_kind(
    *, group: str, version: str, kind: str, resource: str, namespaced: bool,
    short_names: Sequence[str] = (), categories: Sequence[str] = (), verbs: Sequence[str] = ALL_VERBS,
    subresources: Sequence[str] = (), singular: str = "", list_kind: str = "", storage_version: str = "",
    columns: Sequence[PrinterColumn] = (),
) -> CustomKind:  # fmt: skip
    """Make a kind of what discovery tells: for clients, who know no schema."""
    made = CustomKind(
        group=group,
        version=version,
        kind=kind,
        resource=resource,
        namespaced=namespaced,
        message=CustomObject,
        list_message=None,
        short_names=tuple(short_names),
        categories=tuple(categories),
        verbs=tuple(verbs),
        subresources=tuple(subresources),
        etcd_prefix=f"/registry/{group}/{resource}",
        singular_name=singular,
        list_name=list_kind,
        storage_version=storage_version or version,
        columns=tuple(columns),
        shown=table_of(columns),
    )
    return _bind(made)


def _bind(kind: CustomKind) -> CustomKind:
    """Give a kind its class, and the class its kind."""
    cls = type(
        kind.kind,
        (CustomObject,),
        {"__slots__": (), "KIND": kind},
    )
    object.__setattr__(kind, "message", cls)  # the two are made together; nobody has seen the kind before
    return kind


def _warning(
    definition: apiextensions.CustomResourceDefinition, version: apiextensions.CustomResourceDefinitionVersion
) -> str:
    if not version.deprecated:
        return ""
    spec = definition.spec
    return version.deprecationWarning or f"{spec.group}/{version.name} {spec.names.kind} is deprecated"


def _getter(path: str) -> Callable[[Any], str]:
    simple = SimplePath.parse(path)

    def read(obj: Any) -> str:
        value = simple.get(obj.content)
        if value is None or isinstance(value, (dict, list)):
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


def _scale(scale: apiextensions.CustomResourceSubresourceScale) -> ScalePaths:
    selector = scale.labelSelectorPath
    return ScalePaths(
        SimplePath.parse(scale.specReplicasPath),
        SimplePath.parse(scale.statusReplicasPath),
        SimplePath.parse(selector) if selector else None,
    )
