"""LISTEN and NOTIFY, and the hand-over of tasks to waiting workers."""
