"""Prints the version of Python, and those of the packages that are named."""

import importlib.metadata
import platform
import sys

print("Python", platform.python_version())
for name in sys.argv[1:]:
    print(name, importlib.metadata.version(name))
