"""How fast the network of the λ-features from pixels learns, compared with the same network in PyTorch.

The measure is training images per second at the paper's size: stacks of seven pictures of 128 × 128 bytes, four
convolutions with 32 filters, batches of 64, Adam. On a GPU, nine networks that see the same batches are also trained as
one program; PyTorch would train them one after the other. All pictures lie on the device as bytes on both sides.

    python -m benchmarks.features
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import optax

from benchmarks import QUICK
from benchmarks.beside import Peer, compare, compare_with_peer, report
from wane.agents import lambda_features
from wane.agents.common.views import Stacks
from wane.agents.lambda_features.networks import gradient_step, make_network
from wane.worlds import make

SCRIPT, BATCH, VIEWS, PICTURES = "torch_features.py", 64, 5000, 226


class Ours:
    """One or more networks that see the same batches, for `steps` gradient steps at a time."""

    def __init__(self, networks: int, steps: int):
        config, world, keys = lambda_features.Config(), make("four-rooms"), jax.random.split(jax.random.key(0), 5)
        size, frames = config.base.vision.shape(world)[0], config.base.vision.frames
        pictures = jax.random.randint(keys[0], (PICTURES, size, size), 0, 256).astype(jnp.uint8)
        views = Stacks(pictures, jax.random.randint(keys[1], (VIEWS, frames), 0, PICTURES))
        chosen = jax.random.randint(keys[2], (steps, BATCH), 0, VIEWS)
        action = jax.random.randint(keys[3], (VIEWS,), 0, world.n_actions)
        target = jax.random.normal(keys[4], (VIEWS, config.base.features))
        self.images = networks * steps * BATCH

        def train(network: Any, views: Stacks) -> Any:
            def step(now: Any, index: Any) -> Any:
                batch = lambda_features.Examples(views[index], action[index], target[index], jnp.ones(BATCH))
                project = jnp.eye(config.base.features)
                network, adam, loss = gradient_step(*now, batch, project, config.learning_rate, world.n_actions)
                return (network, adam), loss

            return jax.lax.scan(step, (network, optax.adam(config.learning_rate).init(network)), chosen)[1]

        begin = [make_network(key, world, config) for key in jax.random.split(keys[0], networks)]
        stacked = jax.tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *begin)
        self.program = jax.jit(train if networks == 1 else jax.vmap(train, (0, None)))
        self.arguments = begin[0] if networks == 1 else stacked, views
        self.rate()

    def rate(self) -> float:
        """Returns images per second."""
        start = time.perf_counter()
        jax.block_until_ready(self.program(*self.arguments))
        return self.images / (time.perf_counter() - start)


def on_cpu() -> list[dict[str, Any]]:
    """Compares one network with one of PyTorch."""
    steps = 1 if QUICK else 5
    return compare_with_peer(
        "training images/s, one network",
        "PyTorch",
        lambda: Ours(1, steps),
        lambda: Peer("torch", SCRIPT, "cpu", "eager", steps=steps, work=BATCH),
        5,
        None,
    )


def on_gpu() -> list[dict[str, Any]]:
    """Compares one network, and nine networks, with one of PyTorch."""
    what = "training images/s, one network", "training images/s, nine networks as one program"
    return [
        compare(what[0], "PyTorch", Ours(1, 500), torch_on_gpu(), 3, 4.0),
        compare(what[1], "PyTorch, one network at a time", Ours(9, 200), torch_on_gpu(), 3, None),
    ]


def torch_on_gpu() -> Peer:
    """Starts PyTorch on the GPU, with 500 steps at a time."""
    return Peer("torch", SCRIPT, "cuda", "eager", steps=500, work=BATCH)


if __name__ == "__main__":
    report("features", "torch", lambda kind: on_cpu() if kind == "cpu" else on_gpu())
