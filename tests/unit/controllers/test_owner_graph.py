"""The graph of owners, and what it makes of changes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.controllers.owner_graph import FOREGROUND, ORPHAN, Owner, OwnerGraph, Vertex, decide, vertex_of
from wharfinger.api import kinds
from wharfinger.api.types import core, meta

CONFIGMAP = kinds.of(core.ConfigMap)
NODE = kinds.of(core.Node)


def ref(uid: str, *, name: str = "", blocks: bool = False, kind: str = "ConfigMap") -> Owner:
    return Owner("v1", kind, name or f"n-{uid}", uid, blocks)


def vertex(
    uid: str,
    *owners: Owner,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (),
    namespace: str = "ns",
    version: int = 1,
) -> Vertex:
    return Vertex(
        kind=CONFIGMAP, namespace=namespace, name=f"n-{uid}", uid=uid, owners=owners, deleting=deleting,
        finalizers=finalizers, version=str(version),
    )  # fmt: skip


def graph(*vertices: Vertex) -> OwnerGraph:
    made = OwnerGraph(kinds.by_kind)
    for item in vertices:
        made.observe(item)
    return made


def test_full_objects_and_metadata_alone_make_the_same_vertex() -> None:
    obj = core.ConfigMap(data={"k": "v" * 100})
    obj.metadata.name, obj.metadata.namespace, obj.metadata.uid = "a", "ns", "1"
    obj.metadata.ownerReferences.add(apiVersion="v1", kind="ConfigMap", name="o", uid="2", blockOwnerDeletion=True)
    obj.metadata.finalizers.append(ORPHAN)
    lean = vertex_of(CONFIGMAP, meta.PartialObjectMetadata.FromString(obj.SerializeToString()))
    full = vertex_of(CONFIGMAP, obj)
    assert (lean.name, lean.namespace, lean.uid, lean.owners, lean.finalizers, lean.deleting) == (
        full.name, full.namespace, full.uid, full.owners, full.finalizers, full.deleting,
    ) == ("a", "ns", "1", (Owner("v1", "ConfigMap", "o", "2", True),), (ORPHAN,), False)  # fmt: skip


def test_dependents_are_looked_at_when_their_owner_goes() -> None:
    made = graph(vertex("o"), vertex("a", ref("o")), vertex("b", ref("o")), vertex("c"))
    assert sorted(made.remove("o")) == [("check", "a"), ("check", "b")]
    assert made.get("o") is None


def test_an_owner_that_was_not_seen_is_virtual_until_it_is() -> None:
    made = OwnerGraph(kinds.by_kind)
    assert made.observe(vertex("a", ref("o"))) == [("check", "o")]
    owner = made.get("o")
    assert owner is not None
    assert owner.virtual
    assert (owner.namespace, owner.name) == ("ns", "n-o")
    assert made.observe(vertex("b", ref("o"))) == []
    assert made.observe(vertex("o")) == []  # shown: nothing to verify any more
    assert {item.uid for item in made.dependents(made.vertices["o"])} == {"a", "b"}


def test_an_owner_named_elsewhere_than_it_is_sends_its_dependents_to_be_looked_at() -> None:
    made = OwnerGraph(kinds.by_kind)
    made.observe(vertex("a", ref("o", name="wrong")))
    assert made.observe(vertex("o")) == [("check", "a")]
    assert made.observe(vertex("b", ref("o"), namespace="elsewhere")) == [("check", "b")]


def test_a_virtual_owner_that_nobody_names_is_forgotten() -> None:
    made = graph(vertex("a", ref("o")))
    made.observe(vertex("a", version=2))
    assert made.get("o") is None
    made.observe(vertex("b", ref("x")))
    made.remove("b")
    assert made.get("x") is None


def test_deletion_that_waits_for_dependents() -> None:
    made = graph(vertex("o"), vertex("a", ref("o", blocks=True)), vertex("b", ref("o")))
    tasks = made.observe(vertex("o", deleting=True, finalizers=(FOREGROUND,), version=2))
    assert set(tasks) == {("check", "a"), ("check", "b"), ("check", "o")}
    assert [item.uid for item in made.blocking(made.vertices["o"])] == ["a"]
    assert made.observe(vertex("o", deleting=True, finalizers=(FOREGROUND,), version=3)) == []
    assert made.remove("a") == [("check", "o")]
    assert made.blocking(made.vertices["o"]) == []


def test_a_dependent_that_no_longer_blocks_lets_its_owner_go_on() -> None:
    owner = vertex("o", deleting=True, finalizers=(FOREGROUND,))
    made = graph(owner, vertex("a", ref("o", blocks=True)))
    assert ("check", "o") in made.observe(vertex("a", ref("o", blocks=False), version=2))
    made = graph(owner, vertex("a", ref("o", blocks=True)))
    assert ("check", "o") in made.observe(vertex("a", version=2))


def test_a_dependent_that_comes_while_its_owner_waits_is_looked_at() -> None:
    made = graph(vertex("o", deleting=True, finalizers=(FOREGROUND,)))
    assert made.observe(vertex("late", ref("o", blocks=True))) == [("check", "late")]


def test_orphaning_is_one_task_also_when_it_began_before_us() -> None:
    made = graph(vertex("a", ref("o")))
    assert made.observe(vertex("o", deleting=True, finalizers=(ORPHAN,))) == [("orphan", "o")]
    assert made.observe(vertex("o", deleting=True, finalizers=(ORPHAN,), version=2)) == []


def test_owners_outside_namespaces_are_looked_for_there() -> None:
    made = OwnerGraph(kinds.by_kind)
    made.observe(vertex("a", ref("n1", kind="Node")))
    owner = made.get("n1")
    assert owner is not None
    assert (owner.kind, owner.namespace) == (NODE, "")


def test_an_unknown_kind_of_owner_is_a_vertex_without_kind() -> None:
    made = graph(vertex("a", Owner("x.example/v1", "Thing", "t", "t", False)))
    assert made.vertices["t"].kind is None


def test_decisions() -> None:
    live = vertex("a", ref("x"), ref("y"))

    def act(x: str, y: str, **options: bool) -> str:
        options = {"has_dependents": False, "in_a_circle": False} | options
        decision = decide(live, {"x": x, "y": y}, **options)  # type: ignore[dict-item]
        return (
            f"{decision.action} {decision.policy if 'delete' in decision.action else ','.join(decision.owners)}".strip()
        )

    assert act("solid", "solid") == "keep"
    assert act("solid", "gone") == "drop references y"
    assert act("waiting", "solid") == "drop references x"
    assert act("gone", "gone") == "delete Background"
    assert act("gone", "unknown") == "keep"
    assert act("waiting", "gone") == "delete Background"
    assert act("waiting", "gone", has_dependents=True) == "delete Foreground"
    assert act("waiting", "gone", has_dependents=True, in_a_circle=True) == "unblock and delete Foreground"
    assert decide(vertex("b"), {}, has_dependents=False, in_a_circle=False).action == "keep"
    orphan = vertex("c", ref("x"), finalizers=(ORPHAN,))
    assert decide(orphan, {"x": "gone"}, has_dependents=True, in_a_circle=False).policy == "Orphan"
    foreground = vertex("c", ref("x"), finalizers=(FOREGROUND,))
    assert decide(foreground, {"x": "gone"}, has_dependents=True, in_a_circle=False).policy == "Foreground"


UIDS = st.sampled_from("abcdef")
CHANGES = st.lists(st.tuples(UIDS, st.one_of(st.none(), st.sets(UIDS, max_size=3))), max_size=40)


@settings(max_examples=200)
@given(CHANGES)
def test_the_graph_always_agrees_with_the_objects(changes: list[tuple[str, set[str] | None]]) -> None:
    """Whatever comes in whatever order, dependents are exactly those objects that name an owner that is a vertex."""
    made, objects = OwnerGraph(kinds.by_kind), dict[str, set[str]]()
    for uid, owners in changes:
        if owners is None:
            objects.pop(uid, None)
            vertex_now = made.get(uid)
            if vertex_now is not None and not vertex_now.virtual:
                made.remove(uid)
        else:
            objects[uid] = owners
            made.observe(vertex(uid, *(ref(owner) for owner in sorted(owners))))
    for uid in objects:
        assert not made.vertices[uid].virtual
    for uid, item in made.vertices.items():
        named_by = {other for other, owners in objects.items() if uid in owners}
        assert (item.dependents or set()) <= named_by
        if item.virtual:
            assert item.dependents
            assert uid not in objects
