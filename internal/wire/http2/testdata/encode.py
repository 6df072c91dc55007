"""Encodes header lists by hpack: each line of the input is a table size or null, and fields."""

import json
import sys

import hpack

encoder = hpack.Encoder()
for line in sys.stdin:
    table_size, fields = json.loads(line)
    if table_size is not None:
        encoder.header_table_size = table_size
    print(encoder.encode([tuple(field) for field in fields]).hex())
