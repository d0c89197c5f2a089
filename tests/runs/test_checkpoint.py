import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane.files import write
from wane.runs import checkpoint
from wane.runs.checkpoint import CheckpointError

TREE = {"a": jnp.arange(6.0).reshape(2, 3), "b": (np.int32(3), np.array([True, False]))}


def same(tree, other) -> bool:
    pairs = zip(jax.tree_util.tree_leaves(tree), jax.tree_util.tree_leaves(other), strict=True)
    return all(np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in pairs)


def test_a_tree_comes_back_as_it_was(tmp_path):
    path = checkpoint.save(tmp_path / "c.npz", TREE, {"done": 3})
    leaves, mark = checkpoint.load(path)
    assert mark == {"done": 3}
    assert same(checkpoint.fit(path, leaves, TREE), TREE)
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]


@pytest.mark.parametrize("cut", [0, 10, 200, -20])
def test_a_damaged_file_is_refused_with_the_cure(tmp_path, cut):
    path = checkpoint.save(tmp_path / "c.npz", TREE, {})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match="damaged.*without --resume"):
        checkpoint.load(path)


def test_a_flipped_bit_is_noticed(tmp_path):
    path = checkpoint.save(tmp_path / "c.npz", {"a": np.zeros(1000)}, {})
    content = bytearray(path.read_bytes())
    content[4000] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(path)


def test_a_pickle_is_not_loaded(tmp_path):
    path = tmp_path / "c.npz"
    with open(path, "wb") as file:
        np.savez(file, mark=np.array("{}"), leaf0=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(CheckpointError, match="allow_pickle"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("like", "says"),
    [
        ({"a": TREE["a"]}, "holds 3 arrays where 1 belong"),
        ({"a": TREE["a"].T, "b": TREE["b"]}, r"array 0 is float64\(2, 3\), not float64\(3, 2\)"),
        ({"a": TREE["a"], "b": (np.int64(3), TREE["b"][1])}, "array 1 is int32"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, like, says):
    path = checkpoint.save(tmp_path / "c.npz", TREE, {})
    with pytest.raises(CheckpointError, match=says):
        checkpoint.fit(path, checkpoint.load(path)[0], like)


@pytest.mark.parametrize("state", [jax.random.key(0), {"name": object()}])
def test_a_state_holds_numbers_alone(tmp_path, state):
    with pytest.raises(TypeError, match="a state holds"):
        checkpoint.save(tmp_path / "c.npz", state, {})


def test_a_failing_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.json"
    checkpoint.write_json(path, {"a": 1})

    def fill(draft):
        draft.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write(path, fill)
    assert path.read_text() == '{\n  "a": 1\n}\n'
    assert list(tmp_path.iterdir()) == [path]
