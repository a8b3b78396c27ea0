"""``wharf exec``, ``attach``, ``cp`` and ``port-forward``, with an agent whose containers are this host."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import signal
import struct
import subprocess
import tarfile
import termios
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.integration.cli.conftest import Wharf
from tests.support.agent import FakeAgent
from tests.support.apiserver import Apiserver
from wharfinger.api.types import core


@pytest_asyncio.fixture
async def agent(cli_server: Apiserver, wharf: Wharf) -> AsyncIterator[FakeAgent]:
    """An agent; on its node the running pod ``web`` with the containers c and d."""
    agent = await FakeAgent.start(cli_server.folder, f"node-{wharf.namespace}")
    async with cli_server.client() as client:
        await client.resource(core.Node).create(agent.node())
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace, pod.spec.nodeName = "web", wharf.namespace, agent.name
        pod.metadata.labels["app"] = "web"
        pod.spec.containers.add(name="c", image="registry.example/c:1")
        pod.spec.containers.add(name="d", image="registry.example/d:1", stdin=True, tty=True)
        pod.spec.containers[0].ports.add(name="http", containerPort=8080)
        made = await client.resource(core.Pod).create(pod)
        made.status.phase = "Running"
        await client.resource(core.Pod).update_status(made)
    yield agent
    await agent.stop()


async def run(wharf: Wharf, *arguments: str, stdin: bytes = b"", code: int = 0) -> tuple[bytes, str]:
    """Run a command beside the agent's event loop; returns stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *wharf.command(*arguments), env=wharf.environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin), 60)
    assert process.returncode == code, (arguments, out, err)
    assert b"Traceback" not in err
    return out, err.decode()


async def test_exec(wharf: Wharf, agent: FakeAgent) -> None:
    out, err = await run(wharf, "exec", "web", "-c", "c", "--", "say", "out", "err")
    assert (out, err) == (b"out", "err")
    assert not agent.opened[-1].stdin
    data = os.urandom(300_000)
    assert (await run(wharf, "exec", "-i", "pod/web", "-c", "c", "--", "cat", stdin=data))[0] == data
    _, err = await run(wharf, "exec", "web", "--", "exit", "3", code=3)
    assert err == 'Defaulted container "c" out of: c, d\ncommand terminated with exit code 3\n'
    _, err = await run(wharf, "exec", "-q", "-it", "web", "--", "sh", "-c", "ls -d / -l; exit 7", code=7)
    assert agent.opened[-1].command == ["sh", "-c", "ls -d / -l; exit 7"]
    assert not agent.opened[-1].tty, "a terminal there needs one here"
    assert (await run(wharf, "exec", "web", code=1))[1].startswith("error: you must specify at least one command")
    assert "not valid for pod" in (await run(wharf, "exec", "web", "-c", "x", "--", "cat", code=1))[1]
    assert "NotFound" in (await run(wharf, "exec", "ghost", "--", "cat", code=1))[1]
    assert "container not found" in (await run(wharf, "exec", "web", "-c", "c", "--", "refuse", code=1))[1]
    assert "No such file" in (await run(wharf, "exec", "web", "-c", "c", "--", "no-such-program", code=1))[1]
    await agent.idle()


async def test_attach(wharf: Wharf, agent: FakeAgent) -> None:
    out, err = await run(wharf, "attach", "-i", "web", "-c", "c", stdin=b"hello")
    assert out == b"hello"
    assert "has no stdin" in err
    assert "try pressing enter" in err
    await run(wharf, "attach", "-q", "-i", "web", "-c", "d")
    assert agent.opened[-1].tty, "as the container has it"


def _terminal() -> tuple[int, int]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    return ours, theirs


async def _read_until(descriptor: int, text: bytes) -> bytes:
    found = b""
    async with asyncio.timeout(30):
        while text not in found:
            found += await asyncio.to_thread(os.read, descriptor, 4096)
    return found


async def test_terminals_are_raw_resized_and_restored(wharf: Wharf, agent: FakeAgent) -> None:
    ours, theirs = _terminal()
    before = termios.tcgetattr(theirs)
    process = await asyncio.create_subprocess_exec(
        *wharf.command("exec", "-it", "web", "-c", "c", "--", "sizes", "2"), env=wharf.environment(),
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    await _read_until(ours, b"80x24 ")
    assert not termios.tcgetattr(theirs)[3] & (termios.ECHO | termios.ICANON | termios.ISIG)
    assert (agent.opened[-1].tty, agent.opened[-1].stderr) == (True, False)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 43, 132, 0, 0))
    await _read_until(ours, b"132x43 ")
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert termios.tcgetattr(theirs) == before
    process = await asyncio.create_subprocess_exec(
        *wharf.command("exec", "-it", "web", "-c", "c", "--", "sizes", "9"), env=wharf.environment(),
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    await _read_until(ours, b"132x43 ")
    assert not termios.tcgetattr(theirs)[3] & termios.ECHO
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 20) == 143
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
    await agent.idle()


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_cp(wharf: Wharf, agent: FakeAgent, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "sub").mkdir(parents=True)
    there.mkdir()
    (here / "big").write_bytes(os.urandom(3 << 20))
    (here / "sub" / "-odd name").write_bytes(b"x")
    (here / "script").write_bytes(b"#!")
    (here / "script").chmod(0o755)
    await run(wharf, "cp", str(here / "big"), f"web:{there}/other", "-c", "c")
    assert _tree(there) == {"other": (here / "big").read_bytes()}
    await run(wharf, "cp", str(here), f"{wharf.namespace}/web:{there}", "-c", "c")
    assert _tree(there / "here") == _tree(here), "into a folder that is there"
    await run(wharf, "cp", str(here), f"web:{there}/new", "-c", "c", "--no-preserve")
    assert _tree(there / "new") == _tree(here), "under the name that is not there yet"
    back = tmp_path / "back"
    await run(wharf, "cp", f"web:{there}/here", str(back), "-c", "c")
    assert _tree(back) == _tree(here)
    assert (back / "script").stat().st_mode & 0o777 == 0o755
    await run(wharf, "cp", f"web:{there}/here/big", str(tmp_path / "one"), "-c", "c")
    assert (tmp_path / "one").read_bytes() == (here / "big").read_bytes()
    await run(wharf, "cp", f"web:{there}/here/sub/-odd name", str(back), "-c", "c")
    assert (back / "-odd name").read_bytes() == b"x", "into a folder that is there"


