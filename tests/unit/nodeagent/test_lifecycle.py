from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.lifecycle import backoff_key, plan, plan_termination
from nodeagent.memory import Unhealthy
from nodeagent.runtime import ContainerState
from tests.unit.nodeagent.podkit import NOW, container, make_pod, memory, record, sandbox
from wharfinger.api.types import core, meta

EXITED, RUNNING, CREATED = ContainerState.EXITED, ContainerState.RUNNING, ContainerState.CREATED


def names(decided):
    return [start.container.name for start in decided.start]


def test_new_pod_gets_a_sandbox_and_all_its_containers():
    pod = make_pod("a", "b")
    decided = plan(pod, record(sandboxes=()), memory(pod), NOW)
    assert decided.create_sandbox == 0
    assert names(decided) == ["a", "b"]
    assert [start.restart_count for start in decided.start] == [0, 0]


def test_running_pod_needs_nothing():
    pod = make_pod("a")
    decided = plan(pod, record(container("a")), memory(pod), NOW)
    assert decided.create_sandbox is None
    assert not decided.start
    assert not decided.kill
    assert not decided.finished
    assert decided.wake_at is None


def test_init_containers_run_one_after_the_other():
    pod = make_pod("c", init=("i1", "i2"))
    state = memory(pod)
    assert names(plan(pod, record(), state, NOW)) == ["i1"]
    assert names(plan(pod, record(container("i1")), state, NOW)) == []
    assert names(plan(pod, record(container("i1", EXITED)), state, NOW)) == ["i2"]
    done = (container("i2", EXITED), container("i1", EXITED))
    assert names(plan(pod, record(*done), state, NOW)) == ["c"]


def test_failed_init_container_is_repeated_or_ends_the_pod():
    pod = make_pod("c", init=("i",))
    failed = container("i", EXITED, exit_code=1)
    assert [(s.container.name, s.restart_count) for s in plan(pod, record(failed), memory(pod), NOW).start] == [
        ("i", 1)
    ]
    pod.spec.restartPolicy = "Never"
    assert plan(pod, record(failed), memory(pod), NOW).finished


def test_init_container_whose_record_is_gone_is_not_repeated():
    pod = make_pod("c", init=("i",))
    decided = plan(pod, record(container("c")), memory(pod), NOW)
    assert not decided.start


def test_sidecar_must_have_started_before_the_next_and_is_restarted_beside_the_others():
    pod = make_pod("c", sidecars=("s",))
    pod.spec.initContainers[0].startupProbe.periodSeconds = 1
    state = memory(pod)
    assert names(plan(pod, record(), state, NOW)) == ["s"]
    assert names(plan(pod, record(container("s")), state, NOW)) == []
    state.started["s0"] = True
    assert names(plan(pod, record(container("s")), state, NOW)) == ["c"]
    assert names(plan(pod, record(container("c"), container("s", EXITED)), state, NOW)) == ["s"]


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True), ("Always", 1, True), ("OnFailure", 0, False), ("OnFailure", 1, True),
        ("Never", 0, False), ("Never", 1, False),
    ],
)  # fmt: skip
def test_restart_policy(policy, code, again):
    pod = make_pod("c", restart_policy=policy)
    decided = plan(pod, record(container("c", EXITED, exit_code=code)), memory(pod), NOW)
    assert bool(decided.start) == again
    assert decided.finished != again


def test_restarts_wait_ten_seconds_doubled_to_five_minutes():
    pod = make_pod("c")
    state = memory(pod)
    key = backoff_key(pod.spec.containers[0])
    now, waits = NOW, []
    for count in range(8):
        ended = record(container("c", EXITED, restarts=count, exit_code=1, finished=now))
        decided = plan(pod, ended, state, now)
        waits.append(decided.held[0].until - now if decided.held else 0)
        if decided.held:
            assert not decided.start
            assert decided.held[0].waiting.reason == "CrashLoopBackOff"
            assert decided.wake_at == decided.held[0].until
            started = decided.held[0].until
        else:
            started = now
        assert plan(pod, ended, state, started).start[0].restart_count == count + 1
        state.backoff.attempt(key, failed_at=now, now=started)
        now = started + 1
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_backoff_is_forgotten_after_ten_good_minutes():
    pod = make_pod("c")
    state = memory(pod)
    state.backoff.attempt(backoff_key(pod.spec.containers[0]), failed_at=NOW, now=NOW)
    late = NOW + 601
    assert plan(pod, record(container("c", EXITED, exit_code=1, finished=late)), state, late).start


def test_container_left_created_by_a_dead_agent_is_made_anew_under_the_same_count():
    pod = make_pod("c")
    decided = plan(pod, record(container("c", CREATED, restarts=2)), memory(pod), NOW)
    assert decided.start[0].restart_count == 2
    assert decided.start[0].stale is not None


def test_restart_count_goes_on_from_the_api_when_the_runtime_has_forgotten():
    pod = make_pod("c")
    pod.status.containerStatuses.add(name="c", restartCount=4, containerID="containerd://old")
    assert plan(pod, record(), memory(pod), NOW).start[0].restart_count == 5


def test_changed_image_and_failed_probe_end_a_container():
    pod = make_pod("c")
    pod.spec.containers[0].image = "x/y:2"
    assert "definition changed" in plan(pod, record(container("c")), memory(pod), NOW).kill[0].message
    pod = make_pod("c")
    pod.spec.containers[0].livenessProbe.terminationGracePeriodSeconds = 7
    state = memory(pod)
    state.unhealthy["c0"] = Unhealthy("liveness", "no")
    kill = plan(pod, record(container("c")), state, NOW).kill[0]
    assert (kill.probe, kill.grace_seconds) == ("liveness", 7)


