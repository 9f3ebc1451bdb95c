"""Sets a judge up: finds its endpoint, asks one item, shows what each rate costs and sees, and writes the settings."""
