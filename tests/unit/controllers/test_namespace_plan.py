"""What a dying namespace says about itself."""

from controlplane.controllers.namespace_plan import Leftover, Leftovers, plan_conditions
from wharfinger.api.types import core


def told(namespace: core.Namespace, left: Leftovers) -> dict[str, tuple[str, str, str]]:
    return {item.type: (item.status, item.reason, item.message) for item in plan_conditions(namespace, left)}


def test_an_empty_namespace_is_done() -> None:
    left = Leftovers()
    assert left.done
    conditions = told(core.Namespace(), left)
    assert {status for status, _, _ in conditions.values()} == {"False"}
    assert len(conditions) == 5


def test_what_remains_is_named_with_its_finalizers() -> None:
    left = Leftovers(objects={"configmaps": [Leftover(f"c{i}", ("example.com/x",)) for i in range(5)]})
    conditions = told(core.Namespace(), left)
    assert conditions["NamespaceContentRemaining"] == (
        "True", "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 5 resource instances (c0, c1, c2, and 2 more)",
    )  # fmt: skip
    status, reason, message = conditions["NamespaceFinalizersRemaining"]
    assert (status, reason) == ("True", "SomeFinalizersRemain")
    assert message.endswith(
        "example.com/x in 5 resource instances (configmaps/c0, configmaps/c1, configmaps/c2, and 2 more)"
    )


def test_failures_are_told_and_tried_again_soon() -> None:
    left = Leftovers(failures={"secrets": "no leader"})
    assert not left.done
    assert left.next_look() <= 1.0
    assert told(core.Namespace(), left)["NamespaceDeletionContentFailure"][0] == "True"


def test_times_change_only_with_the_status() -> None:
    namespace = core.Namespace()
    left = Leftovers(objects={"pods": [Leftover("p", grace_seconds=30)]}, waiting=("secrets",))
    namespace.status.conditions.extend(plan_conditions(namespace, left))
    for condition in namespace.status.conditions:
        condition.lastTransitionTime.seconds = 5
    left.objects["pods"].append(Leftover("q"))
    again = {item.type: item for item in plan_conditions(namespace, left)}
    assert again["NamespaceContentRemaining"].lastTransitionTime.seconds == 5
    assert "other resources" in again["NamespaceContentRemaining"].message
    done = {item.type: item for item in plan_conditions(namespace, Leftovers())}
    assert done["NamespaceContentRemaining"].lastTransitionTime.seconds > 5


def test_how_long_to_wait_depends_on_what_is_left() -> None:
    assert Leftovers(objects={"pods": [Leftover("p", grace_seconds=40)]}).next_look() == 10.0
    assert Leftovers(objects={"x": [Leftover("p", ("f",))]}).next_look() == 5.0
    assert Leftovers(objects={"x": [Leftover("p", ("f",)), Leftover("q")]}).next_look() == 1.0
