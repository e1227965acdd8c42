"""Backends count a conntrack table and delete from it."""
