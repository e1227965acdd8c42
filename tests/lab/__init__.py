"""The lab: a private, real OVN and a private kernel conntrack table, for tests, demo and benchmarks.

* `namespace`: a private network, mount and PID namespace that dies with its owner; `host`: a host within it.
* `debian` (over `apt`): OVN and OVS of a Debian release, unpacked, nothing installed.
* `ovn` (over `central`, `chassis`, `layout`, `daemon`, `routers`): the OVN that runs there.
* `entries`, `table` (over `netlink`): conntrack entries made by hand, and an independent reader that judges.
* `live` (over `traffic`): real connections through the conntrack table, and whether they have been harmed.
"""
