# labels: unit
# Rooms of the source tree: who may include whom, READMEs that say so, no circles, no piles (rules: rooms.py).
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rooms  # noqa: E402

ROOT = os.environ.get("THINWIRE_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CMAKE = """
thinwire_layer(low SOURCES low LINK boost)
thinwire_layer(high SOURCES high REGISTERS LINK thinwire_low)
thinwire_programs(high/programs LINK thinwire_high)
"""


def readme(may, start="a.h"):
    return f"Files for a test.\nMay include: {may}.\nStart at: {start}\n"


# A tree without fault: low/ with a room below it, high/ on top.
TREE = {
    "CMakeLists.txt": CMAKE,
    "low/README.md": readme(rooms.NOTHING),
    "low/a.h": "#include <vector>\n#include \"generated.h\"\n",
    "low/room/README.md": readme("low"),
    "low/room/a.h": '#include "low/a.h"\n',
    "high/README.md": readme(rooms.NOTHING),
    "high/a.h": '#include "low/room/a.h"\n',
    "high/programs/README.md": readme("high", "main.cpp"),
    "high/programs/main.cpp": '#include "high/a.h"\n',
}


class Rooms(unittest.TestCase):
    def test_this_tree_keeps_the_rules(self):
        self.assertEqual([], rooms.complaints_about(ROOT))

    def test_the_layers_stand_in_the_order_that_the_design_shows(self):
        page = rooms.read(os.path.join(ROOT, "docs", "design.md"))
        shown = [line.split("/")[0] for line in page.splitlines() if line.split("/")[0] in rooms.Layers(ROOT).tops() and line.split(" ")[0].endswith("/")]
        built = [name for name in rooms.Layers(ROOT).order if name in rooms.Layers(ROOT).tops()]
        self.assertEqual(built, shown)

    def complaints(self, changes, opened=frozenset()):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**TREE, **changes}.items():
                if text is None:
                    continue
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return rooms.complaints_about(root, frozenset(opened))

    def refuses(self, words, changes, opened=frozenset()):
        said = self.complaints(changes, opened)
        self.assertTrue(any(words in line for line in said), f"{words!r} is not in {said}")

    def test_a_tree_without_fault_is_accepted(self):
        self.assertEqual([], self.complaints({}))

    def test_a_lower_layer_includes_no_higher_one(self):
        self.refuses("the layer low is not built on high", {"low/b.cpp": '#include "high/a.h"\n'})

    def test_a_room_includes_no_room_that_it_does_not_list(self):
        self.refuses("low/README.md does not list low/room", {"low/b.cpp": '  #  include "low/room/a.h"\n'})

    def test_rooms_that_list_each_other_are_a_circle(self):
        self.refuses("low -> low/room -> low", {"low/README.md": readme("low/room"), "low/b.cpp": '#include "low/room/a.h"\n'})

    def test_an_open_cycle_is_accepted_until_it_is_broken(self):
        change = {"low/b.cpp": '#include "low/room/a.h"\n'}
        self.assertEqual([], self.complaints(change, {("low", "low/room")}))
        self.refuses("remove the line from OPEN", {}, {("low", "low/room")})

    def test_entry_points_may_be_included_from_every_room_and_stand_alone(self):
        change = {"low/room/x_entries.h": "", "low/b.cpp": '#include "low/room/x_entries.h"\n'}
        self.assertEqual([], self.complaints(change))
        change["low/room/x_entries.h"] = '#include "low/a.h"\n'
        self.refuses("stand on the like alone", change)

    def test_a_room_says_what_it_is(self):
        self.refuses("low/room holds sources and has no README.md", {"low/room/README.md": None})
        self.refuses("low/README.md must say what lives there", {"low/README.md": "Files.\nStart at: a.h\n"})
        self.refuses("low/README.md must say what lives there", {"low/README.md": "May include: low/room.\nStart at: a.h\n"})
        self.refuses("start at b.h, which is not there", {"low/README.md": readme(rooms.NOTHING, "b.h")})
        self.refuses("names low/cellar, which is no room", {"low/README.md": readme("low/cellar")})
        self.refuses("only rooms of the same layer are listed", {"high/README.md": readme("low")})

    def test_a_room_holds_a_limited_number_of_files(self):
        fits = {f"low/{i}.h": "" for i in range(rooms.MOST_FILES - 1)}  # and a.h
        self.assertEqual([], self.complaints(fits))
        self.refuses(f"low holds {rooms.MOST_FILES + 1} files", {**fits, "low/x.txt": ""})


if __name__ == "__main__":
    unittest.main()
