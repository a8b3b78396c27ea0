from __future__ import annotations

import pytest

from nodeagent.memory import Ending, Stage, Waiting
from nodeagent.podstatus import NodeView, compute
from nodeagent.runtime import ContainerState
from tests.unit.nodeagent.podkit import NOW, container, make_pod, memory, record, sandbox

NODE = NodeView(("192.0.2.1", "2001:db8::1"))
EXITED, RUNNING = ContainerState.EXITED, ContainerState.RUNNING


def of(pod, found, state=None, now=NOW):
    return compute(pod, found, state or memory(pod), NODE, now)


def conditions(status):
    return {one.type: (one.status, one.reason) for one in status.conditions}


def test_running_pod():
    status = of(make_pod("c"), record(container("c")))
    assert status.phase == "Running"
    assert (status.podIP, status.hostIP) == ("10.0.0.1", "192.0.2.1")
    assert [one.ip for one in status.hostIPs] == ["192.0.2.1", "2001:db8::1"]
    assert status.containerStatuses[0].containerID == "containerd://c0"
    assert set(conditions(status).values()) == {("True", "")}
    assert status.observedGeneration == 1


@pytest.mark.parametrize(
    ("policy", "codes", "ended", "phase"),
    [
        ("Never", (0, 0), True, "Succeeded"), ("Never", (0, 1), True, "Failed"),
        ("OnFailure", (0, 0), True, "Succeeded"), ("Never", (0, 1), False, "Running"),
        ("Always", (0, 1), False, "Running"), ("OnFailure", (0, 1), False, "Running"),
    ],
)  # fmt: skip
def test_phase_of_ended_containers(policy, codes, ended, phase):
    pod = make_pod("a", "b", restart_policy=policy)
    pod.status.phase = "Running"
    state = memory(pod)
    state.stage = Stage.TERMINATED if ended else Stage.ACTIVE
    found = record(container("a", EXITED, exit_code=codes[0]), container("b", EXITED, exit_code=codes[1]))
    assert of(pod, found, state).phase == phase


def test_pod_is_not_reported_as_ended_while_it_is_being_ended():
    pod = make_pod("c", restart_policy="Never")
    pod.status.phase = "Running"
    status = of(pod, record(container("c", EXITED, exit_code=3)))
    assert status.phase == "Running"
    assert conditions(status)["Ready"] == ("False", "PodFailed")


def test_waiting_reason_takes_the_place_of_the_ended_state_until_the_pod_ends():
    pod = make_pod("c")
    state = memory(pod)
    state.waiting["c"] = Waiting("CrashLoopBackOff", "wait")
    found = record(container("c", EXITED, exit_code=1))
    one = of(pod, found, state).containerStatuses[0]
    assert one.state.waiting.reason == "CrashLoopBackOff"
    assert one.lastState.terminated.exitCode == 1
    state.stage = Stage.TERMINATING
    assert of(pod, found, state).containerStatuses[0].state.terminated.exitCode == 1


def test_running_container_that_the_runtime_has_lost():
    pod = make_pod("c")
    pod.status.CopyFrom(of(pod, record(container("c", restarts=2))))
    one = of(pod, record()).containerStatuses[0]
    assert one.state.waiting.reason == "ContainerCreating"
    assert (one.lastState.terminated.reason, one.restartCount) == ("ContainerStatusUnknown", 2)


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_restart_after_the_runtime_has_lost_a_container_shows_what_was_before(looks):
    """However often the agent looks between the loss and the new run, also while that is made but not started."""
    pod = make_pod("c")
    pod.status.CopyFrom(of(pod, record(container("c", restarts=2))))
    for found in (record(), record(container("c", ContainerState.CREATED, restarts=3)))[:looks]:
        pod.status.CopyFrom(of(pod, found))
    for _ in range(2):
        pod.status.CopyFrom(of(pod, record(container("c", restarts=3))))
        one = pod.status.containerStatuses[0]
        assert one.state.HasField("running")
        assert (one.lastState.terminated.reason, one.restartCount) == ("ContainerStatusUnknown", 3)


def test_ended_container_that_the_runtime_has_lost_keeps_its_state():
    pod = make_pod("c", restart_policy="Never")
    pod.status.CopyFrom(of(pod, record(container("c", EXITED, exit_code=3))))
    assert of(pod, record()).containerStatuses[0].state.terminated.exitCode == 3


def test_rejected_pod_says_nothing_but_why():
    pod = make_pod("c")
    state = memory(pod)
    state.stage, state.ending = Stage.TERMINATED, Ending("OutOfcpu", "no room", rejected=True)
    status = of(pod, record(sandboxes=()), state)
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    assert not status.conditions
    assert not status.containerStatuses


def test_others_conditions_stay_and_gates_are_waited_for():
    pod = make_pod("c")
    pod.spec.readinessGates.add(conditionType="example.test/gate")
    assert conditions(of(pod, record(container("c"))))["Ready"] == ("False", "ReadinessGatesNotReady")
    pod.status.conditions.add(type="example.test/gate", status="True")
    status = of(pod, record(container("c")))
    assert conditions(status)["Ready"] == ("True", "")
    assert conditions(status)["example.test/gate"] == ("True", "")


def test_times_of_conditions_change_only_with_their_status():
    pod = make_pod("c")
    first = of(pod, record(container("c")))
    pod.status.CopyFrom(first)
    later = of(pod, record(container("c", EXITED, exit_code=1)), now=NOW + 9)
    moments = {one.type: one.lastTransitionTime.seconds for one in later.conditions}
    assert moments["Ready"] == NOW + 9
    assert moments["Initialized"] == NOW


def test_address_is_kept_when_the_sandbox_is_gone():
    pod = make_pod("c")
    pod.status.CopyFrom(of(pod, record(container("c"))))
    status = of(pod, record(container("c", EXITED), sandboxes=(sandbox(ready=False),)))
    assert status.podIP == "10.0.0.1"
    assert conditions(status)["PodReadyToStartContainers"] == ("False", "")


def test_readiness_and_startup():
    pod = make_pod("c")
    pod.spec.containers[0].readinessProbe.periodSeconds = 1
    pod.spec.containers[0].startupProbe.periodSeconds = 1
    state = memory(pod)

    def flags():
        one = of(pod, record(container("c")), state).containerStatuses[0]
        return one.started, one.ready

    assert flags() == (False, False)
    state.ready["c0"] = True
    assert flags() == (False, False)
    state.started["c0"] = True
    assert flags() == (True, True)
    state.ready["c0"] = False
    assert flags() == (True, False)


def test_last_words_outlive_their_file(tmp_path):
    from dataclasses import replace

    from nodeagent.runtime import TERMINATION_FILE_ANNOTATION

    words = tmp_path / "words"
    words.write_text("out of luck")
    ended = container("c", EXITED, exit_code=1)
    ended = replace(ended, annotations={**ended.annotations, TERMINATION_FILE_ANNOTATION: str(words)})
    pod = make_pod("c", restart_policy="Never")
    pod.status.CopyFrom(of(pod, record(ended)))
    assert pod.status.containerStatuses[0].state.terminated.message == "out of luck"
    words.unlink()
    assert of(pod, record(ended)).containerStatuses[0].state.terminated.message == "out of luck"
