"""Kills real processes at random times (SIGKILL), resumes until the run is finished, and compares what it published."""

import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

import wane
from adversary import toys
from adversary.frame import Fuzzer, one_of


def start(name: str, out: Path) -> subprocess.Popen[str]:
    """Starts the run of an experiment in a process of its own. Returns when all is imported and the work begins."""
    folders = [Path(__file__).parents[1], Path(wane.__file__).parents[1]]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-m", "adversary.victim", name, str(out)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n", process.communicate()[1]
    return process


def finish(name: str, out: Path) -> tuple[dict[str, str], float]:
    """Runs to the end. Returns the checksums of what was published, and the seconds that it took."""
    process, began = start(name, out), time.monotonic()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    seconds = time.monotonic() - began
    record = toys.run(name, out).folder.record()
    assert record is not None
    return record["files"], seconds


@cache
def unbroken(name: str) -> tuple[dict[str, str], float]:
    """What a run that nobody kills publishes, and how long it takes when JAX has compiled its programs before."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        files, _ = finish(name, Path(first))
        again, seconds = finish(name, Path(second))
    assert files == again, f"two runs of {name} differ"
    return files, seconds


def kill(name: str, kills: int, rng: np.random.Generator) -> int:
    """Kills a run several times and lets it finish. Returns how often it was killed at work."""
    files, seconds = unbroken(name)
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        # The waits become shorter, so that runs of a moment are killed too, on a machine that is busy with other work.
        for attempt in range(10 * kills):
            if killed == kills:
                break
            out = Path(folder) / "out"
            process = start(name, out)
            time.sleep(seconds * float(rng.random()) ** (1 + attempt / kills))
            process.kill()
            said, errors = process.communicate()
            assert not errors.strip(), errors
            if "end" in said:  # It was quicker than the kill: the next attempt begins anew.
                assert finish(name, out)[0] == files
                out.rename(Path(folder) / f"finished-{attempt}")
            else:
                killed += 1
        assert finish(name, out)[0] == files, f"{name} differs after {killed} kills"
    return killed


def kill_case(rng: np.random.Generator) -> None:
    """One experiment, killed twice."""
    kill(one_of(rng, *toys.NAMES), 2, rng)


FUZZERS = (Fuzzer("kills", kill_case, 0, longest=1800),)
