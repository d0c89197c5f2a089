"""The network of the λ-features from pixels in PyTorch, the peer of features.py: the same layers, loss and optimiser.

It is written to be fast in plain PyTorch: pictures stay on the device as bytes, Adam is the fused one, TF32 is allowed,
as in JAX by default, cuDNN looks for its fastest convolutions, and memory is laid out with channels last.

    python torch_features.py {cpu|cuda} eager STEPS     then "go" on stdin → seconds on stdout
"""

import sys
import time

import torch
from torch import nn

ACTIONS, FEATURES, BATCH, VIEWS, PICTURES, SIZE, FRAMES = 5, 50, 64, 5000, 226, 128, 7


def network() -> nn.Sequential:
    """Returns four convolutions, then three fully connected layers."""
    layers: list[nn.Module] = []
    inputs, side = FRAMES, SIZE
    for stride in (2, 2, 2, 1):
        layers += [nn.Conv2d(inputs, 32, 3, stride), nn.ReLU()]
        inputs, side = 32, (side - 3) // stride + 1
    flat = 32 * side * side
    dense = [nn.Linear(flat, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, ACTIONS * FEATURES)]
    return nn.Sequential(*layers, nn.Flatten(), nn.LayerNorm(flat), nn.Tanh(), *dense)


class Learner:
    """A network, its optimiser and random data."""

    def __init__(self, device: str):
        self.device = device
        self.network = network().to(device, memory_format=torch.channels_last)
        self.adam = torch.optim.Adam(self.network.parameters(), 3e-4, fused=True)
        self.pictures = torch.randint(256, (PICTURES, SIZE, SIZE), device=device, dtype=torch.uint8)
        self.stacks = torch.randint(PICTURES, (VIEWS, FRAMES), device=device)
        self.action = torch.randint(ACTIONS, (VIEWS,), device=device)
        self.target = torch.randn(VIEWS, FEATURES, device=device)
        self.each = torch.arange(BATCH, device=device)

    def step(self) -> None:
        """Takes one gradient step."""
        index = torch.randint(VIEWS, (BATCH,), device=self.device)
        views = self.pictures[self.stacks[index]].float().div_(255).contiguous(memory_format=torch.channels_last)
        table = self.network(views).view(BATCH, ACTIONS, FEATURES)
        error = self.target[index] - table[self.each, self.action[index]]
        loss = error.square().sum(1).mean() / 2
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()


def main(device: str, steps: int) -> None:
    """Waits for "go", trains, and prints how long it took."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    learner = Learner(device)

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            learner.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    run(3)
    print("ready", flush=True)
    for _ in iter(input, "stop"):
        print(run(steps), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[3]))
