"""`make demo`: the main job, told on a private, real OVN and the real kernel's conntrack table."""
