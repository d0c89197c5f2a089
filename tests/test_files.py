"""Files are whole or not there; trees of arrays come back as they were; damage is always told."""

import json
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wane.files import (
    DamagedFile,
    checksum,
    fill_tree,
    find_published,
    load_arrays,
    name_leaves,
    nest,
    read_json,
    save_arrays,
    write,
    write_json,
)

DTYPES = st.sampled_from(["float64", "float32", "int64", "int32", "uint8", "bool"])
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, max_side=3)))
NAMES = st.text("abcλ_", min_size=1, max_size=4)


class Pair(NamedTuple):
    one: object
    two: object


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fails(draft):
        draft.write_text("half of the n")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write(path, fails)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_names_the_file_and_not_its_draft(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "a.txt", lambda draft: draft.read_text())
    assert caught.value.filename == str(tmp_path / "a.txt")


def test_folders_are_made_and_json_is_readable(tmp_path):
    path = write_json(tmp_path / "deep" / "er" / "a.json", {"λ": [0.5, 1]})
    assert json.loads(path.read_text("utf-8")) == {"λ": [0.5, 1]}
    assert "λ" in path.read_text("utf-8")
    assert checksum(path) == checksum(write_json(tmp_path / "b.json", {"λ": [0.5, 1]}))
    assert checksum(path) != checksum(write_json(tmp_path / "b.json", {"λ": [0.5, 2]}))


@given(st.dictionaries(NAMES, st.one_of(ARRAYS, st.dictionaries(NAMES, ARRAYS, min_size=1)), min_size=1, max_size=4))
def test_dictionaries_of_arrays_come_back(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("arrays") / "a.safetensors"
    arrays, about = load_arrays(save_arrays(path, name_leaves(tree), {"done": 3}))
    assert about == {"done": 3}
    again = nest(arrays)
    assert jax.tree_util.tree_structure(again) == jax.tree_util.tree_structure(tree)
    for old, new in zip(*map(jax.tree_util.tree_leaves, (tree, again)), strict=True):
        assert old.dtype == new.dtype
        np.testing.assert_array_equal(old, new)


def test_trees_of_all_kinds_come_back(tmp_path):
    """Named tuples, lists and dictionaries; JAX's arrays as JAX's, NumPy's as NumPy's, also those with odd strides."""
    tree = Pair(jnp.arange(6.0).reshape(2, 3), [{"x": np.arange(8)[::2]}, Pair(np.float32(0.5), jnp.zeros(()))])
    path = save_arrays(tmp_path / "a.safetensors", name_leaves(tree))
    again = fill_tree(tree, load_arrays(path)[0], path)
    assert isinstance(again, Pair)
    assert isinstance(again.one, jax.Array)
    assert isinstance(again.two[0]["x"], np.ndarray)
    assert again.two[0]["x"].tolist() == [0, 2, 4, 6]
    assert list(name_leaves(tree)) == ["one", "two/0/x", "two/1/one", "two/1/two"]


def test_one_array_alone():
    assert list(name_leaves(jnp.ones(2))) == ["array"]
    assert nest(name_leaves(jnp.ones(2))).tolist() == [1.0, 1.0]


def test_every_flipped_bit_of_a_sealed_file_is_told(tmp_path):
    content = {"λ": [0.5, 1], "name": "walk", "none": None, "nested": {"a": True}}
    path = write_json(tmp_path / "a.json", content, sealed=True)
    assert {name: value for name, value in read_json(path).items() if name != "seal"} == content
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 5, 7):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(bytes(damaged))
            try:
                found = read_json(path)
            except DamagedFile:
                continue
            # The flip hit the layout, or the name of the checksum.
            assert {name: found.get(name, "missing") for name in content} == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[]", "holds a list where a dict belongs"),
        (b'{"a": ' * 100_000, "cannot be read"),
        (b'{"a": ' * 51 + b"1" + b"}" * 51, "nests lists or dictionaries more than 50 deep"),
        (b"9" * 5000, "cannot be read"),
        (b'{"seal": "0"}', "was changed after it was written"),
        (b'{"seal": null}', "was changed after it was written"),
    ],
)
def test_json_that_cannot_be_used_is_damage(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=rf"a\.json {message}"):
        read_json(path)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_ordinary_file_is_not_read(tmp_path, make):
    make(tmp_path / "a")
    for read in (read_json, load_arrays):
        with pytest.raises(DamagedFile, match="not an ordinary file"):
            read(tmp_path / "a")
    with pytest.raises(OSError, match="not an ordinary file"):
        checksum(tmp_path / "a")


def test_a_path_may_be_a_word(tmp_path):
    path = save_arrays(tmp_path / "a.safetensors", {"a": np.arange(3)}, {"b": 1})
    arrays, about = load_arrays(str(path))
    assert (arrays["a"].tolist(), about) == ([0, 1, 2], {"b": 1})


def test_the_same_arrays_make_the_same_file(tmp_path):
    """The format itself shuffles its notes."""
    arrays = {f"a{i}": np.arange(float(i)) for i in range(5)}
    files = [save_arrays(tmp_path / f"{i}.safetensors", arrays, {"done": 1}) for i in range(5)]
    assert len({checksum(file) for file in files}) == 1


@pytest.mark.parametrize("name", ["../a", "/etc/hostname", "", "a/../../b", "a\0", "\ud800"])
def test_files_outside_of_a_run_are_not_found(tmp_path, name):
    with pytest.raises(ValueError, match="not the path of a file|surrogates"):
        find_published(tmp_path, name)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"one": np.zeros(2)}, "lacks array 'two'"),
        ({"one": np.zeros(2), "two": np.zeros(3), "three": np.zeros(1)}, "holds an unknown array 'three'"),
        ({"one": np.zeros(2), "two": np.zeros(4)}, r"'two' is float64\[4\] where float64\[3\] belongs"),
        ({"one": np.zeros(2), "two": np.zeros(3, int)}, r"'two' is int64\[3\] where float64\[3\] belongs"),
    ],
)
def test_what_does_not_fit_is_named(arrays, message):
    with pytest.raises(DamagedFile, match=message):
        fill_tree(Pair(np.zeros(2), np.zeros(3)), arrays, "a file")


@pytest.mark.parametrize(
    ("leaf", "message"),
    [(jax.random.key(0), "random key"), ("text", "holds numbers only"), (np.array([1 + 2j]), "holds numbers only")],
)
def test_what_cannot_be_saved_is_refused(leaf, message):
    with pytest.raises(TypeError, match=message):
        name_leaves({"leaf": leaf})


@pytest.mark.parametrize("content", [b"", b"\x00" * 8, b"\xff" * 100, b"{}", b"\x02\x00\x00\x00\x00\x00\x00\x00[]"])
def test_nonsense_is_damage(content, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"a\.safetensors is damaged"):
        load_arrays(path)
    with pytest.raises(DamagedFile, match="is missing"):
        load_arrays(tmp_path / "b.safetensors")


def test_every_flipped_bit_is_told(tmp_path):
    """In the numbers, the names, the note and the header: no flip loads as other numbers."""
    path = save_arrays(tmp_path / "a.safetensors", {"phi": np.arange(4.0), "n": np.array([3])}, {"done": 1})
    whole = path.read_bytes()
    before, about = load_arrays(path)
    for place in range(len(whole)):
        for bit in (0, 6):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(bytes(damaged))
            try:
                arrays, note = load_arrays(path)
            except DamagedFile:
                continue
            assert note == about
            assert set(arrays) == set(before)
            for name in before:
                np.testing.assert_array_equal(arrays[name], before[name])
