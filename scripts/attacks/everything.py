"""Attacks on every command: each runs on each hostile capture, each view is read, each request of each server is sent."""

import functools
import http.client
import json
import shutil
import struct
import subprocess
import time

from attacks.base import ROOT, Ran
from attacks.files import damaged_file, damaged_part, other_container
from attacks.rows import REFUSED, changed_rows
from attacks.servers import Server

PAGES = [["report", "IN", "--html", "OUT.html"], ["report", "IN", "--html", "OUT.html", "--baseline", "IN"],
         ["source", "IN", "--html", "OUT.html"], ["diff", "IN", "IN", "--html", "OUT.html"],
         ["forest", "IN", "--svg", "OUT.svg"], ["forest", "IN", "--dot", "OUT.dot"]]
LISTS = [[*words, *form] for words in
         [["IN"], ["why", "IN"], ["report", "IN", "--all"], ["tree", "IN"], ["forest", "IN"], ["source", "IN", "--all"],
          *(["top", what, "IN"] for what in ("tensors", "ops", "lines", "kernels", "findings"))]
         for form in ([], ["--json"], ["--wide"], ["--sql"])]
FORMS = [["IN", "-v"], ["top", "tensors", "IN", "--ablated"], ["report", "IN", "--format", "markdown"], ["forest", "IN", "--each"],
         ["tree", "IN", "--bottom-up"], ["tree", "IN", "--flat"], ["tree", "IN", "--diff", "IN"], ["tree", "IN", "-m", "time,memory"],
         ["tree", "IN", "--by", "python,user,forward,module,phase,step,op,kernel"], ["report", "IN", "--kernel", "a"],
         ["tree", "IN", "--op", "a"], ["top", "kernels", "IN", "--cost-from", "replays"],
         *(["diff", "IN", "IN", "--format", form] for form in ("text", "json", "markdown", "github", "sarif"))]
FILES = [["check", "IN"], ["id", "IN"], ["info", "IN"], ["info", "IN", "--tables"], ["info", "IN", "--views"], ["info", "IN", "finding"],
         ["prepare", "IN"], ["open", "IN"], ["unpack", "IN", "OUT"], ["pack", "IN", "OUT.stallmap"], ["pack", "IN", "OUT.stallmap", "--launches", "0-9"],
         ["pack", "IN", "OUT.stallmap", "--only", "pc_sample"], ["redact", "IN", "OUT.stallmap"], ["redact", "IN", "OUT.stallmap", "--coarsen"],
         ["redact", "IN", "OUT.stallmap", "--also", "symbols,names,files,times"],
         *(["pack", "IN", "OUT.stallmap", "--without", kind] for kind in ("accesses", "bundles", "samples", "counters", "code", "parameters"))]
EXPORTS = ["perfetto", "kineto", "speedscope", "pprof", "firefox", "hatchet", "memory-snapshot", "operator-profiler", "sarif"]
OTHERS = [*(["export", form, "IN", "-o", "OUT"] for form in EXPORTS), ["export", "parquet", "IN", "OUT"], ["export", "tenprof", "IN", "OUT"],
          ["export", "folded", "IN"]]
# Statements of one process. A row of text shows whether names in it are harmless.
STATEMENTS, ROWS = 25, 20
TOOLS = [("captures", {}), ("findings", {}), ("why", {"number": 1}), ("source", {}), ("diff", {"base": "damaged"}), ("schema", {}),
         ("schema", {"name": "finding"}), ("sql", {"sql": "SELECT * FROM launch_measure"})]
# Commands on a capture that cannot be opened.
FEW = 12


@functools.cache
def relations(stallmap):
    """The views and tables that the program knows."""
    known = [stallmap, "sql", ROOT / "testdata/known_truth.stallmap", "--json", "-c", "SHOW TABLES"]
    rows = json.loads(subprocess.run(known, check=True, capture_output=True).stdout)
    return sorted(row["table_name"] for row in rows if row["table_schema"] == "capture")


def as_it_is(capture, *_):
    return capture


MAKERS = [as_it_is, damaged_file, damaged_part, damaged_part, other_container, changed_rows, changed_rows, changed_rows]


