"""voicectl, the client and workbench of voiced. Of voiced it imports only what voiced.api names."""
