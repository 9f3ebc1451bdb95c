"""Changes that an operator makes to the stored state: repartitioning a deployment, repairing a checkpoint."""
