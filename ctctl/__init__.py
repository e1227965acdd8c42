"""ctctl: a Prometheus exporter and flush controller for conntrack in OVN deployments."""

__version__ = "0.1.0"