def test_dead_sandbox_is_replaced_with_all_in_it_and_init_runs_again():
    pod = make_pod("c", init=("i",))
    dead = record(container("c"), container("i", EXITED), sandboxes=(sandbox(ready=False),))
    decided = plan(pod, dead, memory(pod), NOW)
    assert decided.reset
    assert decided.create_sandbox == 1
    assert [(start.container.name, start.restart_count) for start in decided.start] == [("i", 1)]


def test_dead_sandbox_of_a_never_pod_ends_it():
    pod = make_pod("c", restart_policy="Never")
    lost = (sandbox(ready=False),)
    assert not plan(pod, record(container("c"), sandboxes=lost), memory(pod), NOW).finished
    assert plan(pod, record(container("c", EXITED, exit_code=137), sandboxes=lost), memory(pod), NOW).finished


def test_ephemeral_containers_are_started_once_beside_the_others():
    pod = make_pod("a")
    pod.spec.ephemeralContainers.add(targetContainerName="a").ephemeralContainerCommon.MergeFrom(
        core.EphemeralContainerCommon(name="debug", image="x/y:1")
    )
    state = memory(pod)
    assert names(plan(pod, record(sandboxes=()), state, NOW)) == ["a"], "not before the pod has a sandbox"
    (start,) = plan(pod, record(container("a")), state, NOW).start
    assert (start.container.name, start.ephemeral, start.target_id) == ("debug", True, "a0")
    assert start.field_path == "spec.ephemeralContainers{debug}"
    assert not plan(pod, record(container("debug"), container("a")), state, NOW).start
    ended = container("debug", EXITED, exit_code=1)
    decided = plan(pod, record(ended, container("a")), state, NOW)
    assert not decided.start
    assert not decided.finished
    over = record(container("debug"), container("a", EXITED))
    pod.spec.restartPolicy = "Never"
    assert plan(pod, over, state, NOW).finished, "it keeps no pod alive"
    assert [kill.record.name for kill in plan_termination(pod, over).kill] == ["debug"]
    state.status.ephemeralContainerStatuses.add(name="debug", containerID="containerd://debug0")
    assert not plan(pod, record(container("a")), state, NOW).start, "the runtime has forgotten it, the API has not"


def test_ephemeral_container_whose_target_does_not_run_has_none():
    pod = make_pod("a")
    guest = pod.spec.ephemeralContainers.add(targetContainerName="a")
    guest.ephemeralContainerCommon.name = "debug"
    failed = container("a", EXITED, exit_code=1)
    (start,) = [start for start in plan(pod, record(failed), memory(pod), NOW).start if start.ephemeral]
    assert (start.target, start.target_id) == ("a", "")


def test_active_deadline():
    pod = make_pod("c")
    pod.spec.activeDeadlineSeconds = 60
    pod.status.startTime.CopyFrom(meta.Time(seconds=int(NOW)))
    assert plan(pod, record(container("c")), memory(pod), NOW + 59).wake_at == NOW + 60
    decided = plan(pod, record(container("c")), memory(pod), NOW + 60)
    assert decided.finished
    assert decided.ending is not None
    assert decided.ending.reason == "DeadlineExceeded"


def test_ending_order_is_containers_then_sidecars_from_the_last():
    pod = make_pod("a", "b", sidecars=("s1", "s2"))
    running = [container("a"), container("b"), container("s1"), container("s2")]

    def killed(*left):
        return sorted(kill.record.name for kill in plan_termination(pod, record(*left)).kill)

    assert killed(*running) == ["a", "b"]
    assert killed(*running[2:]) == ["s2"]
    assert killed(running[2]) == ["s1"]
    last = plan_termination(pod, record())
    assert [one.id for one in last.stop_sandboxes] == ["s0"]
    assert not last.done
    assert plan_termination(pod, record(sandboxes=(sandbox(ready=False),))).done


states = st.sampled_from([RUNNING, EXITED, CREATED, ContainerState.UNKNOWN])


@given(
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    inits=st.lists(st.booleans(), max_size=3),
    found=st.dictionaries(st.sampled_from(["i0", "i1", "i2", "a", "b"]), st.tuples(states, st.integers(0, 2))),
    ready=st.sampled_from([None, True, False]),
)
def test_whatever_is_found_nothing_is_started_twice_or_out_of_order(policy, inits, found, ready):
    pod = make_pod("a", "b", restart_policy=policy)
    for index, is_sidecar in enumerate(inits):
        pod.spec.initContainers.add(name=f"i{index}", image="x/y:1", restartPolicy="Always" if is_sidecar else "")
    known = [container(name, state, exit_code=code) for name, (state, code) in found.items()]
    sandboxes = () if ready is None else (sandbox(ready=ready),)
    decided = plan(pod, record(*known, sandboxes=sandboxes), memory(pod), NOW)
    started = names(decided)
    assert len(started) == len(set(started))
    if decided.create_sandbox is None:
        for one in decided.start:
            newest = found.get(one.container.name)
            assert newest is None or newest[0] in (EXITED, CREATED)
    if decided.finished:
        assert not started
    mains = {"a", "b"} & set(started)
    ordinary = {f"i{index}" for index, is_sidecar in enumerate(inits) if not is_sidecar}
    assert not (mains and ordinary & set(started))
