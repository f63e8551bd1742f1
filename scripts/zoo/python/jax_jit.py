"""Products and a loop under jax.jit. The numbers are small integers, which makes sums exact."""

import jax
import jax.numpy as jnp
import numpy

SIDE = 2048


@jax.jit
def product(left, right):
    return jnp.matmul(left, right, precision="highest")


@jax.jit
def loop(values):
    return jax.lax.fori_loop(0, 10, lambda _, carried: jnp.remainder(carried * 3 + 1, 17), values)


def main():
    numbers = jnp.arange(SIDE * SIDE, dtype=jnp.float32).reshape(SIDE, SIDE)
    left, right = jnp.remainder(numbers, 5), jnp.remainder(numbers, 3)
    for call in range(3):
        result = numpy.asarray(product(left + call, right), dtype=numpy.float64)
        print(f"product {call}: sum {result.sum():.0f}, corner {result[-1, -1]:.0f}")
    print(f"loop: sum {numpy.asarray(loop(right), dtype=numpy.float64).sum():.0f}")


if __name__ == "__main__":
    main()
