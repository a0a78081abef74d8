"""The control plane: send commands to live workers, and answer them in a worker."""
