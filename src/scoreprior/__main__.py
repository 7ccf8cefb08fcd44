"""`python -m scoreprior` is the command line."""

from scoreprior.cli import app

if __name__ == "__main__":
    app(prog_name="scoreprior")