async def test_cp_fails_as_it_should(wharf: Wharf, agent: FakeAgent, tmp_path: Path) -> None:
    assert "doesn't exist" in (await run(wharf, "cp", "/nothing/here", "web:/tmp/x", code=1))[1]
    assert "No such file" in (await run(wharf, "cp", "web:/nothing/here", str(tmp_path / "x"), "-c", "c", code=2))[1]
    assert not (tmp_path / "x").exists()
    assert "must be a remote" in (await run(wharf, "cp", "/a", "/b", code=1))[1]
    assert "must be a local" in (await run(wharf, "cp", "web:/a", "web:/b", code=1))[1]
    (tmp_path / "f").write_text("x")
    _, err = await run(wharf, "cp", str(tmp_path / "f"), "web:/nothing/here/f", "-c", "c", code=2)
    assert "/nothing/here" in err


async def test_cp_writes_nothing_outside(wharf: Wharf, agent: FakeAgent, tmp_path: Path, monkeypatch: Any) -> None:
    """A container whose tar is an attacker's."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as packed:
        for name, kind, target in (
            ("d/good", tarfile.REGTYPE, ""),
            ("d/../../evil", tarfile.REGTYPE, ""),
            ("d/link", tarfile.SYMTYPE, str(tmp_path)),
            ("d/link/evil", tarfile.REGTYPE, ""),
            ("d/outside/evil", tarfile.REGTYPE, ""),
            ("d/hard", tarfile.LNKTYPE, "/etc/passwd"),
            ("d/pipe", tarfile.FIFOTYPE, ""),
            ("d/suid", tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode, member.size = kind, target, 0o4755, 0
            packed.addfile(member)
    (tmp_path / "evil.tar").write_bytes(archive.getvalue())
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tar").write_text(f"#!/bin/sh\ncat {tmp_path}/evil.tar\n")
    (tools / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    target, outside = tmp_path / "target", tmp_path / "elsewhere"
    target.mkdir()
    outside.mkdir()
    (target / "outside").symlink_to(outside)
    _, err = await run(wharf, "cp", "web:/d", str(target), "-c", "c")
    assert sorted(path.name for path in target.iterdir()) == ["good", "link", "outside", "suid"]
    assert (target / "link").is_dir()
    assert not (target / "link").is_symlink()
    assert list(outside.iterdir()) == []
    assert (target / "suid").stat().st_mode & 0o7777 == 0o755
    assert not (tmp_path / "evil").exists()
    for word in ("outside target destination", "symlink", "hard link", "behind a link", "device, pipe or socket"):
        assert word in err
    assert "corrupted" in (await run(wharf, "cp", "web:/other", str(tmp_path / "new"), "-c", "c", code=1))[1]


async def test_port_forward(wharf: Wharf, agent: FakeAgent) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"<" + await reader.read() + b">")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *wharf.command("port-forward", "web", f":{port}", ":1", "--address", "127.0.0.1"),
        env=wharf.environment() | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    local: list[int] = []
    for remote in (port, 1):
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().split()
        assert line[:2] + line[3:] == ["Forwarding", "from", "->", str(remote)]
        local.append(int(line[2].rpartition(":")[2]))
    for text in (b"one", b"two" * 100_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", local[0])
        writer.write(text)
        writer.write_eof()
        assert await reader.read() == b"<" + text + b">"
        writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", local[1])
    assert await reader.read() == b""
    writer.close()
    assert b"error forwarding port 1" in await asyncio.wait_for(process.stderr.readline(), 10)
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 20) == 130
    listening.close()


async def test_port_forward_refusals(wharf: Wharf, agent: FakeAgent) -> None:
    for arguments, text in (
        (("web",), "at least 1 PORT"),
        (("web", "a:b:80"), "invalid port format"),
        (("web", "8080:nothing"), "does not have a named port 'nothing'"),
        (("web", "80", "--address", "nonsense"), "not a valid IP"),
        (("ghost", "80"), "NotFound"),
    ):
        assert text in (await run(wharf, "port-forward", *arguments, code=1))[1]
