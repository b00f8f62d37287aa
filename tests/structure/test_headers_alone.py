# labels: unit
# timeout: 600
# slow: yes
# The rest of test_headers.py: a hundred headers that no .cpp begins with, compiled alone with the flags of a program of the suite. Over a minute of two cores.
import concurrent.futures
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_headers as headers  # noqa: E402


class HeadersAlone(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(headers.COMMANDS), f"no {headers.COMMANDS}: this generator writes no compile commands")
    def test_every_other_header_compiles_by_itself(self):
        command, alone = headers.flags(), headers.headers_to_compile(headers.sources())
        with concurrent.futures.ThreadPoolExecutor(2) as workers:
            said = list(workers.map(lambda header: headers.complaint_of(command, header), alone))
        self.assertEqual([], [line for line in said if line])


if __name__ == "__main__":
    unittest.main()
