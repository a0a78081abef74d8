"""Replays recorded load through the autoscaler over a grid of settings."""
