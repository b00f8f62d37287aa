# labels: unit
# needs: claims
"""What claims register does not depend on the order in which their objects are linked, which is that in which constants are made: linked the other way round, the program lists the same rules."""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["THINWIRE_BUILD_DIR"]
SKIPPED = 77  # CTest's SKIP_RETURN_CODE


def link_line(program):
    """What ninja runs to link this program: commands that && joins, the second of them the linker."""
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", program], capture_output=True, text=True, check=True).stdout
    return next(line for line in reversed(listed.splitlines()) if f"-o {program}" in line)


class LinkOrder(unittest.TestCase):
    def test_rules_are_the_same_linked_the_other_way_round(self):
        with tempfile.TemporaryDirectory() as work:
            other = os.path.join(work, "claims")
            words = shlex.split(link_line("bin/claims").split("&&")[1])
            objects = [word for word in words if word.endswith(".o")]
            self.assertGreater(len(objects), 100)
            turned = iter(reversed(objects))
            words = [next(turned) if word.endswith(".o") else word for word in words]
            words[words.index("-o") + 1] = other
            subprocess.run(words, cwd=BUILD, check=True)
            listed = [subprocess.run([program, "list", "--json"], capture_output=True, text=True, check=True).stdout for program in (os.path.join(BUILD, "bin", "claims"), other)]
        self.assertGreater(listed[0].count("rule_hash"), 200)
        self.assertEqual(listed[1], listed[0])


if __name__ == "__main__":
    if not shutil.which("ninja") or not os.path.exists(os.path.join(BUILD, "build.ninja")):
        print("SKIPPED: this build is not ninja's, which tells how a program is linked")
        sys.exit(SKIPPED)
    unittest.main()
