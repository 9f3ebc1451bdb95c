"""`python -m ragtide` is the command line."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:  # -m has put the current folder first, where a file of a user would replace a module
        sys.path.append(sys.path.pop(0))
    from .cli import run

    run()
