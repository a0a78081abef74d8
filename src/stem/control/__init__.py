"""The control plane: ask live workers, and answer for one."""
