# labels: unit
# timeout: 600
# Every header compiles by itself. X.cpp includes X.h before anything else, so that building it has proved X.h. A header that no .cpp begins
# with is compiled alone by test_headers_alone.py. Kernels' headers (.cuh) need nvcc: their .cu files compile them.
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rooms  # noqa: E402

ROOT = os.environ.get("THINWIRE_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("THINWIRE_BUILD_DIR") or os.path.join(ROOT, "build")
COMMANDS = os.path.join(BUILD, "compile_commands.json")


def sources():
    """Paths of all C++ sources and headers of the layers, from the root."""
    return [f"{room}/{name}" for room, files in sorted(rooms.sources_of(ROOT, rooms.Layers(ROOT)).items()) for name in files]


def first_include(path):
    found = re.search(r'^\s*#\s*include\s*["<]([^">]+)', rooms.read(os.path.join(ROOT, path)), re.M)
    return found.group(1) if found else None


def headers_to_compile(paths):
    """Headers that no .cpp begins with."""
    proved = {first_include(path) for path in paths if path.endswith(".cpp")}
    return [path for path in paths if path.endswith(".h") and path not in proved]


def flags():
    """Of a program, which sees the headers of all layers; without optimisation, outputs and the precompiled header."""
    with open(COMMANDS, encoding="utf-8") as file:
        commands = json.load(file)
    command = next(entry["command"] for entry in commands if entry["file"].endswith("/bench/bench_codec.cpp"))
    words = shlex.split(command)
    while os.path.basename(words[0]) == "ccache":
        words = words[1:]
    kept, skip = [], False
    for word in words:
        if skip or word == "-c" or re.match(r"-O|-g", word) or word.endswith("/bench/bench_codec.cpp"):
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ", "-include"):
            skip = True
        elif not word.startswith("-MD"):
            kept.append(word)
    return kept


def complaint_of(command, header):
    """What the compiler says about a translation unit that holds nothing but the header, or None."""
    done = subprocess.run(command + ["-fsyntax-only", "-x", "c++", "-"], input=f'#include "{header}"\n', capture_output=True, text=True)
    return None if done.returncode == 0 else f"{header} does not compile by itself:\n{done.stderr}"


class Headers(unittest.TestCase):
    def test_a_source_includes_its_own_header_first(self):
        paths = set(sources())
        late = [path for path in sorted(paths) if path.endswith(".cpp") and path[:-4] + ".h" in paths and first_include(path) != path[:-4] + ".h"]
        self.assertEqual([], late)

    @unittest.skipUnless(os.path.exists(COMMANDS), f"no {COMMANDS}: this generator writes no compile commands")
    def test_a_header_that_leans_on_another_is_found(self):
        with tempfile.NamedTemporaryFile("w", suffix=".h") as header:
            header.write("#pragma once\ninline std::string name() { return {}; }\n")
            header.flush()
            self.assertIn("does not compile by itself", complaint_of(flags(), header.name) or "")


if __name__ == "__main__":
    unittest.main()
