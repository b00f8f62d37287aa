"""The rules of docs/design.md for folders with C++ sources ("rooms"), as a list of complaints about a source tree.

Layers and what they may include are those that CMakeLists.txt declares and links. Inside a layer each room's README.md says
"May include: room, room" (or "nothing of this layer"); rooms are named by their path from the root.
"""
import os
import re

SOURCES = (".h", ".cpp", ".cu", ".cuh")
MOST_FILES = 27
NOTHING = "nothing of this layer"

# Cycles that are still to be broken, as (room, room it includes). A line that is no longer needed is an error.
OPEN = set()

# Declarations of the device module's C entry points, over core/device/device_abi.h alone: the seam between the host's code and
# kernels of any room, so any room of the layer may include them.
ENTRY_POINTS = re.compile(r"(_entries|_abi|/device_sizes|/device_nn)\.h$")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Layers:
    """What CMakeLists.txt says: the folders of each layer and the layers that it links, directly or not."""

    def __init__(self, root):
        self.folders, self.links, self.order = {}, {}, []
        text = re.sub(r"#.*", "", read(os.path.join(root, "CMakeLists.txt")))
        for name, words in re.findall(r"thinwire_layer\((\w+)\s+([^)]*)\)", text):
            kind = None
            linked = []
            for word in words.split():
                if word in ("SOURCES", "ROOMS_OF", "LINK"):
                    kind = word
                elif re.fullmatch("[A-Z_]+", word):  # another option
                    kind = None
                elif kind == "LINK":
                    linked.append(word)
                elif kind:
                    self.folders[word] = name
            self.add(name, linked)
        for folder, words in re.findall(r"thinwire_programs\(([\w/]+)\s+LINK\s+([^)]*)\)", text):
            linked = words.split()
            if folder not in self.folders:  # its rooms are a layer of the same name where it is one
                name = "programs of " + folder
                self.folders[folder] = name
                self.add(name, linked)

    def add(self, name, linked):
        self.order.append(name)
        self.links[name] = {name}
        for library in linked:
            self.links[name] |= self.links.get(library.removeprefix("thinwire_"), set())

    def of(self, path):
        """The layer of a file: that of the longest folder that holds it."""
        folder = os.path.dirname(path)
        while folder and folder not in self.folders:
            folder = os.path.dirname(folder)
        return self.folders.get(folder)

    def tops(self):
        return sorted({folder.split("/")[0] for folder in self.folders})


def includes_of(root, path):
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', read(os.path.join(root, path)), re.M)


def sources_of(root, layers):
    """Every room that holds sources, with its source files."""
    rooms = {}
    for top in layers.tops():
        for folder, below, files in os.walk(os.path.join(root, top)):
            below[:] = [name for name in below if name not in ("__pycache__", "build")]
            here = sorted(name for name in files if name.endswith(SOURCES))
            if here:
                rooms[os.path.relpath(folder, root)] = here
    return rooms


def permissions(root, room, rooms):
    """What the room's README lets it include, or complaints."""
    path = os.path.join(root, room, "README.md")
    if not os.path.exists(path):
        return set(), [f"{room} holds sources and has no README.md"]
    lines = read(path).strip().splitlines()
    complaints = []
    may = [line for line in lines if line.startswith("May include:")]
    start = [line for line in lines if line.startswith("Start at:")]
    if len(may) != 1 or len(start) != 1 or not lines or lines[0].startswith(("May include:", "Start at:")):
        return set(), [f"{room}/README.md must say what lives there, one line `May include: ...` and one line `Start at: FILE`"]
    for name in re.findall(r"[\w./-]+", start[0].removeprefix("Start at:"))[:1]:
        if not os.path.exists(os.path.join(root, room, name.rstrip("."))):
            complaints.append(f"{room}/README.md: start at {name}, which is not there")
    text = may[0].removeprefix("May include:").strip().rstrip(".")
    named = set() if text == NOTHING else {word.strip() for word in text.split(",")}
    for name in sorted(named):
        if name not in rooms:
            complaints.append(f"{room}/README.md names {name or 'nothing'}, which is no room")
        elif name.split("/")[0] != room.split("/")[0]:
            complaints.append(f"{room}/README.md names {name}: only rooms of the same layer are listed")
    return named & set(rooms), complaints


def cycles(graph):
    """One complaint for each cycle that a depth-first walk closes."""
    found, done = [], set()

    def walk(room, path):
        if room in path:
            found.append("rooms include each other in a circle: " + " -> ".join(path[path.index(room):] + [room]))
            return
        if room in done:
            return
        for other in sorted(graph.get(room, ())):
            walk(other, path + [room])
        done.add(room)

    for room in sorted(graph):
        walk(room, [])
    return found


def complaints_about(root, opened=frozenset(OPEN)):
    layers = Layers(root)
    rooms = sources_of(root, layers)
    allowed, complaints, used = {}, [], set()
    for room in rooms:
        allowed[room], said = permissions(root, room, rooms)
        complaints += said
        own = [name for name in os.listdir(os.path.join(root, room)) if os.path.isfile(os.path.join(root, room, name)) and name != "README.md"]
        if len(own) > MOST_FILES:
            complaints.append(f"{room} holds {len(own)} files, more than {MOST_FILES}")
    for room, files in rooms.items():
        for name in files:
            path = f"{room}/{name}"
            for target in includes_of(root, path):
                other = os.path.dirname(target)
                if other not in rooms or other == room:
                    continue  # a library's header, a generated one, or its own
                if ENTRY_POINTS.search("/" + target) and other.split("/")[0] == room.split("/")[0]:
                    continue
                here, there = layers.of(path), layers.of(target)
                if there not in layers.links[here]:
                    complaints.append(f"{path} includes {target}: the layer {here} is not built on {there}")
                if room.split("/")[0] != other.split("/")[0]:
                    continue
                if (room, other) in opened:
                    used.add((room, other))
                elif other not in allowed[room]:
                    complaints.append(f"{path} includes {target}: {room}/README.md does not list {other}")
    for room, files in rooms.items():
        for name in files:
            path = f"{room}/{name}"
            if not ENTRY_POINTS.search("/" + path):
                continue
            for target in includes_of(root, path):
                if os.path.dirname(target) in rooms and not ENTRY_POINTS.search("/" + target):
                    complaints.append(f"{path} includes {target}: declarations of entry points stand on the like alone")
    for pair in sorted(opened - used):
        complaints.append(f"tests/structure/rooms.py: {pair[0]} no longer includes {pair[1]}; remove the line from OPEN")
    return complaints + cycles(allowed)
