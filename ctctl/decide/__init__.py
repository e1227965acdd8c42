"""Decisions: facts and the time in, orders and refusals out. No I/O, no clock, no thread, no logger."""
