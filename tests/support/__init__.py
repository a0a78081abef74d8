"""What tests stand on: real servers, fresh stores, and conditions to wait for."""
