"""Reads a project of another library and says what moving it to Stem takes."""
