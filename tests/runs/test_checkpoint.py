"""A checkpoint comes back as it was, or is refused."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane.files import DamagedFile, fill_tree, load_arrays, name_leaves, save_arrays, write, write_json
from wane.lab.runs import CheckpointError
from wane.lab.runs.loop import Checkpoint, Progress


class Pair(NamedTuple):
    count: object
    flags: object


TREE = {
    "a": jnp.arange(6.0).reshape(2, 3),
    "b": Pair(np.int32(3), np.array([True, False])),
    "c": 2,
    "d": np.zeros((0, 3)),
}
OUTPUTS = {"x": np.arange(3.0), "y/z": np.arange(6).reshape(3, 2)}


def saved(folder, fingerprint="print") -> Checkpoint:
    checkpoint = Checkpoint(folder, "walk", fingerprint)
    checkpoint.save(Progress(3, TREE, OUTPUTS, 1.5))
    return checkpoint


def test_a_state_comes_back_as_it_was(tmp_path):
    progress = saved(tmp_path).load(TREE)
    assert (progress.done, progress.seconds) == (3, 1.5)
    assert jax.tree_util.tree_structure(progress.state) == jax.tree_util.tree_structure(TREE)
    for old, new in zip(*map(jax.tree_util.tree_leaves, (TREE, progress.state)), strict=True):
        assert isinstance(new, jax.Array) == isinstance(old, jax.Array)
        assert type(new) is type(old) or isinstance(old, jax.Array)
        assert np.asarray(new).dtype == np.asarray(old).dtype
        assert np.array_equal(new, old)
    assert progress.outputs.keys() == OUTPUTS.keys()
    assert all(np.array_equal(progress.outputs[name], array) for name, array in OUTPUTS.items())
    assert [path.name for path in tmp_path.iterdir()] == ["walk.safetensors"]


def test_types_may_change_after_the_first_chunk(tmp_path):
    """A loop may begin with NumPy's zeros and go on with what its jitted step returns."""
    checkpoint = Checkpoint(tmp_path, "walk", "print")
    assert checkpoint.load({"a": np.zeros(2)}) is None
    checkpoint.save(Progress(1, {"a": jnp.ones(2, jnp.float32)}, {}))
    state = checkpoint.load({"a": np.zeros(2)}).state
    assert isinstance(state["a"], jax.Array)
    assert state["a"].dtype == jnp.float32


@pytest.mark.parametrize("cut", [0, 5, 10, 200, -20])
def test_a_damaged_file_is_refused_with_the_cure(tmp_path, cut):
    checkpoint = saved(tmp_path)
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match=r"walk.safetensors is damaged.*without --resume"):
        checkpoint.load(TREE)


@pytest.mark.parametrize("place", [-1, -30, 60])
def test_a_flipped_bit_is_noticed(tmp_path, place):
    checkpoint = saved(tmp_path)
    content = bytearray(checkpoint.path.read_bytes())
    content[place] ^= 1
    checkpoint.path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged|other settings"):
        checkpoint.load(TREE)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    saved(tmp_path)
    with pytest.raises(CheckpointError, match="other settings or another version.*without --resume"):
        Checkpoint(tmp_path, "walk", "another").load(TREE)


def test_another_structure_is_refused(tmp_path):
    checkpoint = saved(tmp_path)
    with pytest.raises(CheckpointError, match="holds an unknown array 'b/count' of the state"):
        checkpoint.load({"a": TREE["a"], "c": 2, "d": TREE["d"]})
    with pytest.raises(CheckpointError, match="lacks array 'e' of the state"):
        checkpoint.load(TREE | {"e": 1.0})


def test_a_state_that_could_not_be_restored_is_refused_at_once(tmp_path):
    checkpoint = Checkpoint(tmp_path, "walk", "print")
    checkpoint.load({"a": 0.0})
    with pytest.raises(TypeError, match="leaf 'b' is not in both"):
        checkpoint.save(Progress(1, {"a": 0.0, "b": 0.0}, {}))


