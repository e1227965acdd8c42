"""The command line: every command of ctctl, for people and for scripts."""
