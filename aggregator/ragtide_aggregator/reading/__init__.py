"""The read model: estimates, alerts, backlog, dead letters and workspaces of a deployment, as Redis holds them."""
