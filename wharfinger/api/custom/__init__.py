"""Kinds that definitions of custom resources make: their schemas, their objects, their rules.

`schema` compiles the structural schema of a version; `shaping` prunes and defaults by it, `values` (with `formats` and
`patterns`) judges by it, `ownership` reads list and map kinds from it, `openapi` shows it. `objects` is how an object
lives in memory beside protobuf messages; `kinds` puts all that into the :class:`~wharfinger.api.kinds.Kind` of a
version; `naming` decides about names that two definitions want.
"""

from wharfinger.api.custom.columns import PrinterColumn
from wharfinger.api.custom.kinds import CustomKind, bare_kind, kind_of
from wharfinger.api.custom.objects import CustomObject

__all__ = ["CustomKind", "CustomObject", "PrinterColumn", "bare_kind", "kind_of"]
