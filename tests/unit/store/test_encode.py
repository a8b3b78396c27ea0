"""The hand-made encoding against the generated classes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.store import Compare, Put, Write, encode
from wharfinger.proto.etcd import rpc_pb2

keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)
revisions = st.integers(0, 2**63 - 1)
writes = st.builds(
    Write,
    compares=st.lists(st.builds(Compare, keys, revisions), max_size=3),
    puts=st.lists(st.builds(Put, keys, st.binary(max_size=5000)), max_size=3),
    deletes=st.lists(keys, max_size=3),
)


def expected(write: Write, leases: list[int]) -> rpc_pb2.TxnRequest:
    request = rpc_pb2.TxnRequest()
    for key, revision in write.compares:
        request.compare.add(target=rpc_pb2.Compare.MOD, key=key.encode(), mod_revision=revision)
        request.failure.add().request_range.key = key.encode()
    for (key, value, _), lease in zip(write.puts, leases, strict=True):
        put = request.success.add().request_put
        put.key, put.value, put.lease = key.encode(), value, lease
    for key in write.deletes:
        request.success.add().request_delete_range.key = key.encode()
    return request


@given(writes, st.integers(0, 2**63 - 1))
def test_a_member_is_the_transaction_it_should_be(write: Write, lease: int) -> None:
    leases = [lease] * len(write.puts)
    assert rpc_pb2.TxnRequest.FromString(encode.member(write, leases)) == expected(write, leases)


def guarded(request: rpc_pb2.TxnRequest, key: str) -> rpc_pb2.TxnRequest:
    request.compare.add(target=rpc_pb2.Compare.MOD, key=key.encode(), mod_revision=0)
    request.failure.add().request_range.key = key.encode()
    return request


@given(writes, keys)
def test_a_guard_is_asked_for_last(write: Write, key: str) -> None:
    leases = [0] * len(write.puts)
    made = encode.Guard(key).single(encode.member(write, leases))
    assert rpc_pb2.TxnRequest.FromString(made) == guarded(expected(write, leases), key)


@given(st.lists(writes, max_size=4), st.booleans(), keys)
def test_a_group_nests_its_members(members: list[Write], puts: bool, key: str) -> None:
    request = guarded(rpc_pb2.TxnRequest(), key)
    for write in members:
        request.success.add().request_txn.CopyFrom(expected(write, [0] * len(write.puts)))
    if puts:
        put = request.failure.add().request_put
        put.key, put.ignore_value, put.ignore_lease = key.encode(), True, True
    bodies = [encode.member(write, [0] * len(write.puts)) for write in members]
    assert rpc_pb2.TxnRequest.FromString(encode.Guard(key).group(bodies, puts=puts)) == request


def test_a_key_of_foreign_bytes_survives() -> None:
    foreign = b"/registry/\xff\xfe"
    key = foreign.decode("utf-8", "surrogateescape")
    made = rpc_pb2.TxnRequest.FromString(encode.member(Write([Compare(key, 1)], deletes=[key]), []))
    assert made.compare[0].key == foreign
    assert made.success[0].request_delete_range.key == foreign
