"""Measuring models on recordings: nothing in here talks to a daemon."""
