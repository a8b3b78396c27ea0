"""Strategic merge patch: Kubernetes' own, in which lists of objects merge by a key that the schema names.

The schema is read from the descriptors (``patch_strategy``, ``merge_key``). Directives in the patch override it:

``$patch``                       ``replace`` takes the patch as it is, ``delete`` empties an object or removes the
                                 element of a list
``$retainKeys``                  the only fields of an object that survive
``$deleteFromPrimitiveList/x``   values to take out of the list x
``$setElementOrder/x``           the order that the elements of x shall have

Elements that a patch adds stand before those that only the object has, unless an order says otherwise; that is what
Kubernetes does (documented in ``sig-api-machinery/strategic-merge-patch.md`` of its community pages, and recorded in
the conversations that the tests replay).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from wharfinger.api.codec import schema
from wharfinger.api.errors import BadRequestError, InvalidError, StatusError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_LIST = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"


def strategic_merge(doc: Any, patch: Any, message_class: type[Message]) -> Any:
    """Return `doc`, an object of `message_class` in JSON, with `patch` merged into it; neither is changed.

    Raises BadRequestError for a malformed directive, InvalidError for lists of lists, and StatusError (500, without a
    reason, as Kubernetes answers) when an element has no merge key or ``$patch`` is unknown.
    """
    if not isinstance(patch, dict):
        raise BadRequestError("a strategic merge patch is an object with the fields to change")
    original = orjson.loads(orjson.dumps(doc))
    changes = orjson.loads(orjson.dumps(patch))
    return _merge_object(original, changes, _Schema(schema.descriptor_of(message_class)))


class _Schema:
    """What the descriptors say about the fields of one object; without a descriptor, nothing."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: Descriptor | None) -> None:
        self._descriptor = descriptor

    def field(self, name: str) -> tuple[_Schema, str, str]:
        """Return the schema of a field's objects, its strategy (without retainKeys) and its merge key."""
        if self._descriptor is None:
            return _UNKNOWN, "", ""
        chain = schema.info_of(self._descriptor).json_fields.get(name)
        if chain is None:
            return _UNKNOWN, "", ""
        field = chain[-1]
        strategies = [strategy for strategy in field.options.patch_strategy if strategy != "retainKeys"]
        below: _Schema = _UNKNOWN
        if field.message is not None and schema.form_of(field.message) == schema.OBJECT:
            below = _MapOf(field.message) if field.is_map else _Schema(field.message)
        return below, strategies[0] if strategies else "", field.options.merge_key


class _MapOf(_Schema):
    """The schema of a map from names to objects."""

    __slots__ = ("_values",)

    def __init__(self, values: Descriptor) -> None:
        super().__init__(None)
        self._values = values

    def field(self, name: str) -> tuple[_Schema, str, str]:
        """Return the schema of the objects in the map."""
        return _Schema(self._values), "", ""


_UNKNOWN = _Schema(None)


def _failure(message: str) -> StatusError:
    return StatusError(message)


# --- objects ----------------------------------------------------------------------------------------------------------


def _merge_object(original: dict[str, Any], patch: dict[str, Any], known: _Schema) -> dict[str, Any]:
    if _DIRECTIVE in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, known)
    for name, value in patch.items():
        removing = name.startswith(_DELETE_LIST)
        field = _directed_field(name, _DELETE_LIST) if removing else name
        if value is None:
            original.pop(field, None)
            continue
        current = original.get(field)
        if removing:
            if isinstance(current, list):
                gone = {_identity(item, "") for item in _list(value, name)}
                original[field] = [item for item in current if _identity(item, "") not in gone]
            continue
        below, strategy, merge_key = known.field(field)
        if isinstance(value, dict) and isinstance(current, dict) and strategy != "replace":
            original[field] = _merge_object(current, value, below)
        elif isinstance(value, list) and isinstance(current, list) and strategy == "merge":
            original[field] = _merge_list(current, value, below, merge_key)
        else:
            original[field] = _plain(value)
    return original


def _directed(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE)
    if directive == "replace":
        return _plain(patch)  # type: ignore[no-any-return]
    if directive == "delete":
        return {}
    raise _failure(f"the directive $patch can be replace or delete in an object, not {directive!r}")


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    if not isinstance(kept, list):
        raise BadRequestError("$retainKeys must be a list of field names")
    kept = {name for name in kept if isinstance(name, str)}
    for name, value in patch.items():
        if value is not None and name not in kept and not name.startswith((_DELETE_LIST, _ORDER)):
            raise BadRequestError(f'$retainKeys does not name "{name}", which the patch sets')
    for name in [name for name in original if name not in kept]:
        del original[name]


def _directed_field(name: str, prefix: str) -> str:
    head, slash, field = name.partition("/")
    if head != prefix or not slash or not field:
        raise BadRequestError(f"the directive {name!r} must have the form {prefix}/<field>")
    return field


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise _failure(f"{name} must be a list, not {value!r:.60}")
    return value


def _plain(value: Any) -> Any:
    """Return a value that is new to the object: without directives and nulls."""
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            return {}
        return {
            name: _plain(item)
            for name, item in value.items()
            if item is not None and name not in (_DIRECTIVE, _RETAIN) and not name.startswith((_DELETE_LIST, _ORDER))
        }
    if isinstance(value, list):
        return [
            _plain(item)
            for item in value
            if not (isinstance(item, dict) and (item.get(_DIRECTIVE) == "delete" or item == {_DIRECTIVE: "replace"}))
        ]
    return value


