"""Kills real processes at random times (SIGKILL), resumes until the run is finished, and compares what it published.

`python -m adversary.kills NAME KILLS [PROCESSES]` kills the run of one experiment.
"""

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

DIVIDED = ("q-lambda", "sac")
"""Experiments that are also killed while two processes compute their seeds."""
LEAKED = "resource_tracker"
"""Python tells so when a process that had workers is killed: it then frees what they shared."""


def start(name: str, out: Path, processes: int = 1) -> subprocess.Popen[str]:
    """Starts the run of an experiment in a process of its own. Returns when all is imported and the work begins."""
    folders = [Path(__file__).parents[1], Path(wane.__file__).parents[1]]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-m", "adversary.victim", name, str(out), str(processes)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n", process.communicate()[1]
    return process


def finish(name: str, out: Path, processes: int = 1) -> tuple[dict[str, str], float]:
    """Runs to the end. Returns the checksums of what was published, and the seconds that it took."""
    process, began = start(name, out, processes), time.monotonic()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    seconds = time.monotonic() - began
    record = toys.run(name, out, processes).folder.record()
    assert record is not None
    return record["files"], seconds


@cache
def unbroken(name: str, processes: int) -> tuple[dict[str, str], float]:
    """What a run that nobody kills publishes, and how long it takes when JAX has compiled its programs before."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        files, _ = finish(name, Path(first), processes)
        again, seconds = finish(name, Path(second), processes)
    assert files == again, f"two runs of {name} differ"
    return files, seconds


def kill(name: str, kills: int, rng: np.random.Generator, processes: int = 1) -> int:
    """Kills a run several times and lets it finish. Returns how often it was killed at work."""
    files, seconds = unbroken(name, processes)
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        # The waits become shorter, so that runs of a moment are killed too, on a machine that is busy with other work.
        for attempt in range(10 * kills):
            if killed == kills:
                break
            out = Path(folder) / "out"
            process = start(name, out, processes)
            time.sleep(seconds * float(rng.random()) ** (1 + attempt / kills))
            process.kill()
            said, errors = process.communicate()  # This also waits until the workers have ended.
            assert not errors.strip() or (processes > 1 and LEAKED in errors), errors
            if "end" in said:  # It was quicker than the kill: the next attempt begins anew.
                assert finish(name, out, processes)[0] == files
                out.rename(Path(folder) / f"finished-{attempt}")
            else:
                killed += 1
        assert finish(name, out, processes)[0] == files, f"{name} differs after {killed} kills"
    return killed


def kill_case(rng: np.random.Generator) -> None:
    """One experiment, killed twice."""
    name = one_of(rng, *toys.NAMES)
    kill(name, 2, rng, int(one_of(rng, 1, 2)) if name in DIVIDED else 1)


FUZZERS = (Fuzzer("kills", kill_case, 0, longest=1800),)

if __name__ == "__main__":
    name, wanted, *more = sys.argv[1:]
    print(kill(name, int(wanted), np.random.default_rng(), *map(int, more)), "kills, and the results are the same")
