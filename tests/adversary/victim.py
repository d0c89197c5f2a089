"""Runs the toy of one experiment to its end, or until it is killed: `python -m adversary.victim NAME OUT PROCESSES`."""

import sys
from pathlib import Path

import jax


def main(name: str, out: str, processes: str) -> None:
    """Says "begin" when everything is imported, and "end" when the run is published."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    from adversary import toys
    from wane.executors import ExecutorOptions
    from wane.lab.runs import run_all

    run = toys.run(name, Path(out), int(processes))
    _ = run.fingerprint
    print("begin", flush=True)
    with toys.plain_pictures():
        run_all([run], ExecutorOptions(processes=int(processes)), resume=True, save_seconds=0)
    print("end", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
