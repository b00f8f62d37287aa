"""perl: the manual of Perl."""
from experiments.text_tasks.lib.collection import Collection, read
from experiments.text_tasks.markup import pod


@Collection(packages=("perl-doc",), licence="GPL-1+ or Artistic")
def texts(files):
    for path in files(".pod"):
        yield pod.text_of(read(path))
