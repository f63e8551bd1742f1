"""Attacks on servers by clients that are admitted: strange statements, without end, half sent, cancelled, or never read."""

import base64
import hashlib
import hmac
import re
import socket
import struct
import threading
import time

from attacks.servers import ANSWER_S, HTTP2, KINDS, Server, problem_of

# Short ones: a query ends after QUERY_S, and more than CONNECTIONS are refused.
QUERY_S, CONNECTIONS = 2, 8
# Of a server with --memory 1G: that, and half as much for the program and its connections.
MEMORY, MAX_MB = "1G", 1536
# Most statements of one client, and seconds that an impatient one waits.
ACTS, CALM_S = 4, 1
ENDLESS = "SELECT count(*) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b WHERE a.value % 7 = b.value % 11"
STATEMENTS = [
    ENDLESS, "SELECT repeat('x', 1000000000)", "SELECT " + "(" * 100_000, "SELECT " + "1+" * 50_000 + "1", "SELECT 1;" * 5_000,
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT * FROM memory_access a, memory_access b, memory_access c ORDER BY 1", "SELECT '" + "x" * 5_000_000 + "'",
    "SELECT array_agg(a.value) FROM generate_series(1, 1000000) a, generate_series(1, 1000) b", "COPY launch TO 'x.csv'",
    "SET datafusion.runtime.memory_limit = '1T'", "VALUES " + ",".join(["(1)"] * 50_000), "SELECT '\x1b[2J\u202e'", "\0", "", ";",
    "EXPLAIN ANALYZE " + ENDLESS, "PREPARE p AS SELECT $1", "DECLARE c CURSOR FOR SELECT 1", "SELECT * FROM finding", "SELECT 1",
    "SELECT " + ",".join(f"{number} AS c{number}" for number in range(3_000)), "SELECT $1, $2", "SELECT * FROM pg_class, pg_attribute",
    "SELECT regexp_like(repeat('a', 100000), '(a*)*b')", "SELECT * FROM generate_series(1, 100) " + "CROSS JOIN generate_series(1, 100) " * 40,
]


class Postgres:
    """A client of PostgreSQL's protocol that has logged in (SCRAM-SHA-256)."""

    def __init__(self, server, secret):
        self.socket = server.connect()
        body = struct.pack(">i", 196608) + b"user\0stallmap\0database\0stallmap\0\0"
        self.socket.sendall(struct.pack(">i", len(body) + 4) + body)
        self.until(b"R")
        first = "n=,r=0123456789abcdef"
        self.send(b"p", b"SCRAM-SHA-256\0" + struct.pack(">i", len(first) + 3) + b"n,," + first.encode())
        challenge = self.until(b"R")[4:].decode()
        nonce, salt, rounds = (challenge.split(",")[place][2:] for place in range(3))
        last = f"c=biws,r={nonce}"
        salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), base64.b64decode(salt), int(rounds))
        key = hmac.digest(salted, b"Client Key", "sha256")
        signed = hmac.digest(hashlib.sha256(key).digest(), f"{first},{challenge},{last}".encode(), "sha256")
        proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signed))).decode()
        self.send(b"p", f"{last},p={proof}".encode())
        self.key = self.until(b"K")
        self.until(b"Z")

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack(">i", len(body) + 4) + body)

    def until(self, kind):
        """The content of the next message of a kind."""
        while True:
            found, size = struct.unpack(">ci", self.exactly(5))
            body = self.exactly(size - 4)
            if found == kind:
                return body
            if found == b"E" and kind in b"RK":
                raise OSError(body.decode(errors="replace"))

    def exactly(self, size):
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise OSError("closed")
            parts += part
        return bytes(parts)

    def act(self, server, sql, chance):
        sql = sql.encode(errors="replace")
        kind = chance.randrange(9)
        if kind == 0:  # a query that is cancelled from another connection
            self.send(b"Q", ENDLESS.encode() + b"\0")
            time.sleep(chance.random())
            with server.connect() as other:
                other.sendall(struct.pack(">ii", 16, 80877102) + self.key)
            self.until(b"Z")
        elif kind == 1:
            self.send(b"P", b"s\0" + sql + b"\0" + struct.pack(">h", chance.choice([0, 1, -1, 32767])))
            self.send(b"B", b"\0s\0" + struct.pack(">hh", 0, chance.choice([0, 1, 2, 32767])) + struct.pack(">i", chance.choice([-1, 1 << 30, 2])) + b"12")
            self.send(b"E", b"\0" + struct.pack(">i", chance.choice([0, 1, -1])))
            self.send(b"S", b"")
        elif kind == 2:
            self.socket.sendall(chance.choice([b"Q" + struct.pack(">i", 0x7FFFFFFF), b"Q" + struct.pack(">i", -5), b"\xff" * 9, b"Q"]))
        elif kind == 3:
            self.send(bytes([chance.randrange(256)]), chance.randbytes(chance.choice([0, 3, 4000])))
        else:
            self.send(b"Q", sql + b"\0")
            if kind > 6:
                self.until(b"Z")


