#!/usr/bin/env python3
"""Checks the hook of JAX on the CPU: python3 recorder/python/tests/jax_check.py, with a Python that has JAX.

The hook writes files and needs no library: a small program runs with it, and with a JAX whose compiler is another one.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HOOK = pathlib.Path(__file__).resolve().parent.parent / "hook"
PROGRAM = """
import jax, jax.numpy as jnp
def update(params, x):
    return {"sum": x.sum(), "new": {name: value + x.sum() for name, value in params.items()}}
print(float(jax.jit(update)({"a": jnp.ones(3), "b": jnp.ones(4)}, jnp.ones((2, 2)))["sum"]))
"""
# Versions that the hook does not know.
UNKNOWN = {
    "no function": """
import sys, types
sys.modules["jax._src.compiler"] = types.ModuleType("compiler")
from _stallmap_record import _jax
_jax.hook()
print("4.0")
""",
    "no modules": """
import jax._src.compiler as compiler
from _stallmap_record import _jax
compiler.compile_or_get_cached = lambda *arguments: 4
_jax.hook()
compiler.compile_or_get_cached(None, None)
print("4.0")
""",
}


def run(text, folder):
    """Runs a program with the hook. Returns its output."""
    script = pathlib.Path(folder) / "program.py"
    script.write_text(text)
    config = json.dumps({"directory": folder, "instrument": "accesses"})
    environment = os.environ | {"STALLMAP_CONFIG": config, "PYTHONPATH": str(HOOK), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def check_program():
    with tempfile.TemporaryDirectory() as folder:
        assert run(PROGRAM, folder) == "4.0"
        programs = [path.read_bytes() for path in pathlib.Path(folder).glob("hlo-*.program")]
        assert not list(pathlib.Path(folder).glob("hooks-*.json"))
    facts = {}
    for program in programs:
        line, content = program.split(b"\n", 1)
        fact = json.loads(line)
        facts[fact["name"]] = fact
        assert len(content) > 100 and fact["begin_ns"] < fact["end_ns"], fact
    fact = facts["jit_update"]
    assert fact["results"] == ["result['new']['a']", "result['new']['b']", "result['sum']"], fact
    ((normalized, named),) = fact["files"].values()
    assert normalized == "program.py" and named.endswith("program.py"), fact
    assert any(frame[0] == "program.py" and frame[4] == 5 for frame in fact["stack"]), fact


def check_unknown(name, text):
    with tempfile.TemporaryDirectory() as folder:
        assert run(text, folder) == "4.0", name
        failures = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("hooks-*.json")]
        assert any("HLO" in failure["reason"] for failure in failures), (name, failures)


check_program()
for name, text in UNKNOWN.items():
    check_unknown(name, text)
print("the hook of JAX is sound")
