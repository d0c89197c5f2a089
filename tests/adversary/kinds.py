"""All fuzzers by kind."""

from adversary import chains, features, folders, kills, maps, words
from adversary.frame import Fuzzer

KINDS: dict[str, Fuzzer] = {
    fuzzer.kind: fuzzer for module in (chains, features, maps, folders, words, kills) for fuzzer in module.FUZZERS
}
