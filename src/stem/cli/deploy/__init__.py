"""`stem deploy`: write what an init system or a container platform needs to run the services of an app."""
