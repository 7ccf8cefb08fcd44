"""The command line: thin commands that parse, call the library and print."""

from scoreprior.cli.main import app

__all__ = ["app"]
