from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import Bench, node, pod


def test_gates_keep_a_pod_out() -> None:
    bench = Bench(node("a"))
    gated = pod()
    gated.spec.schedulingGates.add(name="example.com/quota")
    refusal = Profile().gate(bench.info(gated))
    assert refusal is not None
    assert refusal.plugin == "SchedulingGates"
    assert refusal.reasons == ("waiting for scheduling gates: [example.com/quota]",)
    assert Profile().gate(bench.info(pod())) is None
