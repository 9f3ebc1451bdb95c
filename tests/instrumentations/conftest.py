"""The applications need libraries that the environment of the tests does not have."""

collect_ignore_glob = ["apps/*"]
