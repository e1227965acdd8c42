"""`python -m ctctl`."""

from ctctl.cli.main import main

main()
