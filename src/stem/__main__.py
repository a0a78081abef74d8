"""`python -m stem` is `stem`."""

from stem.cli.main import main

main()
