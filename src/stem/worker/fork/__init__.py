"""The fork server, which imports the app once and makes isolates of itself, and the supervisor's connection to it."""
