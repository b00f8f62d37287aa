# labels: unit
# timeout: 60
"""models/data/text/unicode_tables.cpp is what its generator writes from the same version of Unicode. Skipped where Python has another one."""
import os
import re
import subprocess
import sys
import tempfile
import unicodedata

ROOT = os.environ.get("THINWIRE_SOURCE_DIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 4))
SKIPPED = 77  # CTest's SKIP_RETURN_CODE


def main():
    with open(os.path.join(ROOT, "models", "data", "text", "unicode_tables.cpp"), encoding="ascii") as file:
        committed = file.read()
    version = re.search(r'version = "([0-9.]+)"', committed)[1]
    if version != unicodedata.unidata_version:
        print(f"SKIPPED: the tables are of Unicode {version}, this Python has {unicodedata.unidata_version}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tables.cpp")
        subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "scripts", "make_unicode_tables.py"), path], check=True)
        with open(path, encoding="ascii") as file:
            if file.read() == committed:
                return 0
    print("FAILED: unicode_tables.cpp is not what scripts/make_unicode_tables.py writes; run it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
