"""How fast an agent serves files to 1, 16 and 200 readers, compared with nginx on the same files: `make bench-agent`.

Both serve by TLS with the same certificate, on loopback, to the same reader (``wrk``, one connection per reader, which
asks for the files in turn); the agent also asks who calls and whether they may (answers that its cache holds), and
looks up what it knows of each file. Each is measured ``--rounds`` times, in turn. Readers and servers share the
machine's cores, as they do where executors read from neighbours. Needs root, or nginx and wrk installed.

Writes build/bench/agent.json, a list of rows: ``readers, agent_mib_per_second, nginx_mib_per_second, ratio, file_mib``
and the servers' ``…_processor_seconds_per_gib``, which other programs on the machine disturb less; and
build/bench/agent_slow_clients.json, one row: ``readers, slow_clients, alone_mib_per_second, slowed_mib_per_second,
ratio``: what 16 readers read while 200 clients hang in the middle of headers, uploads and answers, over what they read
alone.
"""

import argparse
import contextlib
import json
import os
import re
import socket
import ssl
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.served_table import MIB, ServedTable, make_served_table, serving
from benchmarks.two_nodes import running
from colocation.model.file_transfer import content_digest
from colocation.model.names import AGENT_TLS_SERVER_NAME
from devcluster import packages
from tests.integration.control_plane import free_ports
from tests.unit.agent.harness import make_pki

