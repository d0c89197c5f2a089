"""λO-FB's gradient step in PyTorch, as the peer of forward_backward.py: the same networks, loss, batches and optimiser.

It is written to be fast in plain PyTorch: B is evaluated once, on all states, and its rows are picked; everything stays
on the device; Adam is the fused one; TF32 is allowed, as JAX does by default. On a GPU, also captured as a CUDA graph.

    python torch_forward_backward.py {cpu|cuda} {eager|graph} STEPS     then "go" on stdin → seconds on stdout
"""

import copy
import math
import sys
import time

import torch
from torch import nn

STATES, ACTIONS, DIMENSION, WIDTH, BATCH, MEMORY = 68, 5, 100, 256, 128, 100_000
DISCOUNT, LAM, TEMPERATURE, POLYAK, CYCLE = 0.99, 0.5, 200.0, 0.95, 40


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    hidden = [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    more = [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), *hidden, *more, nn.Linear(WIDTH, outputs))


class Learner:
    def __init__(self, device: str):
        self.device = device
        self.online = nn.ModuleList([mlp(STATES + DIMENSION, ACTIONS * DIMENSION), mlp(STATES, DIMENSION)]).to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.adam = torch.optim.Adam(self.online.parameters(), 1e-3, fused=True)
        self.eye = torch.eye(STATES, device=device)
        self.each = torch.arange(BATCH, device=device)
        self.cell, self.next_cell = (self.integers(STATES, MEMORY) for _ in range(2))
        self.action = self.integers(ACTIONS, MEMORY)

    def integers(self, high: int, size: int) -> torch.Tensor:
        return torch.randint(high, (size,), device=self.device)

    def forward(self, nets: nn.ModuleList, cell: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        scaled = z / torch.sqrt(1 + z.square().mean(1, keepdim=True))
        return nets[0](torch.cat([self.eye[cell], scaled], 1)).view(BATCH, ACTIONS, DIMENSION)

    def sample_z(self) -> torch.Tensor:
        direction = nn.functional.normalize(torch.randn(BATCH, DIMENSION, device=self.device), dim=1)
        return math.sqrt(DIMENSION) * direction * torch.empty(BATCH, 1, device=self.device).cauchy_(0, 0.5)

    def step(self) -> None:
        index = self.integers(MEMORY, BATCH)
        cell, action, next_cell = self.cell[index], self.action[index], self.next_cell[index]
        other, column, z = self.cell[self.integers(MEMORY, BATCH)], self.integers(STATES, BATCH), self.sample_z()
        with torch.no_grad():
            features = self.forward(self.target, next_cell, z)
            chances = torch.softmax((features @ z[:, :, None]).squeeze(2) / TEMPERATURE, 1)
            ahead, table = (chances[:, None] @ features).squeeze(1), self.target[1](self.eye)
            ahead_columns, ahead_own = ahead @ table[column].T, (ahead * table[cell]).sum(1)
        f = self.forward(self.online, cell, z)[self.each, action]
        table = self.online[1](self.eye)
        b, b_other = table[cell], table[other].detach()
        own = (f * b).sum(1)
        loss = 0.5 * (f @ table[column].T - DISCOUNT * ahead_columns).square().mean() - own.mean()
        loss = loss + DISCOUNT * (1 - LAM) / STATES * (own * ahead_own).mean()
        moment = b_other.T @ b_other / BATCH
        loss = loss + ((b @ moment - b) * b.detach()).sum(1).mean()
        self.adam.zero_grad(set_to_none=False)
        loss.backward()
        self.adam.step()

    def update_target(self) -> None:
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), 1 - POLYAK)


def captured(learner: Learner):
    """Returns the step as a CUDA graph, after a few steps on a side stream, which PyTorch requires."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    learner.adam.param_groups[0]["capturable"] = True
    with torch.cuda.stream(stream):
        for _ in range(3):
            learner.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        learner.step()
    return graph.replay


def main(device: str, mode: str, steps: int) -> None:
    torch.set_float32_matmul_precision("high")
    learner = Learner(device)
    step = captured(learner) if mode == "graph" else learner.step

    def run(count: int) -> float:
        start = time.perf_counter()
        for i in range(count):
            step()
            if i % CYCLE == CYCLE - 1:
                learner.update_target()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    run(CYCLE)
    print("ready", flush=True)
    for _ in iter(input, "stop"):
        print(run(steps), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
