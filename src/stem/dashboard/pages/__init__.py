"""The pages, one file each: what is read for a template."""
