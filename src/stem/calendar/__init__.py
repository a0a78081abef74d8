"""When schedule entries come due. Pure: asks nobody for the time, opens nothing, logs nothing."""
