"""Recipes that make voiced's own models: voices, synthesis, data, training. The daemon never imports this package."""
