# labels: docs
# timeout: 300
# needs: bench_codec, bench_gradient, sweep
"""docs/tutorial.md is followed to its end: every command, in order, in a folder of its own. Only the clone, the set-up and the two builds are
played: the folder has the project's files and the programs that this build made, the second time with the tutorial's codec linked in, which is compiled from
where the tutorial puts it, with the flags of the build."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("THINWIRE_BUILD_DIR", os.path.join(ROOT, "build"))
PLAYED = ("git clone ", "cd ", "scripts/setup.sh", "cmake ")


def blocks(text):
    """(section, commands) of every shell block; here-documents stay whole."""
    section = ""
    for heading, block in re.findall(r"^## (.+?)$|^```sh\n(.*?)^```$", text, flags=re.M | re.S):
        if heading:
            section = heading
        else:
            yield section, block


def commands(block):
    lines, until = [], None
    for line in block.splitlines():
        lines.append(line)
        if until is None and (found := re.search(r"<<'(\w+)'", line)):
            until = found.group(1)
        elif line == until:
            until = None
        if until is None:
            yield "\n".join(lines)
            lines = []


class Tutorial(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for program in ("bench_codec", "bench_gradient", "sweep"):
            if not os.path.exists(os.path.join(BUILD, "bin", program)):
                raise unittest.SkipTest(f"{program} is not built")
        if not os.path.exists(os.path.join(BUILD, "build.ninja")):
            raise unittest.SkipTest("the build folder is not Ninja's: its flags cannot be asked for")
        with open(os.path.join(ROOT, "docs", "tutorial.md"), encoding="utf-8") as file:
            cls.text = file.read()

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = os.path.join(scratch.name, "thinwire-tutorial")
        os.makedirs(os.path.join(self.tree, "build", "bin"))
        for name in os.listdir(ROOT):
            if name not in ("build", "kernels", "out", ".git") and not name.startswith("build"):
                os.symlink(os.path.join(ROOT, name), os.path.join(self.tree, name))
        shutil.copytree(os.path.join(ROOT, "kernels"), os.path.join(self.tree, "kernels"))
        for program in os.listdir(os.path.join(BUILD, "bin")):
            # sweep starts the programs beside itself: no link.
            place = shutil.copy if program == "sweep" else os.symlink
            place(os.path.join(BUILD, "bin", program), os.path.join(self.tree, "build", "bin", program))

    def run_shell(self, command, folder):
        done = subprocess.run(["bash", "-ceo", "pipefail", command], cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def ninja_command(self, target):
        listed = subprocess.run(["ninja", "-t", "commands", target], cwd=BUILD, capture_output=True, text=True, check=True)
        return listed.stdout.strip().splitlines()[-1]

    def build_with_codec(self):
        """What `cmake --build` does after the new file: compiles it as its neighbours are, links the two programs again."""
        source = os.path.join(self.tree, "kernels", "codec", "codecs", "scaled_sign.cpp")
        made = os.path.join(self.tree, "scaled_sign.o")
        targets = subprocess.run(["ninja", "-t", "targets", "all"], cwd=BUILD, capture_output=True, text=True, check=True).stdout
        neighbour = re.search(r"^(\S*kernels/codec/codecs/dense/none\.cpp\.o):", targets, flags=re.M).group(1)
        compile_it = self.ninja_command(neighbour)
        compile_it = re.sub(r"-MD |-MT \S+ |-MF \S+ ", "", compile_it)
        compile_it = re.sub(r"-o \S+", f"-o {made}", re.sub(r"-c \S+", f"-c {source}", compile_it))
        self.run_shell(compile_it, BUILD)
        for program in ("bench_codec", "bench_gradient"):
            linked = os.path.join(self.tree, "build", "bin", program)
            os.unlink(linked)
            self.run_shell(re.sub(r"-o \S+", f"-o {linked} {made}", self.ninja_command("bin/" + program), count=1), BUILD)

    def test_every_command_works_and_ends_in_a_figure_with_my_codec(self):
        played, printed, builds = [], {}, 0
        for section, block in blocks(self.text):
            for command in commands(block):
                if command.startswith(PLAYED):
                    played.append(command)
                    if command.startswith("cmake --build"):
                        builds += 1
                        if builds == 2:
                            self.build_with_codec()
                    continue
                printed[section] = printed.get(section, "") + self.run_shell(command, self.tree)
        self.assertEqual(builds, 2, "the tutorial builds once, and once more with the codec")
        self.assertEqual(len(played), 6, played)
        self.assertIn("scaled_sign", printed["3. My codec"])
        with open(os.path.join(self.tree, "signs", "figures", "gradient_protocols.csv"), encoding="utf-8") as file:
            self.assertIn("scaled_sign", file.read())
        for name in ("gradient_protocols.png", "error_vs_ratio.png"):
            self.assertGreater(os.path.getsize(os.path.join(self.tree, "signs", "figures", name)), 10_000)
        self.assertTrue(os.path.exists(os.path.join(self.tree, "signs", "report.html")))


if __name__ == "__main__":
    sys.exit(unittest.main())
