"""Sources: threads that watch something and report events; they decide nothing."""