# --- lists ------------------------------------------------------------------------------------------------------------


def _merge_list(original: list[Any], patch: list[Any], known: _Schema, merge_key: str) -> list[Any]:
    if not original and not patch:
        return original
    if not _of_objects([*original, *patch]):
        distinct: dict[Any, Any] = {}
        for item in (*original, *patch):
            distinct.setdefault(_identity(item, ""), item)
        merged = list(distinct.values())
        return _in_order(merged, patch, original, "")
    if not merge_key:
        raise _failure("a list of objects without a merge key cannot be merged")
    original, patch = _apply_element_directives(original, patch, merge_key)
    server_order = list(original)
    merged = list(original)
    places: dict[Any, int] = {}
    for at, item in enumerate(merged):
        if item.get(merge_key) is not None:
            places.setdefault(_identity(item, merge_key), at)
    for element in patch:
        place = places.setdefault(_identity(element, merge_key), len(merged))
        if place == len(merged):
            merged.append(_plain(element))
        else:
            merged[place] = _merge_object(merged[place], element, known)
    return _in_order(merged, patch, server_order, merge_key)


def _apply_element_directives(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[dict[str, Any]]]:
    ordinary: list[dict[str, Any]] = []
    deleted: set[Any] = set()
    replace = False
    for element in patch:
        directive = element.get(_DIRECTIVE)
        if directive is None:
            ordinary.append(element)
        elif directive == "delete":
            deleted.add(_identity(element, merge_key))
        elif directive == "replace":
            replace = True
        else:
            raise _failure(f"the directive $patch can be replace or delete in a list, not {directive!r}")
    if deleted:
        original = [
            item for item in original if item.get(merge_key) is None or _identity(item, merge_key) not in deleted
        ]
    if replace:
        return [_plain(element) for element in ordinary], []
    return original, ordinary


def _key(element: Any, merge_key: str) -> Any:
    if not isinstance(element, dict) or element.get(merge_key) is None:
        raise _failure(f"an element of a list lacks {merge_key!r}, the field by which its elements are told apart")
    return element[merge_key]


def _of_objects(values: list[Any]) -> bool:
    """Whether a list holds objects (or else plain values); raises when it mixes them or holds lists."""
    kinds = {type(value) for value in values}
    if list in kinds:
        raise InvalidError("lists of lists cannot be merged", details={})
    if dict in kinds and len(kinds) > 1:
        raise _failure("a list that mixes objects with other values cannot be merged")
    return dict in kinds


def _identity(element: Any, merge_key: str) -> Any:
    """Return what tells an element from the others; unlike in Python, true is not 1 and lists can be compared."""
    value = _key(element, merge_key) if merge_key else element
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _in_order(merged: list[Any], patch_order: list[Any], server_order: list[Any], merge_key: str) -> list[Any]:
    """Put merged elements into order: those of the patch in its order, the others in theirs, woven together.

    An element that only the object has goes before one of the patch only when the object had both, in that order.
    """
    by_patch = _positions(patch_order, merge_key)
    by_server = _positions(server_order, merge_key)
    patched: list[Any] = []
    others: list[Any] = []
    for element in merged:
        (patched if _identity(element, merge_key) in by_patch else others).append(element)
    patched.sort(key=lambda element: by_patch[_identity(element, merge_key)])
    others.sort(key=lambda element: by_server.get(_identity(element, merge_key), len(by_server)))
    woven: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(patched):
        mine = by_server.get(_identity(others[left], merge_key), -1)
        theirs = by_server.get(_identity(patched[right], merge_key), -1)
        if 0 <= mine < theirs:
            woven.append(others[left])
            left += 1
        else:
            woven.append(patched[right])
            right += 1
    return [*woven, *others[left:], *patched[right:]]


def _positions(elements: list[Any], merge_key: str) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for at, element in enumerate(elements):
        found.setdefault(_identity(element, merge_key), at)
    return found


def _merge_ordered_lists(original: dict[str, Any], patch: dict[str, Any], known: _Schema) -> None:
    """Carry out each ``$setElementOrder`` together with the list that it orders."""
    for name in [name for name in patch if name.startswith(_ORDER)]:
        order = _list(patch.pop(name), name)
        field = _directed_field(name, _ORDER)
        below, strategy, merge_key = known.field(field)
        current = _list(original[field], field) if original.get(field) is not None else None
        changes = _list(patch[field], field) if patch.get(field) is not None else None
        if changes is not None:
            _check_order(changes, order, name, merge_key)
        if current is None and changes is None:
            continue
        if current is None:
            merged = _plain(changes)
        elif changes is None:
            merged = current
        elif strategy == "merge":
            merged = _merge_list(current, changes, below, merge_key)
        else:
            merged = _plain(changes)
        original[field] = _in_order(merged, order, current or [], merge_key)
        patch.pop(field, None)


def _check_order(changes: list[Any], order: list[Any], name: str, merge_key: str) -> None:
    wanted = iter(order)
    for element in changes:
        if isinstance(element, dict) and element.get(_DIRECTIVE) is not None:
            continue
        identity = _identity(element, merge_key)
        if not any(_identity(other, merge_key) == identity for other in wanted):
            raise _failure(f"{name} does not have the elements of the patched list in the same order")