class Browser:
    """A browser that opened the printed address."""

    def __init__(self, server, secret):
        self.server, self.name = server, server.words[1].split("=")[0]
        self.host = f"127.0.0.1:{server.port}"
        head = self.ask(f"GET /?token={secret} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()).decode(errors="replace")
        found = re.search(r"set-cookie: ([^;]+)", head, re.IGNORECASE)
        if not found:
            raise OSError(head)
        self.cookie = found.group(1)

    def ask(self, content):
        self.socket = self.server.connect()
        self.socket.sendall(content)
        return self.socket.recv(1 << 16)

    def act(self, server, sql, chance):
        body = sql.encode(errors="replace")
        length = chance.choice([len(body)] * 5 + [len(body) + 100, 0, 1 << 40])
        place = f"/capture/{self.name}/{chance.choice(['rows', 'rows', 'rows.csv', 'names', '../../x'])}"
        head = f"POST {place} HTTP/1.1\r\nHost: {self.host}\r\nCookie: {self.cookie}\r\nContent-Type: application/sql\r\nContent-Length: {length}\r\n\r\n"
        self.ask(head.encode() + body)


class Flight:
    """A client of Arrow Flight SQL. Its frames of HTTP/2 are made by hand."""

    METHODS = ["GetFlightInfo", "GetSchema", "DoGet", "DoPut", "DoAction", "Handshake", "ListFlights", "DoExchange", "Nothing"]

    def __init__(self, server, secret):
        self.socket = server.connect()
        self.login = b"Basic " + base64.b64encode(f"stallmap:{secret}".encode())
        self.socket.sendall(HTTP2 + b"\0\0\0\4\0\0\0\0\0")
        self.stream = 1

    def frame(self, kind, flags, body):
        self.socket.sendall(len(body).to_bytes(3, "big") + bytes([kind, flags]) + self.stream.to_bytes(4, "big") + body)

    def act(self, server, sql, chance):
        sql = sql[:10_000].encode(errors="replace")
        query = any_of("CommandStatementQuery", part(1, sql))
        ticket = part(1, any_of("TicketStatementQuery", part(1, part(1, sql))))
        method, body = chance.choice([("DoGet", ticket)] * 4 + [("GetFlightInfo", b"\x08\x02" + part(2, query))] * 2 + [(None, None)])
        method = f"/arrow.flight.protocol.FlightService/{method or chance.choice(self.METHODS)}"
        body = chance.randbytes(50) if body is None or not chance.randrange(6) else body
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode()), (b":authority", b"x"), (b"te", b"trailers"),
                  (b"content-type", b"application/grpc"), (b"authorization", self.login)]
        self.frame(1, 4, b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields))
        size = chance.choice([len(body)] * 5 + [0xFFFFFFFF, 1 << 24])
        whole = b"\0" + struct.pack(">I", size) + body
        for at in range(0, len(whole), 16_000):
            self.frame(0, 1 if at + 16_000 >= len(whole) and chance.randrange(5) else 0, whole[at : at + 16_000])
        self.stream += 2
        self.socket.recv(1 << 16)


def any_of(name, content):
    """A message with its type."""
    return part(1, b"type.googleapis.com/arrow.flight.protocol.sql." + name.encode()) + part(2, content)


def part(number, content):
    """A field of a protocol buffer."""
    size, digits = len(content), b""
    while size > 127:
        digits, size = digits + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + digits + bytes([size]) + content


CLIENTS = {"--http": Browser, "--postgres": Postgres, "--flight": Flight}


def secret_of(server):
    """The password that the server has printed."""
    for _ in range(20):
        found = re.search(r"(?:password: |^token: |token=)([0-9a-f]{16,})", server.text, re.MULTILINE)
        if found:
            return found.group(1)
        server.read()
    return ""


def visit(server, kind, secret, chance):
    """One admitted client: some statements, then it leaves in some way."""
    try:
        client = CLIENTS[kind](server, secret)
        client.socket.settimeout(chance.choice([CALM_S, QUERY_S * 2]))
        for _ in range(chance.randint(1, ACTS)):
            client.act(server, chance.choice(STATEMENTS), chance)
        if chance.randrange(2):
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.socket.close()
    except (OSError, struct.error, ValueError):
        pass  # the server may refuse, or be slower than the client waits


def guests(counts, capture, place, chance):
    """A server under admitted clients, more than it takes. Its memory is bounded, and it then answers another one."""
    kind = chance.choice(KINDS)
    limits = ["--timeout", str(QUERY_S), "--connections", str(CONNECTIONS), "--memory", MEMORY]
    server = Server(counts.options, f"guest={capture}", kind, limits)
    secret = secret_of(server) if server.port else ""
    problem = None if secret else "no port, or no password"
    # Each with chances of its own: threads would share them in any order.
    seeds = [chance.randrange(1 << 30) for _ in range(CONNECTIONS * 3 // 2 if secret else 0)]
    visitors = [threading.Thread(target=visit, args=(server, kind, secret, type(chance)(seed))) for seed in seeds]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    begin, is_admitted = time.monotonic(), False
    while secret and not is_admitted and time.monotonic() < begin + ANSWER_S:
        try:
            CLIENTS[kind](server, secret).socket.close()
            is_admitted = True
        except OSError as error:
            problem_then = str(error)
            time.sleep(0.2)
    if secret and not is_admitted:
        problem = f"no answer: {problem_then}"
    server.end()
    if server.mb > MAX_MB:
        problem = problem or f"{server.mb} MB with --memory {MEMORY}"
    counts.note(server, problem or problem_of(server, counts.options))


ATTACKS = {"guests of servers": guests}
