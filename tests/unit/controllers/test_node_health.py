"""Who has fallen silent: every case on a virtual clock."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.controllers.node_health import HealthOptions, NodeHealth, TickReport, unknown_status
from controlplane.controllers.node_taints import NOT_READY, UNREACHABLE
from controlplane.controllers.zones import EvictionRates
from tests.unit.controllers.builders import lease, node

PERIOD = 5.0


class World:
    """A cluster of nodes with heartbeats, and a watch that can stall."""

    def __init__(
        self, names: list[str], *, zone: dict[str, str] | None = None, options: HealthOptions | None = None
    ) -> None:
        self.now = 1000.0
        self.health = NodeHealth(options or HealthOptions(), now=self.now)
        self.version = 1
        self.proof = self.now
        self.alive = set(names)
        self.watch_live = True
        for name in names:
            self.health.observe_node(node(name, zone=(zone or {}).get(name, "")), self.now)
            self.health.observe_lease(lease(name), self.now)

    def beat(self) -> None:
        for name in sorted(self.alive):
            self.version += 1
            self.health.observe_lease(lease(name, version=self.version), self.now)

    def tick(self) -> TickReport:
        self.now += PERIOD
        if self.watch_live:
            self.proof = self.now
            self.beat()
        return self.health.tick(self.now, idle=self.now - self.proof)

    def run(self, seconds: float) -> list[TickReport]:
        return [self.tick() for _ in range(round(seconds / PERIOD))]

    def write(self, names: set[str]) -> None:
        """Carry out what the plans say, as the controller would, and show the result to the watch."""
        for name in names & self.health.records.keys():
            record = self.health.records[name]
            plan = self.health.plan(name)
            if plan.status is not None:
                record.node.status.CopyFrom(plan.status)
                self.health.observe_node(record.node, self.now)
            taints = self.health.plan_taints(name)
            if taints.changed:
                del record.node.spec.taints[:]
                record.node.spec.taints.extend(taints.taints)
                self.health.observe_node(record.node, self.now)
            if plan.announce:
                record.announced = plan.announce

    def settle(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD)):
            self.write(self.tick().sync)

    def taints(self, name: str) -> set[str]:
        return {f"{taint.key}:{taint.effect}" for taint in self.health.records[name].node.spec.taints}

    def ready(self, name: str) -> str:
        return str(self.health.records[name].node.status.conditions[0].status)


def test_a_node_that_renews_is_left_alone() -> None:
    world = World(["a", "b"])
    assert all(not report.sync for report in world.run(600))


def test_silence_beyond_the_grace_makes_a_node_unknown_and_evicts() -> None:
    world = World(["a", "b", "c"])
    world.alive -= {"a"}
    world.settle(40)
    assert world.ready("a") == "True"
    world.settle(10)
    assert world.ready("a") == "Unknown"
    assert world.taints("a") == {f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"}
    assert world.ready("b") == "True"


def test_a_renewal_that_says_nothing_new_about_the_time_counts() -> None:
    # The agent's clock stands still or runs backwards: its lease changes all the same.
    world = World(["a", "b"])
    world.settle(300)
    assert world.ready("a") == "True"


def test_a_heartbeat_in_the_status_counts_too() -> None:
    world = World(["a", "b"])
    world.alive -= {"a"}
    for beat in range(20):
        world.settle(30)
        world.health.observe_node(node("a", heartbeat=100 - beat), world.now)  # backwards
    assert world.ready("a") == "True"


def test_our_own_writes_are_no_heartbeat() -> None:
    world = World(["a", "b"])
    world.alive -= {"a"}
    for version in range(2, 12):
        world.settle(5)
        world.health.observe_node(node("a", version=version), world.now)
    assert world.ready("a") == "True"
    world.settle(5)
    assert world.ready("a") == "Unknown"


def test_a_node_that_never_reported_has_the_startup_grace() -> None:
    world = World(["b"])
    world.health.observe_node(node("a", ready=""), world.now)
    world.run(60)
    assert not world.health.records["a"].overdue
    world.run(5)
    status = world.health.plan("a").status
    assert status is not None
    assert {(c.type, c.status, c.reason) for c in status.conditions} == {
        (name, "Unknown", "NodeStatusNeverUpdated")
        for name in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    }


def test_nothing_is_decided_while_the_watch_is_stalled_and_all_begin_anew_afterwards() -> None:
    world = World(["a", "b", "c"])
    world.settle(100)
    world.watch_live = False  # etcd stands still: no renewal arrives, nor does a proof
    world.settle(300)
    assert {world.ready(name) for name in "abc"} == {"True"}
    assert not world.health.clock.live
    # It is back, but the agents' renewals take their time.
    world.watch_live = True
    world.alive.clear()
    reports = world.run(35)
    assert reports[0].restarted
    assert not any(report.sync for report in reports)
    world.alive = {"a", "b", "c"}
    world.settle(100)
    assert {world.ready(name) for name in "abc"} == {"True"}


def test_a_stall_does_not_save_a_node_that_is_really_gone() -> None:
    world = World(["a", "b", "c"])
    world.alive -= {"a"}
    world.watch_live = False
    world.settle(300)
    world.watch_live = True
    world.settle(60)
    assert world.ready("a") == "Unknown"


def test_a_pause_of_this_process_begins_all_anew() -> None:
    world = World(["a", "b"])
    world.settle(60)
    world.now += 500  # SIGSTOP; what lay in the socket is read before the tick and looks fresh
    world.alive.clear()
    world.proof = world.now
    report = world.health.tick(world.now, idle=0.0)
    assert "stood still" in report.restarted
    assert not report.sync
    world.alive = {"a", "b"}
    world.settle(60)
    assert world.ready("a") == "True"


def test_a_new_leader_gives_everybody_the_grace_anew() -> None:
    world = World(["a", "b"])
    late = NodeHealth(HealthOptions(), now=5000.0)
    for name in "ab":
        late.observe_node(world.health.records[name].node, 5000.0)
        late.observe_lease(lease(name, version=1), 5000.0)
    assert not late.tick(5005.0, idle=0.0).sync
    assert late.silence("a") <= 5.0


def test_nodes_of_a_zone_are_given_up_one_by_one() -> None:
    names = [f"n{i}" for i in range(20)]
    world = World(names)
    world.alive -= {"n0", "n1", "n2"}
    world.settle(50)
    tainted = [name for name in names if f"{UNREACHABLE}:NoExecute" in world.taints(name)]
    assert len(tainted) == 1  # one at once, then one every ten seconds
    world.settle(20)
    tainted = [name for name in names if f"{UNREACHABLE}:NoExecute" in world.taints(name)]
    assert len(tainted) == 3
    assert all(f"{UNREACHABLE}:NoSchedule" in world.taints(name) for name in ("n0", "n1", "n2"))


def test_when_most_nodes_of_a_small_zone_vanish_none_is_given_up() -> None:
    world = World([f"n{i}" for i in range(5)])
    world.alive -= {"n0", "n1", "n2"}
    world.settle(600)
    assert world.health.zones[""].state == "PartialDisruption"
    assert {world.ready(f"n{i}") for i in range(3)} == {"Unknown"}
    assert not any(f"{UNREACHABLE}:NoExecute" in world.taints(f"n{i}") for i in range(5))


def test_a_node_that_waits_to_be_given_up_may_move_to_another_zone_and_vanish() -> None:
    names = ["a1", "a2", "a3", "a4", "b1"]
    zones = {name: name[0] for name in names}
    world = World(names, zone=zones, options=HealthOptions(rates=EvictionRates(normal=0.02)))
    world.alive -= {"a1", "a2"}
    world.run(45)  # the first of them is given up at once, the other waits for its turn
    (waiting,) = [name for name in ("a1", "a2") if not world.health.records[name].granted]
    moved = node(waiting, zone="b")
    moved.status.CopyFrom(world.health.records[waiting].node.status)
    world.health.observe_node(moved, world.now)
    world.tick()
    world.health.forget_node(waiting)
    world.run(300)  # its turn comes, and nobody is there
    assert waiting not in world.health.records


def test_when_all_nodes_vanish_the_brake_takes_the_taints_off_until_one_is_back() -> None:
    world = World(["a", "b"], options=HealthOptions(rates=EvictionRates(normal=10.0)))
    world.alive -= {"a"}
    world.settle(60)
    assert f"{UNREACHABLE}:NoExecute" in world.taints("a")
    world.alive -= {"b"}
    reports = []
    for _ in range(12):
        report = world.tick()
        reports.append(report)
        world.write(report.sync)
    assert [r.suspended for r in reports if r.suspended is not None] == [True]
    for name in "ab":
        assert world.taints(name) == {f"{UNREACHABLE}:NoSchedule"}
    world.alive |= {"b"}
    world.health.observe_node(node("b", heartbeat=99, taints=((UNREACHABLE, "NoSchedule"),)), world.now)
    report = world.tick()
    assert report.suspended is False
    world.write(report.sync)
    world.settle(20)
    assert world.health.silence("a") <= 25  # began anew
    world.settle(40)
    assert f"{UNREACHABLE}:NoExecute" in world.taints("a")


def test_a_zone_that_is_gone_while_another_lives_is_given_up() -> None:
    zone = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    world = World(list(zone), zone=zone)
    world.alive -= {"a1", "a2"}
    world.settle(80)
    assert world.health.zones["/a"].state == "FullDisruption"
    assert all(f"{UNREACHABLE}:NoExecute" in world.taints(name) for name in ("a1", "a2"))


def test_a_node_that_reports_trouble_is_not_ready_at_once_and_comes_back() -> None:
    world = World(["a", "b", "c"])
    world.health.observe_node(node("a", ready="False", heartbeat=2), world.now)
    report = world.tick()
    assert "a" in report.sync
    assert world.health.plan("a").announce == "False"
    world.write(report.sync)
    assert world.taints("a") == {f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute"}
    back = node("a", heartbeat=3, taints=((NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")))
    world.health.observe_node(back, world.now)
    assert world.health.plan_taints("a").taints == []
    assert world.health.plan("a").announce == ""


def test_a_node_made_anew_under_its_name_starts_anew() -> None:
    world = World(["a", "b"])
    world.alive -= {"a"}
    world.settle(35)
    world.health.observe_node(node("a", uid="another"), world.now)
    world.settle(35)
    assert world.ready("a") == "True"


def test_unknown_keeps_the_time_of_the_last_heartbeat_and_is_written_once() -> None:
    obj = node(heartbeat=77)
    status = unknown_status(obj)
    assert status is not None
    ready = status.conditions[0]
    assert (ready.status, ready.reason, ready.lastHeartbeatTime.seconds) == ("Unknown", "NodeStatusUnknown", 77)
    obj.status.CopyFrom(status)
    assert unknown_status(obj) is None


@pytest.mark.parametrize("grace", [10.0, 20.0])
def test_short_graces_are_kept_to(grace: float) -> None:
    world = World(["a", "b", "c"], options=HealthOptions(monitor_grace_period=grace))
    world.alive -= {"a"}
    world.settle(grace)
    assert world.ready("a") == "True"
    world.settle(10)
    assert world.ready("a") == "Unknown"


TROUBLE = st.lists(
    st.tuples(st.sampled_from(["works", "etcd stands still", "this process is paused"]), st.integers(1, 400)),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(TROUBLE, st.integers(1, 8))
def test_whatever_happens_to_us_no_living_node_is_ever_given_up(trouble: list[tuple[str, int]], late: int) -> None:
    """Agents that can renew do, at the latest `late` periods after whatever kept them from it has ended."""
    names = {"a", "b", "c"}
    world = World(sorted(names), options=HealthOptions(monitor_grace_period=60.0))
    for what, seconds in trouble:
        if what == "this process is paused":
            world.now += seconds
            world.proof = world.now  # the worst case: what is read first looks fresh
            world.alive.clear()
            assert not world.health.tick(world.now, idle=0.0).sync
        else:
            world.watch_live = what == "works"
            if not world.watch_live:
                world.alive.clear()
            for period in range(round(seconds / PERIOD)):
                if world.watch_live and period >= late:
                    world.alive = set(names)
                world.write(world.tick().sync)
        # The agents come back before the next thing happens.
        world.watch_live = True
        for period in range(late + 1):
            if period == late:
                world.alive = set(names)
            world.write(world.tick().sync)
    assert {world.ready(name) for name in names} == {"True"}
