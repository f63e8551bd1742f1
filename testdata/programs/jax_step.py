#!/usr/bin/env python3
"""A training step in JAX, and what else XLA runs: scanned layers, gradients, a loop, a sharded function.

Modules are named as flax names them, without flax. Prints facts about itself as JSON lines.
"""

import argparse
import json
import os
import sys
from functools import partial

if "--tune" not in sys.argv:
    # XLA tries each product in dozens of ways: most of a small program's launches.
    os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

WIDTH, HIDDEN, LAYERS, BATCH = 64, 128, 2, 32


def dense(name, params, x):
    with jax.named_scope(name):
        return x @ params["kernel"] + params["bias"]


def norm(params, x):
    with jax.named_scope("LayerNorm_0"):
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-6) * params["scale"]


def block(params, x):
    with jax.named_scope("Block_0"):
        hidden = jax.nn.gelu(dense("Dense_0", params["up"], norm(params["norm"], x)))
        return x + dense("Dense_1", params["down"], hidden)


def model(params, x):
    x, _ = lax.scan(lambda x, layer: (block(layer, x), None), x, params["layers"])
    return dense("Head", params["head"], x)


def loss_of(params, x, y):
    return jnp.square(model(params, x) - y).mean()


@partial(jax.jit, donate_argnums=0)
def train_step(params, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    params = jax.tree.map(lambda parameter, gradient: parameter - 0.1 * gradient, params, gradients)
    return params, loss


@jax.jit
def settle(params, x):
    def more(state):
        return state[1] < 3

    def turn(state):
        return jnp.tanh(model(params, state[0])), state[1] + 1

    return lax.while_loop(more, turn, (x, 0))[0]


def shifted(x):
    return lax.psum(jnp.cumsum(x, axis=0) * 2, "rows")


def parameters(random):
    def layer(*shape):
        kernel = random.standard_normal(shape).astype(np.float32) / np.sqrt(shape[-2])
        return {"kernel": kernel, "bias": np.zeros((*shape[:-2], shape[-1]), np.float32)}

    layers = {
        "norm": {"scale": np.ones((LAYERS, WIDTH), np.float32)},
        "up": layer(LAYERS, WIDTH, HIDDEN),
        "down": layer(LAYERS, HIDDEN, WIDTH),
    }
    return {"layers": layers, "head": layer(WIDTH, WIDTH)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--tune", action="store_true", help="let XLA choose kernels by trials")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    params = jax.device_put(parameters(random))
    x, y = jax.device_put(random.standard_normal((2, BATCH, WIDTH)).astype(np.float32))
    for step in range(options.steps):
        params, loss = train_step(params, x, y)
        print(json.dumps({"fact": "loss", "step": step, "loss": round(float(loss), 4)}), flush=True)
    print(json.dumps({"fact": "settled", "sum": round(float(np.asarray(settle(params, x)).sum()), 1)}), flush=True)
    mesh = Mesh(np.array(jax.devices()[:1]), ("rows",))
    rows = PartitionSpec("rows")
    shard = jax.jit(jax.shard_map(shifted, mesh=mesh, in_specs=rows, out_specs=PartitionSpec()))
    print(json.dumps({"fact": "sharded", "sum": round(float(np.asarray(shard(y)).sum()), 1)}), flush=True)


if __name__ == "__main__":
    main()