@pytest.mark.parametrize("state", [jax.random.key(0), {"name": object()}])
def test_a_state_holds_numbers_alone(tmp_path, state):
    with pytest.raises(TypeError, match="cannot be saved"):
        Checkpoint(tmp_path, "walk", "print").save(Progress(1, state, {}))


@pytest.mark.parametrize("name", ["../walk", "a/b", ".walk", ""])
def test_a_loops_name_is_a_files_name(tmp_path, name):
    with pytest.raises(ValueError, match="usable as the name of a file"):
        Checkpoint(tmp_path, name, "print")


def test_a_pickle_is_not_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.array([{"an": "object"}], dtype=object))
    (tmp_path / "a.npz").rename(tmp_path / "walk.safetensors")
    with pytest.raises(CheckpointError, match="damaged"):
        Checkpoint(tmp_path, "walk", "print").load(TREE)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a": TREE["a"]}, "holds an unknown array 'b/count'"),
        (TREE | {"a": TREE["a"].T}, r"'a' is float64\[2, 3\] where float64\[3, 2\] belongs"),
        (TREE | {"b": Pair(np.int64(3), TREE["b"].flags)}, "'b/count' is int32"),
    ],
)
def test_arrays_that_do_not_fit_a_tree_are_refused(tmp_path, like, message):
    arrays, about = load_arrays(save_arrays(tmp_path / "a", name_leaves(TREE), {"version": 1}))
    assert about == {"version": 1}
    assert np.array_equal(fill_tree(TREE, arrays, "a")["a"], TREE["a"])
    with pytest.raises(DamagedFile, match=message):
        fill_tree(like, arrays, "a")


def test_two_leaves_of_one_name_are_refused():
    with pytest.raises(TypeError, match="same name"):
        name_leaves({"a": {"b": 1.0}, "a/b": 2.0})


def test_a_failing_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})

    def fill(draft):
        draft.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write(path, fill)
    assert path.read_text() == '{\n  "a": 1\n}\n'
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "note",
    [
        *({"done": value} for value in (-1, 2, 4, 10**12, 10**400, 3.0, True, "3", None, [])),
        *({"seconds": value} for value in (-1, float("nan"), float("inf"), 10**400, "1", None)),
        *({"kinds": value} for value in ({}, [], 7, {"a": "jax"}, {"a": "number", "b/count": "jax"}, None)),
        {"kinds": {"a": "pickle", "b/count": "numpy", "b/flags": "numpy", "c": "number", "d": "numpy"}},
        {"kinds": {"a": "number", "b/count": "numpy", "b/flags": "numpy", "c": "number", "d": "numpy"}},
    ],
    ids=str,
)
def test_a_crafted_checkpoint_is_refused(tmp_path, note):
    """The checksum fits, but the note tells nonsense."""
    checkpoint = saved(tmp_path)
    arrays, about = load_arrays(checkpoint.path)
    save_arrays(checkpoint.path, arrays, about | note)
    with pytest.raises(CheckpointError, match=r"walk.safetensors .*without --resume"):
        checkpoint.load(TREE)


@pytest.mark.parametrize("names", [["x", "x/y"], ["x/y", "x"]])
def test_outputs_that_cannot_be_nested_are_refused(tmp_path, names):
    checkpoint = saved(tmp_path)
    arrays, about = load_arrays(checkpoint.path)
    odd = {f"outputs/{name}": np.zeros(3) for name in names}
    save_arrays(checkpoint.path, {name: array for name, array in arrays.items() if "outputs" not in name} | odd, about)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(TREE)


@pytest.mark.parametrize("place", ["folder", "link"])
def test_what_is_no_file_is_refused(tmp_path, place):
    checkpoint = Checkpoint(tmp_path, "walk", "print")
    checkpoint.path.mkdir() if place == "folder" else checkpoint.path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="walk.safetensors is (damaged|missing)"):
        checkpoint.load(TREE)
