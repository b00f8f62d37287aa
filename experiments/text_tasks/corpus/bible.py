"""bible: the King James Version, a verse a paragraph."""
import os
import re
import subprocess

from experiments.text_tasks.lib.collection import Collection
from plots.lib.errors import EnvironmentFailure

REFERENCE = re.compile(r"^[\w ]+?[0-9]+:[0-9]+\s+")


@Collection(packages=("bible-kjv", "bible-kjv-text"), licence="text free, program GPL-2+")
def texts(files):
    (program,), (data,) = files("/bin/bible"), files("/bible.data")
    command = [program, "-f", "-l", "9999", "-p", os.path.dirname(data), "gen1:1-rev22:21"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout:
        raise EnvironmentFailure(f"{program} ended with {done.returncode} and {len(done.stdout)} characters: {done.stderr.strip()}; reinstall bible-kjv")
    yield "\n\n".join(REFERENCE.sub("", line) for line in done.stdout.splitlines())
