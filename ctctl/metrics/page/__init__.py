"""The status page: what an operator asks first, answered in one self-contained document that only reads."""