def every_command(counts, capture, place, chance):
    """All commands on one hostile capture, in any order. What `check` accepts, every command survives."""
    # A capture outside testdata may be hostile as it is.
    file = chance.choice(MAKERS if ROOT / "testdata" in capture.parents else [as_it_is, changed_rows])(capture, place, chance)
    if file is None:
        return
    checked = Ran(counts.options, ["check", file])
    counts.note(checked, checked.problem(counts.options, {0, 1, 3}), [file])
    commands = [functools.partial(command, words) for words in [*LISTS, *FORMS, *PAGES, *FILES, *OTHERS]]
    names = relations(counts.options.stallmap)
    commands += [functools.partial(statements, chance.sample(names, ROWS)), agent, browser]
    commands += [functools.partial(requests, names[at : at + STATEMENTS]) for at in range(0, len(names), STATEMENTS)]
    chance.shuffle(commands)
    for run in commands[:FEW] if checked.code in REFUSED else commands:
        if time.monotonic() > counts.end:
            break
        run(counts, file, place, checked.code == 0)
        for new in place.glob("out*"):
            shutil.rmtree(new) if new.is_dir() else new.unlink()


def judge(counts, ran, file, is_accepted, codes=None):
    problem = ran.problem(counts.options, *([codes] if codes else []))
    if not problem and is_accepted and ran.code in REFUSED:
        problem = f"`check` accepts it, and the exit code is {ran.code}"
    counts.note(ran, problem, [file])


def command(words, counts, file, place, is_accepted):
    words = [str(file) if word == "IN" else word.replace("OUT", str(place / "out")) for word in words]
    # `open` leaves its page in the folder for temporary files, and finds no browser.
    places = {"STALLMAP_CACHE": str(place / "out of cache"), "TMPDIR": str(place), "PATH": str(place)}
    judge(counts, Ran(counts.options, words, **places), file, is_accepted)


def statements(names, counts, file, place, is_accepted):
    """Rows as text."""
    for name in names:
        judge(counts, Ran(counts.options, ["sql", file, "-c", f'SELECT * FROM "{name}" LIMIT 50']), file, is_accepted)


def requests(names, counts, file, place, is_accepted):
    """All rows of views and tables, and their number, from the server of the Python package."""
    asked = [{"sql": f'SELECT {what} FROM "{name}"'} for name in names for what in ("*", "count(*)")]
    asked += [{"section": "tensors"}, {"diff": []}]
    texts = [json.dumps(request).encode() for request in asked]
    given = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    ran = Ran(counts.options, ["serve", "--stdio", file], given=given, is_text=False)
    problem, replies = ran.problem(counts.options), 0
    content, at = ran.content, 0
    while at + 5 <= len(content):
        kind, size = content[at : at + 1], struct.unpack("<I", content[at + 1 : at + 5])[0]
        body, at = content[at + 5 : at + 5 + size], at + 5 + size
        if kind == b"E" and is_accepted and not problem:
            failure = json.loads(body)
            if failure.get("code") in REFUSED:
                failed = asked[min(replies - 1, len(asked) - 1)]
                problem = f"`check` accepts it, and `serve --stdio` answers {failed} with exit code {failure['code']}: {failure['error']}"
        replies += kind in b"HDE"
    counts.note(ran, problem, [file])


def agent(counts, file, place, is_accepted):
    """Every tool of the agents' server."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    asked = [("initialize", hello), ("tools/list", {}), *(("tools/call", {"name": name, "arguments": of}) for name, of in TOOLS)]
    lines = [{"jsonrpc": "2.0", "id": number, "method": name, "params": of} for number, (name, of) in enumerate(asked)]
    given = "".join(json.dumps(line) + "\n" for line in lines).encode()
    ran = Ran(counts.options, ["mcp", f"damaged={file}"], given=given)
    problem = ran.problem(counts.options)
    replies = ran.text.count('"jsonrpc"')
    if not problem and is_accepted and replies != len(lines):
        problem = f"{replies} of {len(lines)} replies"
    counts.note(ran, problem, [file])


def browser(counts, file, place, is_accepted):
    """Every page of the web server."""
    server = Server(counts.options, f"damaged={file}", "--http")
    problem = None if server.port or not is_accepted else "no port"
    asked = [("GET", "/", None), ("GET", "/capture/damaged", None), ("GET", "/capture/damaged/names", None),
             ("GET", "/capture/damaged/rows.csv?sql=SELECT+*+FROM+finding", None), ("POST", "/capture/damaged/rows", "SELECT * FROM launch")]
    for method, path, body in asked if server.port else []:
        try:
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=counts.options.most_seconds)
            client.request(method, path, body, {"Content-Type": "application/sql"} if body else {})
            status = client.getresponse().status
            if status >= 500 and is_accepted:
                problem = problem or f"status {status} of {path}"
        except (OSError, http.client.HTTPException) as error:
            problem = problem or f"{error} of {path}"
    server.end()
    if server.is_hanging or "panicked" in server.text:
        problem = "a panic" if "panicked" in server.text else "does not end"
    counts.note(server, problem, [file])


ATTACKS = {"every command": every_command}
