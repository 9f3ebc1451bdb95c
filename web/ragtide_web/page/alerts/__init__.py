"""The screens of alerts: the list, an alert with its evidence, and the replay of its rule."""
