# labels: unit
# timeout: 300
# needs: train_gpt
"""A whole program with THINWIRE_INSTRUCTIONS=avx2: which kernels multiply, what its record says, what is refused."""
import glob
import os
import subprocess
import tempfile
import unittest

import h5py

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("THINWIRE_BIN_DIR", os.path.join(ROOT, "build", "bin"))
MODEL = "--layers 1 --hidden 32 --heads 2 --seq 16 --micro-batch 2 --global-batch 2 --steps 2 --eval-interval 0".split()
with open("/proc/cpuinfo", encoding="ascii", errors="replace") as stream:
    PROCESSOR = set(next((line for line in stream if line.startswith("flags")), "").split())


def kernels_of(blas):
    """`OpenBLAS 0.3.21 ... core Haswell`: Haswell; empty for another library."""
    return blas.rpartition(" core ")[2] if blas.startswith("OpenBLAS") else ""


@unittest.skipUnless({"avx2", "fma"} <= PROCESSOR, "SKIPPED: this processor has no AVX2 and FMA")
class Avx2(unittest.TestCase):
    def train(self, **variables):
        """The finished process, and its record's provenance where it left one."""
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        out = os.path.join(scratch.name, "out")
        environment = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "THINWIRE_INSTRUCTIONS", "THINWIRE_MACHINE")}
        command = [os.path.join(BIN, "train_gpt"), *MODEL, "--text", os.path.abspath(__file__), "--out", out]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**environment, **variables})
        for path in glob.glob(os.path.join(out, "cells", "*.h5")):
            with h5py.File(path) as record:
                row = record["provenance"][0]
                return done, {name: row[name].decode() for name in ("blas", "environment")}
        return done, {}

    def test_matrices_are_multiplied_by_kernels_for_avx2_and_the_record_says_so(self):
        done, record = self.train(THINWIRE_INSTRUCTIONS="avx2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("THINWIRE_INSTRUCTIONS=avx2", record["environment"])
        if not kernels_of(record["blas"]):
            self.skipTest("SKIPPED: another BLAS than OpenBLAS")
        self.assertIn(kernels_of(record["blas"]), ("Haswell", "Zen"))

    def test_kernels_that_contradict_it_are_refused(self):
        if "avx512f" not in PROCESSOR:
            self.skipTest("SKIPPED: this processor has no AVX-512")
        _, record = self.train(OPENBLAS_CORETYPE="SkylakeX")
        if kernels_of(record["blas"]) != "SkylakeX":
            self.skipTest("SKIPPED: this BLAS does not take SkylakeX")
        done, record = self.train(THINWIRE_INSTRUCTIONS="avx2", OPENBLAS_CORETYPE="SkylakeX")
        self.assertEqual((done.returncode, record), (2, {}), done.stderr)
        self.assertIn("unset OPENBLAS_CORETYPE", done.stderr)

    def test_another_word_is_refused(self):
        done, record = self.train(THINWIRE_INSTRUCTIONS="avx1024")
        self.assertEqual((done.returncode, record), (2, {}), done.stderr)
        self.assertIn("THINWIRE_INSTRUCTIONS=avx1024 is not avx2", done.stderr)


if __name__ == "__main__":
    unittest.main()
