#!/usr/bin/env python3
"""Runs a command beside a server of Amazon's DynamoDB Local, which ends with it.

    scripts/dynamodb-local.py COMMAND ...                  in memory, with a database for each access key
    scripts/dynamodb-local.py --keep FOLDER COMMAND ...    one database, in the folder

The command finds the server's URL in HONGBAO_TEST_DYNAMODB_URL, and in its arguments in place of {url}. scripts/install-tools.sh
dynamodb-local fetches the program.

The program can only listen on all interfaces. Where the system allows it, it runs in a network namespace of its own; the URL is
then that of a relay on the loopback interface. Elsewhere this script says so.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

VARIABLE = "HONGBAO_TEST_DYNAMODB_URL"
FOLDER = Path(__file__).resolve().parent.parent / ".tools" / "dynamodb-local"
READY_WITHIN_S = 60
ENDS_WITHIN_S = 10
WATCHED_EVERY_S = 0.5
# The first one is for everybody; some systems allow only the second one, and only to root.
NAMESPACES = [["unshare", "--map-root-user", "--net", "--"], ["unshare", "--net", "--"]]
# <linux/sockios.h> and <linux/if.h>
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
RELAYED_PORT = 8000


def fail(message: str) -> None:
    sys.exit(f"dynamodb-local: {message}")


def launch(port: int, keep: str | None) -> subprocess.Popen:
    """Starts the program, with the compiler that starts fastest: it runs for minutes. It leaves a file where it runs."""
    java = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.library.path={FOLDER / 'DynamoDBLocal_lib'}"]
    data = ["-inMemory"] if keep is None else ["-sharedDb", "-dbPath", keep]
    command = [*java, "-jar", "DynamoDBLocal.jar", "-disableTelemetry", "-port", str(port), *data]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=FOLDER, stdin=quiet, stdout=quiet, start_new_session=True)


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.settimeout(5)
            probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return probe.recv(5) == b"HTTP/"
    except OSError:
        return False


def end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Half(asyncio.Protocol):
    """One end of a relayed connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Half | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.other.transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.other and self.other.transport:
            self.other.transport.close()

    def pause_writing(self) -> None:
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.other.transport.resume_reading()


class Outer(Half):
    """The end on the loopback interface of everybody else."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        transport.pause_reading()
        asyncio.get_running_loop().create_task(self.connect())

    async def connect(self) -> None:
        inner = Half()
        inner.other = self
        try:
            await asyncio.get_running_loop().create_connection(lambda: inner, "127.0.0.1", RELAYED_PORT)
        except OSError:
            self.transport.close()
            return
        self.other = inner
        if self.transport.is_closing():
            inner.transport.close()
        else:
            self.transport.resume_reading()


class Lifeline(asyncio.Protocol):
    def __init__(self, ended: asyncio.Event) -> None:
        self.ended = ended

    def connection_lost(self, _: Exception | None) -> None:
        self.ended.set()


async def relay(listener: socket.socket) -> None:
    """Relays until the server ends, or standard input: this process never outlives the one that started it."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGCHLD, ended.set)
    await loop.connect_read_pipe(lambda: Lifeline(ended), sys.stdin)
    serving = await loop.create_server(Outer, sock=listener, backlog=1024)
    await ended.wait()
    serving.close()


def inside(listener: socket.socket, keep: str | None) -> None:
    """The server and the relay, in a namespace that has only a loopback interface. The listener is from outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:
        request = struct.pack("16sH14s", b"lo", IFF_UP, b"")
        fcntl.ioctl(loopback, SIOCSIFFLAGS, request)
    java = launch(RELAYED_PORT, keep)
    try:
        wait_until_ready(java, RELAYED_PORT)
        print("ready", flush=True)
        asyncio.run(relay(listener))
    finally:
        end(java)


def wait_until_ready(process: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not answers(port):
        if process.poll() is not None:
            fail(f"the server ended at its start ({process.returncode})")
        if time.monotonic() > deadline:
            end(process)
            fail(f"the server does not answer within {READY_WITHIN_S} s")
        time.sleep(0.05)


def namespace() -> list[str] | None:
    """The command that runs another one in a network namespace of its own, if the system allows it."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        return None
    works = (it for it in NAMESPACES if subprocess.run([*it, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0)
    return next(works, None)


def start(keep: str | None) -> tuple[subprocess.Popen, int]:
    """The server's process and its port on the loopback interface. A terminal's Ctrl-C is for the command, which needs the server
    until its end: hence a session of its own."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if apart := namespace():
        listener.set_inheritable(True)
        itself = [sys.executable, __file__, "--inside", str(listener.fileno()), *([] if keep is None else [keep])]
        process = subprocess.Popen(
            [*apart, *itself],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
            start_new_session=True,
        )
        if process.stdout.readline() != b"ready\n":
            process.wait()
            fail("there is no server")
        listener.close()
        return process, port
    listener.close()
    print("dynamodb-local: no network namespace here, so Amazon's program listens on all interfaces", file=sys.stderr)
    process = launch(port, keep)
    wait_until_ready(process, port)
    return process, port


def run(command: list[str], server: subprocess.Popen, port: int) -> int:
    url = f"http://127.0.0.1:{port}"
    try:
        child = subprocess.Popen([word.replace("{url}", url) for word in command], env={**os.environ, VARIABLE: url})
    except OSError as error:
        fail(str(error))
    # The command has received a terminal's Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while child.poll() is None:
        if server.poll() is not None:
            print("dynamodb-local: the server ended, and the command with it", file=sys.stderr)
            child.terminate()
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(WATCHED_EVERY_S)
    status = child.wait()
    return status if status >= 0 else 128 - status


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--inside"]:
        inside(socket.socket(fileno=int(arguments[1])), arguments[2] if len(arguments) > 2 else None)
        return
    keep = None
    if arguments[:1] == ["--keep"]:
        keep, arguments = os.path.abspath(arguments[1]), arguments[2:]
        Path(keep).mkdir(parents=True, exist_ok=True)
    if not arguments:
        sys.exit(__doc__)
    if not shutil.which("java") or not (FOLDER / "DynamoDBLocal.jar").is_file():
        fail("Java or Amazon's program is missing: run scripts/install-tools.sh dynamodb-local")
    process, port = start(keep)
    try:
        status = run(arguments, process, port)
    finally:
        if process.stdin:
            process.stdin.close()
            process.wait()
        else:
            end(process)
    sys.exit(status)


if __name__ == "__main__":
    main()
