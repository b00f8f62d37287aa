"""TSV files of a task, complete or not at all."""
import hashlib
import os


def content(columns, rows):
    """The bytes of a file: a header, then a line a row."""
    return "".join("\t".join(fields) + "\n" for fields in (columns, *rows)).encode()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def write_all(folder, contents):
    """{name: bytes}: no half file ever stands under its name, and all are complete before the first gets its name."""
    for name, data in contents.items():
        with open(os.path.join(folder, name + ".tmp"), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    for name in contents:
        os.replace(os.path.join(folder, name + ".tmp"), os.path.join(folder, name))
