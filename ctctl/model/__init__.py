"""The nouns of ctctl: frozen values, no I/O, no clock, no decisions."""
