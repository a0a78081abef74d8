"""Questions of tests to the source and the built package."""
