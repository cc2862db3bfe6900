"""Where sound comes from: a file, or a sound device by way of its capture process. Nothing is imported here."""
