"""All fuzzers by kind."""

from adversary import chains, dates, features, folders, kills, maps, words
from adversary.frame import Fuzzer

MODULES = (chains, features, maps, folders, words, dates, kills)
KINDS: dict[str, Fuzzer] = {fuzzer.kind: fuzzer for module in MODULES for fuzzer in module.FUZZERS}
