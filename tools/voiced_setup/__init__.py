"""`voiced-setup`: the environment and the models of an installed voiced. Standard library and voiced's lightest rooms only: it runs
before there is an environment."""
