"""Code that the program writes to a temporary file, whose name is another one in each run, and then runs."""

import importlib.util
import os
import tempfile

import torch


def run(text):
    with tempfile.NamedTemporaryFile("w", prefix="layer_", suffix=".py", delete=False) as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("layer", file.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.forward(torch.ones(4))
    os.remove(file.name)


CODE = "def forward(x):\n    return x.{}()\n"
for function in ("cosh", "sinh", "cosh"):
    run(CODE.format(function))
