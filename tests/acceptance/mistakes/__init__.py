"""The mistakes people make in their first hour: what they do, and the sentence and exit code they get."""