OUTPUT = Path("build/bench/agent.json")
PROGRAMS = {"nginx": "nginx-light", "wrk": "wrk"}
READERS = (1, 16, 200)
SLOW_READERS, SLOW_CLIENTS = 16, 200
FILE_MIB, FILES = 1, 256
UNITS = {"KB": 1 / 1024, "MB": 1.0, "GB": 1024.0}
"""As wrk writes them (powers of two), in MiB."""

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
worker_processes auto;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/tls.crt;
        ssl_certificate_key {folder}/tls.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        location /v1/files/ {{ alias {root}/; }}
    }}
}}
"""

SCRIPT = """
local files = {{ {files} }}
local next_file = 0
function setup(thread) next_file = next_file + 1; thread:set("first", next_file) end
function init() next_file = first end
function request()
    next_file = next_file + 1
    return wrk.format("GET", files[next_file % #files + 1], {{ ["Authorization"] = "Bearer benchmark" }})
end
"""


@contextlib.contextmanager
def nginx(folder: Path, root: Path, port: int) -> Iterator[int]:
    """nginx, serving the data root under the agents' paths; its process id."""
    configuration = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    configuration.write_text(user + NGINX.format(folder=folder, port=port, root=root))
    with running(["nginx", "-c", str(configuration), "-p", str(folder)]) as process:
        yield process.pid


def processor_seconds(process_id: int) -> float:
    """Of a process and all that it has started and that runs still."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{process_id}/task").glob("*/children")
    return seconds + sum(processor_seconds(int(child)) for one in children for child in one.read_text().split())


def read_mib_per_second(port: int, script: Path, readers: int, seconds: float) -> float:
    """What the readers read together."""
    threads = min(readers, os.cpu_count() or 1)
    command = ["wrk", f"-t{threads}", f"-c{readers}", f"-d{seconds:.0f}s", "--timeout=60s", f"-s{script}",
               f"https://127.0.0.1:{port}"]  # fmt: skip
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in output:
        raise SystemExit(f"the server refused: {output}")
    found = re.search(r"Transfer/sec:\s+([0-9.]+)([KMG]B)", output)
    assert found, output
    return float(found[1]) * UNITS[found[2]]


def measure(table: ServedTable, folder: Path, readers: int, rounds: int, seconds: float) -> dict[str, object]:
    """One row: medians."""
    agent_port, _, nginx_port = free_ports(3)
    script = folder / "requests.lua"
    files = ", ".join(f'"/v1/files/{table.path}/{file.path}"' for file in table.files)
    script.write_text(SCRIPT.format(files=files))
    speeds: dict[int, list[float]] = {agent_port: [], nginx_port: []}
    costs: dict[int, list[float]] = {agent_port: [], nginx_port: []}
    with (
        serving(folder / "root", "node-1", "127.0.0.1", folder, port=agent_port) as agent_id,
        nginx(folder, folder / "root", nginx_port) as nginx_id,
    ):
        for _ in range(rounds):
            for port, process_id in ((agent_port, agent_id), (nginx_port, nginx_id)):
                before = processor_seconds(process_id)
                speed = read_mib_per_second(port, script, readers, seconds)
                speeds[port].append(speed)
                costs[port].append((processor_seconds(process_id) - before) / (speed * seconds / 1024))
    agent, peer = (statistics.median(speeds[port]) for port in (agent_port, nginx_port))
    return {
        "readers": readers,
        "agent_mib_per_second": round(agent, 1),
        "nginx_mib_per_second": round(peer, 1),
        "ratio": round(agent / peer, 2),
        "file_mib": table.files[0].bytes / MIB,
        "agent_processor_seconds_per_gib": round(statistics.median(costs[agent_port]), 2),
        "nginx_processor_seconds_per_gib": round(statistics.median(costs[nginx_port]), 2),
    }


@contextlib.contextmanager
def hanging(port: int, folder: Path, targets: list[str], count: int) -> Iterator[None]:
    """So many clients that begin something and go on with nothing: a third each sends headers, uploads, and reads."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    token = "Authorization: Bearer slow\r\n"
    digest = f"Content-Digest: {content_digest('0' * 64)}\r\n"
    begun = (
        f"GET {targets[0]} HTTP/1.1\r\nHost: agent\r\n",
        f"PUT {targets[0]} HTTP/1.1\r\nHost: agent\r\n{token}{digest}Content-Length: 9000\r\n\r\nx",
        f"GET {targets[0]} HTTP/1.1\r\nHost: agent\r\n{token}\r\n",
    )
    with contextlib.ExitStack() as stack:
        for number in range(count):
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.connect(("127.0.0.1", port))
            connection = stack.enter_context(context.wrap_socket(plain, server_hostname=AGENT_TLS_SERVER_NAME))
            connection.sendall(begun[number % len(begun)].encode())
        yield


def measure_with_slow_clients(table: ServedTable, folder: Path, rounds: int, seconds: float) -> dict[str, object]:
    """What readers read while slow clients hang: medians."""
    (port, _) = free_ports(2)
    targets = [f"/v1/files/{table.path}/{file.path}" for file in table.files]
    script = folder / "requests.lua"
    script.write_text(SCRIPT.format(files=", ".join(f'"{target}"' for target in targets)))
    alone, slowed = [], []
    with serving(folder / "root", "node-1", "127.0.0.1", folder, port=port):
        for _ in range(rounds):
            alone.append(read_mib_per_second(port, script, SLOW_READERS, seconds))
            with hanging(port, folder, targets, SLOW_CLIENTS):
                slowed.append(read_mib_per_second(port, script, SLOW_READERS, seconds))
    return {
        "readers": SLOW_READERS,
        "slow_clients": SLOW_CLIENTS,
        "alone_mib_per_second": round(statistics.median(alone), 1),
        "slowed_mib_per_second": round(statistics.median(slowed), 1),
        "ratio": round(statistics.median(slowed) / statistics.median(alone), 2),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", action="append", type=int, help="default: 1, 16 and 200")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    packages.ensure(PROGRAMS)
    rows = []
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="colocation-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        make_pki(folder)
        table = make_served_table(folder / "root", "orders", FILE_MIB * MIB, FILES, buckets=4)
        for readers in given.readers or READERS:
            rows.append(measure(table, folder, readers, given.rounds, given.seconds))
            print(json.dumps(rows[-1]), flush=True)
            given.output.write_text(json.dumps(rows, indent=2) + "\n")
        slowed = measure_with_slow_clients(table, folder, given.rounds, given.seconds)
        print(json.dumps(slowed))
        given.output.with_name("agent_slow_clients.json").write_text(json.dumps(slowed, indent=2) + "\n")


if __name__ == "__main__":
    main()
