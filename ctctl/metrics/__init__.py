"""What Prometheus and people read over HTTP: the catalogue, the collectors over a snapshot, the server."""
