"""manpages: manual pages of Linux, for users and programmers."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import man


@Collection(packages=("manpages", "manpages-dev"), licence="GPL-2+ and others, page by page")
def texts(files):
    for path in files(*(f".{section}.gz" for section in range(1, 9))):
        yield man.text_of(read(path))
