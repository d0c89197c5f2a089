"""A loop that is cut short at any point ends where it would have ended."""

import contextlib
import gc
import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runs.sample import Kept
from wane.files import load_arrays
from wane.lab.contract import Loop
from wane.lab.runs import CheckpointError, SavingLoop, interrupts
from wane.lab.runs.loop import Checkpoint

CHUNKS = 6


@jax.jit
def walk(state, i):
    """A state of JAX's arrays, a step that depends on the chunk, and outputs of several shapes."""
    moves = jax.random.normal(jax.random.fold_in(jax.random.key(0), i), (3,))
    state = {"at": state["at"] + moves, "count": state["count"] + 1}
    return state, {"at": state["at"], "inner": {"highest": moves.max()}}


def start():
    return {"at": jnp.zeros(3), "count": jnp.zeros((), jnp.int32)}


def same(tree, other) -> bool:
    assert jax.tree_util.tree_structure(tree) == jax.tree_util.tree_structure(other)
    return all(map(np.array_equal, jax.tree_util.tree_leaves(tree), jax.tree_util.tree_leaves(other)))


class Cut(Exception):
    pass


def cut_at(chunk: int, error: type[BaseException] = Cut):
    def step(state, i):
        if i == chunk:
            raise error
        return walk(state, i)

    return step


@pytest.mark.parametrize("error", [Cut, KeyboardInterrupt])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_loop_that_was_cut_goes_on_where_it_was(tmp_path, chunk, error):
    expected = Loop()("walk", walk, start(), CHUNKS)
    seconds = 0 if error is Cut else 1e9  # only Ctrl-C gives time to save
    with pytest.raises(error):
        SavingLoop(tmp_path, "print", seconds=seconds)("walk", cut_at(chunk, error), start(), CHUNKS)
    ran = []

    def step(state, i):
        ran.append(i)
        return walk(state, i)

    found = SavingLoop(tmp_path, "print", seconds=0)("walk", step, start(), CHUNKS)
    assert ran == list(range(chunk, CHUNKS))
    assert same(found, expected)


def test_a_finished_loop_comes_back_as_it_ended(tmp_path):
    """The run may have been killed after the learning and before its table was written."""
    state, outputs = SavingLoop(tmp_path, "print")("walk", walk, start(), CHUNKS)
    again, kept = SavingLoop(tmp_path, "print")("walk", cut_at(CHUNKS), start(), CHUNKS)
    assert same((again, kept), (state, outputs))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(again))
    # As agents are evaluated: indexing an array with a traced number, and a scan with the state as its carry.
    values = jax.lax.scan(lambda state, i: (state, state["at"][i]), again, jnp.arange(3))[1]
    assert np.array_equal(values, state["at"])


def test_a_checkpoint_of_more_chunks_than_there_are_is_refused(tmp_path):
    SavingLoop(tmp_path, "print")("walk", walk, start(), CHUNKS)
    with pytest.raises(
        CheckpointError, match=f"says that {CHUNKS} of 2 chunks are done: run again without --resume to start over"
    ):
        SavingLoop(tmp_path, "print")("walk", walk, start(), 2)


def test_outputs_are_nested_dictionaries_with_and_without_saving(tmp_path):
    _, plain = Loop()("walk", walk, start(), CHUNKS)
    _, saved = SavingLoop(tmp_path, "print")("walk", walk, start(), CHUNKS)
    assert plain["at"].shape == (CHUNKS, 3)
    assert plain["inner"]["highest"].shape == (CHUNKS,)
    assert same(saved, plain)


@pytest.mark.parametrize("outputs", [None, {}, 1.0])
def test_a_step_may_yield_nothing_or_one_number(tmp_path, outputs):
    loops = Loop(), SavingLoop(tmp_path, "print", seconds=0), SavingLoop(tmp_path, "print")
    found = [loop("walk", lambda state, i: (state + 1, outputs), np.zeros(2), 3) for loop in loops]
    assert all(same(each, found[0]) for each in found)


def test_progress_is_true(tmp_path):
    told = []
    loop = SavingLoop(tmp_path, "print", report=lambda *words: told.append(words))
    loop("walk", lambda state, i: (state, state), np.zeros(1), 3, work=50, unit="episodes")
    assert told == [("walk", done, 150, "episodes") for done in (0, 50, 100, 150)]


def test_two_loops_of_one_name_are_refused(tmp_path):
    loop = SavingLoop(tmp_path, "print")
    loop("walk", walk, start(), 1)
    with pytest.raises(ValueError, match="two loops"):
        loop("walk", walk, start(), 1)


def test_a_checkpoint_of_another_fingerprint_is_refused(tmp_path):
    SavingLoop(tmp_path, "print")("walk", walk, start(), 1)
    with pytest.raises(CheckpointError, match="other settings"):
        SavingLoop(tmp_path, "another")("walk", walk, start(), 1)


