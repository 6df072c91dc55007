"""Prints the versions of Python and of the packages in the arguments."""

import importlib.metadata
import platform
import sys

print("Python", platform.python_version())
for name in sys.argv[1:]:
    print(name, importlib.metadata.version(name))
