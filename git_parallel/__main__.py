"""Run as ``python -m git_parallel``."""

from git_parallel.cli import main

if __name__ == "__main__":
    main()