def test_an_interrupted_save_loses_nothing_that_was_computed(tmp_path, monkeypatch):
    save, calls = Checkpoint.save, []

    def interrupted(self, progress):
        calls.append(progress)
        if len(calls) == 1:
            raise KeyboardInterrupt
        save(self, progress)

    monkeypatch.setattr(Checkpoint, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SavingLoop(tmp_path, "print", seconds=0)("walk", walk, start(), 3)
    assert Checkpoint(tmp_path, "walk", "print").load(start()).done == 1


class Host:
    """A simulator and a replay memory in NumPy, as no JAX program can trace them."""

    def __init__(self):
        self.random, self.position = np.random.default_rng(0), 0.0
        self.memory, self.filled = np.zeros((100, 2)), 0

    def get(self):
        """The generator's state as whole numbers: twice 128 bits in halves, and what it holds back of a draw."""
        outer = self.random.bit_generator.state
        inner = outer["state"]
        parts = [inner["state"] >> 64, inner["state"] % 2**64, inner["inc"] >> 64, inner["inc"] % 2**64]
        parts += [outer["has_uint32"], outer["uinteger"]]
        return {
            "random": np.array(parts, np.uint64),
            "position": np.array(self.position),
            "replay": {"memory": self.memory, "filled": np.array(self.filled)},
        }

    def set(self, tree):
        high, low, inc_high, inc_low, held, draw = map(int, tree["random"])
        state = {"state": (high << 64) + low, "inc": (inc_high << 64) + inc_low}
        state = {"state": state, "has_uint32": held, "uinteger": draw}
        self.random.bit_generator.state = self.random.bit_generator.state | state
        self.position = float(tree["position"])
        self.memory, self.filled = tree["replay"]["memory"].copy(), int(tree["replay"]["filled"])

    def chunk(self, weights: np.ndarray) -> np.ndarray:
        """Three steps of the simulator, each of which learns from a memory that is drawn at random."""
        for _ in range(3):
            moved = self.position + self.random.normal() + 0.1 * float(weights.sum())
            self.memory[self.filled % 100] = self.position, moved
            self.position, self.filled = moved, self.filled + 1
            weights = weights + 0.01 * self.memory[self.random.integers(min(self.filled, 100))]
        return weights


def train_on_host(loop: Loop, cut: int | None = None, ran: list[int] | None = None, act=None):
    """A loop that is driven by the host; it stops in the middle of a chunk if it is to be cut."""
    host = Host()

    def step(state, i):
        assert isinstance(i, int)  # never traced
        assert isinstance(state["weights"], np.ndarray)
        if ran is not None:
            ran.append(i)
        weights = host.chunk(state["weights"])
        if i == cut:
            (act or fail)()
        return {"weights": weights}, {"position": host.position}

    state, outputs = loop("host", step, {"weights": np.zeros(2)}, CHUNKS, host=host)
    return state, outputs, host.get()


def fail():
    raise Cut


@pytest.mark.parametrize("host_seconds", [0, 1e9])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_loop_on_the_host_goes_on_from_where_both_were_saved(tmp_path, chunk, host_seconds):
    expected = train_on_host(Loop())
    with pytest.raises(Cut):
        train_on_host(SavingLoop(tmp_path, "print", seconds=0, host_seconds=host_seconds), chunk)
    ran = []
    found = train_on_host(SavingLoop(tmp_path, "print", seconds=0, host_seconds=host_seconds), ran=ran)
    assert ran == list(range(chunk if host_seconds == 0 else 0, CHUNKS))
    assert same(found, expected)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [f"host.host-{CHUNKS}.safetensors", "host.safetensors"]
    assert same(train_on_host(SavingLoop(tmp_path, "print"), ran=(again := [])), expected)
    assert again == []


@pytest.mark.parametrize("chunk", [0, 3, CHUNKS - 1])
def test_ctrl_c_saves_the_host_after_the_chunk(tmp_path, chunk):
    """A chunk that is interrupted in the middle has changed the simulator, so it is computed to its end."""
    expected = train_on_host(Loop())
    earlier = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train_on_host(SavingLoop(tmp_path, "print"), chunk, act=interrupt)
    assert signal.getsignal(signal.SIGINT) is earlier
    ran = []
    assert same(train_on_host(SavingLoop(tmp_path, "print"), ran=ran), expected)
    assert ran == list(range(chunk + 1, CHUNKS))


def test_what_chunks_yield_can_be_read_while_the_host_is_not_saved(tmp_path):
    with pytest.raises(Cut):
        train_on_host(SavingLoop(tmp_path, "print", seconds=0, host_seconds=1e9), 4)
    expected = train_on_host(Loop())[1]
    np.testing.assert_array_equal(load_arrays(tmp_path / "host.outputs")[0]["position"], expected["position"][:4])
    assert not (tmp_path / "host.safetensors").exists()


@pytest.fixture(autouse=True)
def ctrl_c():
    """Ctrl-C interrupts, even where whoever started the tests ignores it, such as a script in the background."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, earlier) is signal.default_int_handler


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("where", ["garbage", "deletion", "nothing"])
def test_ctrl_c_is_not_lost_where_python_forgets_what_is_raised(tmp_path, where):
    """JAX calls a function of its own when Python collects garbage. What is forgotten elsewhere is noted at least."""

    class Deleted:
        def __del__(self):
            interrupt()

    def collect(*words):
        gc.callbacks.remove(collect)
        interrupt()

    @interrupts.collected()
    def run():
        if where == "garbage":
            gc.callbacks.append(collect)
            gc.collect()
            time.sleep(60)
        if where == "deletion":
            Deleted()
            time.sleep(60)
        with contextlib.suppress(KeyboardInterrupt):
            interrupt()
        SavingLoop(tmp_path, "print")("walk", cut_at(0), start(), CHUNKS)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert time.monotonic() - began < 50
    assert not interrupts.is_interrupted(), "an earlier Ctrl-C does not end what comes later"


def test_ctrl_c_is_held_back_until_the_chunk_is_saved(tmp_path):
    def step(state, i):
        ran.append(i)
        if i == 2:
            interrupt()
        return walk(state, i)

    ran = []
    with pytest.raises(KeyboardInterrupt):
        SavingLoop(tmp_path, "print", seconds=1e9)("walk", step, start(), CHUNKS)
    found = SavingLoop(tmp_path, "print")("walk", step, start(), CHUNKS)
    assert ran == list(range(CHUNKS))
    assert same(found, Loop()("walk", walk, start(), CHUNKS))


def test_ctrl_c_where_nothing_else_happens_interrupts_at_once():
    @interrupts.collected()
    def run():
        interrupt()
        raise AssertionError("Ctrl-C did not interrupt")

    with pytest.raises(KeyboardInterrupt):
        run()


def test_an_error_after_ctrl_c_is_its_effect(tmp_path):
    """Callbacks of JAX turn a KeyboardInterrupt into an error of JAX."""

    def step(state, i):
        interrupt()
        raise RuntimeError("the callback failed")

    with pytest.raises(KeyboardInterrupt):
        SavingLoop(tmp_path, "print")("walk", step, start(), CHUNKS)


def test_ctrl_c_stays_ignored_where_it_is(tmp_path):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        found = train_on_host(SavingLoop(tmp_path, "print"), 3, act=interrupt)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert same(found, train_on_host(Loop()))


def test_a_second_ctrl_c_interrupts_at_once(tmp_path):
    def twice():
        for _ in range(2):
            interrupt()
        raise AssertionError("the second Ctrl-C did not interrupt")

    with pytest.raises(KeyboardInterrupt):
        train_on_host(SavingLoop(tmp_path, "print", seconds=0, host_seconds=0), 3, act=twice)
    expected = train_on_host(Loop())
    assert same(train_on_host(SavingLoop(tmp_path, "print"), ran=(ran := [])), expected)
    assert ran == [3, 4, 5]


def test_a_kill_between_the_two_files_is_harmless(tmp_path, monkeypatch):
    """The host's file of chunk 3 is there, and the checkpoint is still that of chunk 2."""
    from wane.lab.runs import loop as module

    write = module.save_arrays

    def killed(path, *words):
        if path.name == "host.safetensors" and (tmp_path / "host.host-3.safetensors").exists():
            raise Cut
        return write(path, *words)

    monkeypatch.setattr(module, "save_arrays", killed)
    with pytest.raises(Cut):
        train_on_host(SavingLoop(tmp_path, "print", seconds=0, host_seconds=0))
    monkeypatch.setattr(module, "save_arrays", write)
    assert same(train_on_host(SavingLoop(tmp_path, "print"), ran=(ran := [])), train_on_host(Loop()))
    assert ran == [2, 3, 4, 5]


def test_a_missing_host_file_is_named(tmp_path):
    train_on_host(SavingLoop(tmp_path, "print"))
    (tmp_path / f"host.host-{CHUNKS}.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"host-6.safetensors is missing.*without --resume"):
        train_on_host(SavingLoop(tmp_path, "print"))


def test_two_agents_of_one_name_are_refused(tmp_path):
    loop, agent = SavingLoop(tmp_path, "print"), Kept({"a": 1.0})
    loop.keep("a", agent)
    with pytest.raises(ValueError, match="two agents"):
        loop.keep("a", agent)
