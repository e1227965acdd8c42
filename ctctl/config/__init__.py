"""The configuration file: YAML in, frozen typed settings out, every mistake named with its line."""
