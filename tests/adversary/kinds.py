"""All fuzzers by kind."""

from adversary import chains, dates, features, folders, hostile, kills, maps, words
from adversary.frame import Fuzzer

MODULES = (chains, features, maps, folders, hostile, words, dates, kills)
KINDS: dict[str, Fuzzer] = {fuzzer.kind: fuzzer for module in MODULES for fuzzer in module.FUZZERS}
