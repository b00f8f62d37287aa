"""Codecs and kernels on a GPU; left out, with the reason, where the file holds no rows of one."""
