"""Who may see the dashboard and who may act: hosts, origins, logins, sessions and roles."""
