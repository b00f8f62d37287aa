#!/usr/bin/env python3
"""Lets programs and libraries start where glibc is older than the one they were linked with, as far as they can do without what is newer.

    older_glibc.py HAVE FILE...

HAVE is a library without symbol versions (packaging/older_glibc.c). Where all that a FILE wants from a version of glibc is in HAVE, its need of that version
becomes one of the oldest version that it needs anyway: no glibc has the functions there, so the loader takes them from HAVE, which must be loaded
(LD_PRELOAD). Prints the newest version of glibc that some FILE still needs. Exit: 0, 2 usage.
"""
import struct
import sys

DYNSYM, VERSYM, VERNEED = 11, 0x6FFFFFFF, 0x6FFFFFFE  # section types, elf.h


def text(data, at):
    return data[at : data.index(b"\0", at)].decode()


class Elf:
    """A 64-bit little-endian ELF file: its sections, dynamic symbols, and needs of versions."""

    def __init__(self, path):
        with open(path, "rb") as stream:
            self.data = bytearray(stream.read())
        self.sections = []
        if self.data[:6] != b"\x7fELF\x02\x01":
            return
        first, size, count = struct.unpack_from("<Q", self.data, 40)[0], *struct.unpack_from("<HH", self.data, 58)
        for i in range(count):  # name, type, flags, address, offset, size, link, info, alignment, entry size
            self.sections.append(struct.unpack_from("<IIQQQQIIQQ", self.data, first + i * size))

    def section(self, kind):
        return next((s for s in self.sections if s[1] == kind), None)

    def strings_of(self, section):
        return self.sections[section[6]][4]

    def symbols(self):
        """(name, version index, whether it is defined here) of each dynamic symbol."""
        table, versions = self.section(DYNSYM), self.section(VERSYM)
        if table is None:
            return
        for i in range(table[5] // 24):
            name, _, _, defined_in, _, _ = struct.unpack_from("<IBBHQQ", self.data, table[4] + 24 * i)
            version = struct.unpack_from("<H", self.data, versions[4] + 2 * i)[0] & 0x7FFF if versions else 0
            yield text(self.data, self.strings_of(table) + name), version, defined_in != 0

    def needs(self):
        """For each library that versions are needed from: [(number of the version, its index, where its entry lies)], glibc's alone."""
        section = self.section(VERNEED)
        at = section[4] if section else 0
        while at:
            _, count, _, entry, following = struct.unpack_from("<HHIII", self.data, at)
            entry += at
            found = []
            for _ in range(count):
                _, _, index, name, further = struct.unpack_from("<IHHII", self.data, entry)
                name = text(self.data, self.strings_of(section) + name)
                if name.startswith("GLIBC_2."):
                    found.append((number(name), index, entry))
                entry += further
            yield found
            at = at + following if following else 0


def number(version):
    return tuple(int(part) for part in version.split("_")[1].split("."))


def make_older(path, have):
    """The newest version that is still needed."""
    elf, newest = Elf(path), (2, 0)
    before, wanted = bytes(elf.data), {}
    for name, version, defined in elf.symbols():
        if not defined:
            wanted.setdefault(version, set()).add(name)
    for versions in elf.needs():
        for version, index, entry in versions:
            oldest, _, oldest_entry = min(versions)
            if version != oldest and wanted.get(index) and wanted[index] <= have:
                elf.data[entry : entry + 4] = elf.data[oldest_entry : oldest_entry + 4]  # the hash of the version's name,
                elf.data[entry + 8 : entry + 12] = elf.data[oldest_entry + 8 : oldest_entry + 12]  # and where it stands
            else:
                newest = max(newest, version)
    if elf.data != before:
        with open(path, "r+b") as stream:
            stream.write(elf.data)
    return newest


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    have = {name for name, _, defined in Elf(arguments[0]).symbols() if defined}
    print(".".join(map(str, max(make_older(path, have) for path in arguments[1:]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
