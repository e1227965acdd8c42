"""The agent: the control loop that owns all state, the executor, the life cycle."""
