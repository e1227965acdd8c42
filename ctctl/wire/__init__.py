"""Bytes and text of the other side ⇄ model values: netlink, conntrack messages, JSON-RPC, log lines. No I/O."""
