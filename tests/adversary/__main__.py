"""Goes on with fresh seeds until the time is up: `python -m adversary`, or repeats one case: `… KIND SEED`.

WANE_FUZZ_SECONDS says how long (default 1800), WANE_FUZZ_WORKERS how many processes (default 2), WANE_FUZZ_SEED where
the seeds begin (default: the clock), WANE_FUZZ_KINDS which kinds to try (default: all). The workers are processes of
their own, so that a crash or a hang of one case ends neither the others nor the account of what was tried.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from adversary.frame import command

MOST_FAILURES = 20
"""Failures of one worker after which it stops, and workers after which all stop: more of them would tell no more."""


def work(log: Path, first: int, until: float) -> None:
    """Runs all kinds in turn and notes the beginning and the end of every case as a line of JSON."""
    kinds = prepare()
    failures, seed = 0, first
    with open(log, "a", buffering=1) as file:
        while time.time() < until and failures < MOST_FAILURES:
            for kind, fuzzer in kinds.items():
                began = time.time()
                # A round gives every kind about as much time as the others, but each at least one case.
                while True:
                    print(json.dumps({"kind": kind, "seed": seed}), file=file)
                    try:
                        fuzzer.run(seed)
                        print(json.dumps({"kind": kind, "seed": seed, "fine": True}), file=file)
                    except KeyboardInterrupt:
                        raise
                    except BaseException:  # What pytest raises is no Exception.
                        failures += 1
                        text = traceback.format_exc()
                        print(json.dumps({"kind": kind, "seed": seed, "fine": False, "text": text}), file=file)
                    seed += 1
                    if time.time() - began > 2 or time.time() > until or failures >= MOST_FAILURES:
                        break


def prepare():
    """The fuzzers, in the conditions of the tests: 64 bits, and warnings are errors."""
    import jax

    from adversary.kinds import KINDS

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("error")
    chosen = os.environ.get("WANE_FUZZ_KINDS", "").split() or KINDS
    return {kind: KINDS[kind] for kind in chosen}


def account(logs: list[Path]) -> tuple[collections.Counter, list[dict]]:
    """How many cases of every kind were fine, and those that failed or never ended."""
    fine: collections.Counter[str] = collections.Counter()
    failed = []
    for log in logs:
        begun = None
        for line in [*map(json.loads, log.read_text().splitlines()), {"kind": "", "seed": 0}]:
            if "fine" not in line and begun is not None:
                failed.append(
                    begun | {"text": "the process died, or the case took too long; see the traceback above\n"}
                )
            begun = None if "fine" in line else line
            fine[line["kind"]] += line.get("fine", False)
            failed += [line] if line.get("fine") is False else []
    return +fine, failed


def watch(logs: list[Path], first: int, until: float) -> None:
    """Keeps a worker at work for every log until the time is up: one that dies is replaced by another."""
    at_work: dict[Path, subprocess.Popen] = {}
    started = 0
    try:
        while time.time() < until or any(process.poll() is None for process in at_work.values()):
            for i, log in enumerate(logs):
                if log in at_work and (at_work[log].poll() in (0, None) or time.time() > until):
                    continue
                # A worker that replaces another goes on behind the seeds of that one.
                seed = first + i * 10**9 + (len(log.read_text().splitlines()) if log.exists() else 0)
                words = [sys.executable, "-m", "adversary", "--work", str(log), str(seed), str(until)]
                at_work[log] = subprocess.Popen(words)
                started += 1
            if started > MOST_FAILURES or all(process.poll() == 0 for process in at_work.values()):
                break
            time.sleep(0.5)
    finally:
        for process in at_work.values():
            process.kill()


def main() -> int:
    """Starts the workers, waits for them, and tells what they found."""
    seconds, workers = (int(os.environ.get(f"WANE_FUZZ_{name}", n)) for name, n in (("SECONDS", 1800), ("WORKERS", 2)))
    first = int(os.environ.get("WANE_FUZZ_SEED", time.time_ns() // 10**6))
    print(f"fuzzing for {seconds} s in {workers} processes, seeds from {first}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{i}.jsonl" for i in range(workers)]
        watch(logs, first, time.time() + seconds)
        fine, failed = account([log for log in logs if log.exists()])
    for failure in failed:
        print(f"\n{failure['kind']}, seed {failure['seed']}: {failure['text']}")
    for kind, number in fine.items():
        print(f"{number:9,d}  {kind}")
    print(f"{sum(fine.values()):9,d}  cases were fine, {len(failed)} failed")
    for failure in failed:
        print(command(failure["kind"], failure["seed"]))
    return 1 if failed or not fine else 0  # Where not one case was fine, nothing was tried.


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--work", log, start, until]:
            work(Path(log), int(start), float(until))
        case [kind, seed]:
            prepare()[kind].run(int(seed))
        case []:
            sys.exit(main())
        case _:
            sys.exit("python -m adversary [KIND SEED]")
