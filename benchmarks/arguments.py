"""Arguments: what the command lines of benchmarks that write files of a size have in common."""

from __future__ import annotations

import argparse


def sized(document: str | None, size: str, repeats: int = 7) -> argparse.ArgumentParser:
    """A parser with --size, --repeats and --folder, which describes itself as its module does."""
    parser = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default=size, help="of the data; %(default)s by default")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument(
        "--folder", default=None, help="where the files go; by default the system's"
    )
    return parser
