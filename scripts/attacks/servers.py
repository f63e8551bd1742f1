"""Attacks on servers, through the loopback: lying, slow, greedy and sudden clients. Also on the agents' server."""

import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time

from attacks.base import STEERS, Ran

KINDS = ("--http", "--postgres", "--flight")
# Bytes that a client may begin with.
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BEGINNINGS = {
    "--http": [b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST /sql HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
               b"POST /sql HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\nSELECT", b"GET /" + b"../" * 4000 + b" HTTP/1.1\r\n\r\n",
               b"POST /sql HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000],
    "--postgres": [struct.pack(">ii", 8, 80877103), struct.pack(">ii", 8, 80877102), struct.pack(">ii", 0x7FFFFFFF, 196608),
                   struct.pack(">ii", -1, 196608), struct.pack(">ii", 40, 196608) + b"user\0stallmap\0database\0x\0" + b"\0" * 8,
                   b"Q" + struct.pack(">i", 0x7FFFFFFF), b"p" + struct.pack(">i", 3)],
    "--flight": [HTTP2, HTTP2 + b"\0\0\0\4\0\0\0\0\0", HTTP2 + b"\xff\xff\xff\0\0\0\0\0\1", HTTP2 + (b"\0\0\0\4\0\0\0\0\0" * 5000)],
}
CLIENTS, CALM_S = 24, 0.2
START_S, ANSWER_S, END_S = 60, 20, 20


class Server:
    """A server of one capture that listens on the loopback."""

    def __init__(self, options, capture, kind, more=()):
        self.begin = time.monotonic()
        environment = {**os.environ, "STALLMAP_CACHE": "off", "RUST_BACKTRACE": "0"}
        command = [options.stallmap, "serve", str(capture), kind, "127.0.0.1:0", *more]
        self.words = command[1:]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        self.text = ""
        self.port = self.find_port()
        self.mb, self.code, self.is_hanging = 0, None, False

    def find_port(self):
        while time.monotonic() < self.begin + START_S:
            self.read()
            found = re.search(r"127\.0\.0\.1:(\d+)", self.text)
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                return None
        return None

    def read(self):
        """Takes what it has printed."""
        if select.select([self.process.stdout], [], [], 0.1)[0]:
            self.text += os.read(self.process.stdout.fileno(), 1 << 16).decode(errors="replace")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)

    def answers(self, kind):
        """True if it still answers a client that does nothing wrong."""
        hello = {"--http": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "--flight": HTTP2 + b"\0\0\0\4\0\0\0\0\0"}
        try:
            with self.connect() as client:
                client.sendall(hello.get(kind, struct.pack(">ii", 8, 80877103)))
                return bool(client.recv(64))
        except OSError:
            return False

    def end(self):
        """Interrupts it."""
        try:
            peak = re.search(r"VmHWM:\s+(\d+) kB", open(f"/proc/{self.process.pid}/status").read())
            self.mb = int(peak.group(1)) // 1024 if peak else 0
        except OSError:
            pass
        self.process.send_signal(signal.SIGINT)
        try:
            rest, _ = self.process.communicate(timeout=END_S)
            self.text += rest.decode(errors="replace")
        except subprocess.TimeoutExpired:
            self.is_hanging = True
            self.process.kill()
            self.process.communicate()
        self.code, self.seconds = self.process.returncode, time.monotonic() - self.begin


def lying_clients(counts, capture, place, chance):
    """A server under clients that break every rule. It still answers, in bounded memory, and ends when asked."""
    kind = chance.choice(KINDS)
    server = Server(counts.options, capture, kind)
    problem = None if server.port else "no port"
    clients = []
    for _ in range(CLIENTS if server.port else 0):
        try:
            client = server.connect()
            clients.append(client)
            client.settimeout(CALM_S)
            client.sendall(chance.choice(BEGINNINGS[kind]) if chance.randrange(3) else b"")
            client.sendall(chance.randbytes(chance.choice([0, 1, 100, 1 << 16])))
            how = chance.randrange(4)
            if how == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                client.close()
            elif how == 1:
                client.shutdown(socket.SHUT_WR)
            elif how == 2:
                client.recv(1 << 16)
        except OSError:
            continue  # the server may refuse
    if server.port and not server.answers(kind):
        # Those that say nothing may hold every place until their time is over.
        for client in clients:
            client.close()
        problem = None if server.answers(kind) else "no answer"
    for client in clients:
        client.close()
    server.end()
    counts.note(server, problem or problem_of(server, counts.options))


def problem_of(server, options):
    if server.is_hanging:
        return f"it does not end within {END_S} s"
    if server.mb > options.most_mb:
        return f"{server.mb} MB"
    if "panicked" in server.text or server.code not in (0, 130, -signal.SIGINT):
        return f"a panic, or exit code {server.code}"
    found = STEERS.search(server.text)
    return f"the character {found.group()!r}" if found else None


def lying_agents(counts, capture, place, chance):
    """Lines that are no request, deep, long, or with arguments of other types. Each line is answered or ends the server."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "query", "arguments": {"sql": "SELECT 1"}}}
    odd = ["[" * 100_000, '{"a":' * 50_000, "\x1b[2J\u202e", "9" * 5000, "null", "[]", '{"jsonrpc":"2.0","id":{},"method":[]}', "\0"]
    lines = []
    for _ in range(chance.randint(1, 12)):
        arguments = chance.choice([{}, {"sql": chance.choice(["x" * 1_000_000, "SELECT repeat('x', 1000000000)", None, ["a"], "COPY op TO 'x.csv'"])}, 7])
        line = json.dumps({**call, "params": {"name": chance.choice(["query", "nothing", 3]), "arguments": arguments}})
        lines.append(chance.choice([*odd, line, line, line[: chance.randrange(len(line))]]))
    ran = Ran(counts.options, ["mcp", capture], given="\n".join(lines).encode(errors="replace") + b"\n")
    problem = ran.problem(counts.options)
    left = [file.name for file in place.iterdir()]
    counts.note(ran, problem or (f"left {left}" if left else None))


ATTACKS = {"clients of servers": lying_clients, "agents": lying_agents}
